"""The catalogue: its tables in a database, how a lake is founded and found, and its relations as values."""
