"""Drawing samples from the rows of one snapshot, for samples of tables, views and other samples."""
