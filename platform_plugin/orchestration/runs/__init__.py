"""Runs: what a run of Dagster does for many relations, and what it reports of each."""
