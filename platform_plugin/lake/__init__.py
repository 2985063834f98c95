"""The lake: a DuckLake 1.0 catalogue, a folder of Parquet files, and the commits that change both."""
