"""Sessions: a client's connection to a Spark server, with its jobs, their rows, metrics and errors."""
