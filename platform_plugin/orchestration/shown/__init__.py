"""What Dagster shows: metadata, charts and drawings."""
