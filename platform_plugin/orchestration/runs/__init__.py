"""Runs: the jobs and steps that maintain, ingest and build relations, and what they report to Dagster."""
