"""Files: the data folder, Parquet files with their footers and pages, and files beyond the lake."""
