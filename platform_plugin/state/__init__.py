"""Stored state of maintained relations: nodes and who uses them, changes, keyed stores, their compaction and copies for fast look-ups."""
