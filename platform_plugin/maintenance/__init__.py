"""Maintenance: the loop in which views and samples consume what has arrived."""
