"""Relations: what can be named in a query. One folder for each kind, and what all kinds share."""
