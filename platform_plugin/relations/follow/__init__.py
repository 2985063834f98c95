"""Following a relation: the row ranges of a stream, and the columns with each row's number and arrival time."""
