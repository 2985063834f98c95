"""Values: the assignment rule, defaults, DuckDB's text forms, and the Arrow, Spark and SQLAlchemy types of each type."""
