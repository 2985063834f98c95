"""Spark: one platform server for all processes of a user, and sessions on it or on an endpoint that somebody else runs."""
