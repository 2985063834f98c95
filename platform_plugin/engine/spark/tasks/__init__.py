"""The kernel as tasks of a Spark job: each reads a share of an input's files, and writes the files that its rows become."""
