"""Local reservoirs drawn by tasks of a Spark job: each reads a share of the files, and the rows of the sample alone come to the client."""
