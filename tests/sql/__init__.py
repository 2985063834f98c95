"""SQL behaviour, tested in SQL: one `.test` file a topic."""
