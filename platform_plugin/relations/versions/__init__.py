"""Versions: the snapshot that a statement names, the changes between two, and the version that passed a gate last."""
