"""Following: the rows of a stream as they arrive, one by one or as the sessions of a query."""
