"""Relations that Python declares, without SQL files: what visitors search for."""

from __future__ import annotations

from platform_plugin.orchestration import continuous_view, history_table, sample, stream

searches = stream(
    "searches",
    {"visitor": "STRING", "term": "STRING", "hits": "INT", "searched_at": "TIMESTAMP"},
    retention="1 hour",
    description="Searches in the web shop, pushed as they are made.",
    owners=["team:range"],
)

searches_sample = sample("searches_sample", "searches", 500, description="Five hundred searches of all that were ever made.")


@continuous_view(target_lag="30 seconds", start="earliest", owners=["team:range"])
def search_terms() -> str:
    """How often each term is searched for, and how often in vain."""
    return "SELECT term, count(*) AS searches, count_if(hits = 0) AS in_vain FROM searches GROUP BY term"


@history_table(owners=["team:range"])
def missing_products() -> str:
    """Terms that are mostly searched for in vain, when this was last built."""
    return "SELECT term, searches FROM search_terms WHERE in_vain * 2 > searches"
