"""Samples of a lake whose files are elsewhere: looked at here unless a cluster of Spark's is nearer to them."""

import numpy as np
import pyarrow as pa
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.draw.pieces import read_pieces
from platform_plugin.relations.samples.keys.keys import sample_seed
from platform_plugin.relations.samples.record import find_sample
from platform_plugin.relations.samples.reservoir.local import RelationPart
from platform_plugin.relations.samples.reservoir.local_scan import sample_locally

pytestmark = pytest.mark.postgres


def test_files_of_a_store_are_looked_at_here_unless_spark_is_elsewhere_too(postgres_database, no_unasked_server):
    url = postgres_database.lake_url("memory://elsewhere")
    with Platform.create(url) as platform:
        platform.execute("CREATE TABLE sales (id BIGINT, kind STRING)")
        lake = platform.lake
        assert not lake.storage.is_local
        table = lake.table("sales")
        with lake.commit("load") as commit:
            rows = pa.table({"id": np.arange(9000), "kind": np.array(["a", "b", "c"])[np.arange(9000) % 3]})
            commit.append(table, [lake.write(table, rows.slice(start, 3000)) for start in range(0, 9000, 3000)])
        platform.execute("CREATE SAMPLE kinds ON sales SIZE 30 STRATIFIED BY (kind) WITH (seed = 3)")
        platform.execute("REFRESH SAMPLE kinds")
        found = platform.sample("kinds").arrow()
        assert found.group_by("kind").aggregate([("id", "count")]).column("id_count").to_pylist() == [10, 10, 10]
    with Platform.open(url + "&spark=sc://127.0.0.1:9") as platform:
        lake = platform.lake
        snapshot = lake.snapshot()
        sample = find_sample(lake, lake.table("kinds"), snapshot)
        part = RelationPart(pieces=read_pieces(lake, lake.scan(lake.table("sales"), snapshot)), size=10, seed=sample_seed(3))
        assert sample_locally(platform.work, sample.definition, part) is None
