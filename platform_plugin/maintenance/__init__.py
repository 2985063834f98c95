"""Maintenance: the service that lets views and samples consume what has arrived."""
