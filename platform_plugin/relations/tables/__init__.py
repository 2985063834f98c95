"""Tables: the statements that create, fill, change and describe history tables."""
