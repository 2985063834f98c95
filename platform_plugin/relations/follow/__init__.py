"""Following a relation: its row ranges, its changes, and the numbers and times of its rows."""
