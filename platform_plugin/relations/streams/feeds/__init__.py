"""Feeds: a stream reads each row of files, a topic or a table once; records that do not fit go to its quarantine."""
