"""Output: rows for people and for machines, progress, and amounts as people write and read them."""
