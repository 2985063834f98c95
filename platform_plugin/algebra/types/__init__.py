"""Types: data types and fields as values, the rules by which Spark widens and infers them, and their text in catalogues."""
