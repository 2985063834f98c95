"""The Arrow kernel: runs plans over Arrow tables with Spark's answers, and leaves to Spark whatever might differ."""
