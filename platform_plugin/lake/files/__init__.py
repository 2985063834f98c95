"""Files: the data folder, writing and describing Parquet files, single pages of them, and files outside the lake."""
