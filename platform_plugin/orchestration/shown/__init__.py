"""What Dagster shows: metadata of assets, charts over time, and drawings of lineage, plans and samples."""
