"""History tables: durable relations that are created, filled, changed and dropped by SQL."""
