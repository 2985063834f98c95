"""Maintenance: the loop that lets views and samples take up what has arrived."""
