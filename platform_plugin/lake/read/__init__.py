"""Reading: the scan of a table, its rows as Arrow with today's columns, and the change feed between snapshots."""
