"""Keys: a reproducible random number for each row; the rows of a relation with the lowest keys are its sample."""
