"""`find_slot`: the pool of Dagster whose places a run takes: one for each cluster, so that the runs of a cluster are limited together."""

from __future__ import annotations

import re

from platform_plugin.engine.distance import is_here
from platform_plugin.orchestration.sensors.firing import USUAL_POOL


def name_cluster(endpoint: str | None) -> str:
    """The pool of a Spark endpoint; that of this machine's own server is the usual one.

    >>> name_cluster("sc://spark.internal:15002/;token=secret"), name_cluster(None), name_cluster("sc://localhost:15002")
    ('spark_spark_internal_15002', 'spark', 'spark')
    """
    if endpoint is None or is_here(endpoint):
        return USUAL_POOL
    place = re.sub(r"[^A-Za-z0-9]+", "_", endpoint.removeprefix("sc://").split("/", 1)[0]).strip("_")
    return f"{USUAL_POOL}_{place}"


def find_slot(pool: str, endpoint: str | None, *, upkeep: str = "maintain") -> str | None:
    """The pool that a run of an upkeep waits for; None if it waits for nobody.

    Views of a pool with a name of its own keep that one. Runs that read feeds or merge samples wait for others only on a cluster.

    >>> find_slot("spark", None), find_slot("slow", "sc://far:1"), find_slot("samples", "sc://far:1", upkeep="sample")
    ('spark', 'slow', 'spark_far_1')
    >>> find_slot("samples", None, upkeep="sample") is None
    True
    """
    cluster = name_cluster(endpoint)
    if upkeep == "maintain":
        return cluster if pool == USUAL_POOL else pool
    return None if cluster == USUAL_POOL else cluster
