"""The lake: a DuckLake 1.0 catalogue over SQLAlchemy, Parquet files over fsspec and pyarrow, and the commit between them."""
