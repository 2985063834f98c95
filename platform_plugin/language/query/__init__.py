"""Queries: what the text of a query touches and needs, and how it is handed to an engine."""
