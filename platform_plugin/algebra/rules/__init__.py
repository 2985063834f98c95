"""Rules on the plan of a query that is read: what each relation must give, what Spark is to do otherwise, and what needs no engine."""
