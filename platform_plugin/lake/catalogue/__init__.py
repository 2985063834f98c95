"""The catalogue: its tables in SQLite or PostgreSQL, the creation of a lake, and snapshots and relations as values."""
