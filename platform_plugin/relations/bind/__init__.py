"""Binding a query: what it names is resolved, planned and read, and becomes DataFrames at one snapshot."""
