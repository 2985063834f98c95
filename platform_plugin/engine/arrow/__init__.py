"""The Arrow kernel: runs plans over Arrow tables with Spark's answers; what it is not certain of it leaves to Spark."""
