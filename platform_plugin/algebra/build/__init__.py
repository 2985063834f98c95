"""Building: sqlglot's tree of a Spark query becomes a plan."""
