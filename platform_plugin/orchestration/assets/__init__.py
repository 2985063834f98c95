"""Assets: each relation as Dagster shows it, with its checks, lineage, partitions and inputs."""
