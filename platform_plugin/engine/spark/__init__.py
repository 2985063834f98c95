"""Spark: the platform server, sessions on it or on another Connect endpoint, and DataFrames of the lake."""
