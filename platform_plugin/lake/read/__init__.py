"""Reading: the files of a scan, their rows as Arrow in the shape of today, and the change feed between snapshots."""
