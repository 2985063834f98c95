"""Data types and fields as values, Spark's rules for the types of expressions, and byte values in catalogue text."""
