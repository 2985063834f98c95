"""Queries: which relations, columns and rows a query's text reads, and how it is rendered for Spark."""
