"""Following a stream: rows in their order of arrival, one by one or as the sessions of a query."""
