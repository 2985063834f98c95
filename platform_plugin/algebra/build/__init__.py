"""Building a plan from sqlglot's tree of a Spark query."""
