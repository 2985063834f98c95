"""SELECT at one snapshot, look-ups without Spark, EXPLAIN, SHOW, DESCRIBE, and the overview of a lake."""
