"""Output: rows for people and for machines, progress, and the texts of durations and sizes."""
