"""Benchmarks: each prints a table and writes JSON. Never part of a test run."""
