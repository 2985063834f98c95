"""Plans: a query as a tree of frozen values, how it is changed and drawn, and how it becomes Spark SQL."""
