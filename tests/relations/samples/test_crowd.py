"""Several processes that append, insert and maintain at once: the samples are what the keys of all rows say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from platform_plugin.platform import Platform
from platform_plugin.relations.samples.keys.keys import keys_between, sample_seed
from tests.relations.samples.streams import counted_keys

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_crowd(lake_url):
    with Platform.create(lake_url) as platform:
        platform.execute("CREATE STREAM posts (id BIGINT, kind STRING)")
        platform.execute("CREATE SAMPLE s ON posts SIZE 50 WITH (seed = 1)")
        platform.execute("CREATE SAMPLE w ON posts SIZE 20 WITH (window = '5000 rows', seed = 1)")
        platform.execute("CREATE SAMPLE g ON posts SIZE 50 STRATIFIED BY (kind) WITH (seed = 1)")
        crowd = [
            subprocess.Popen([sys.executable, "-m", "tests.relations.samples.crowd", lake_url, str(seed), what, str(times)], cwd=ROOT)
            for seed, (what, times) in enumerate([("append", 100), ("append", 100), ("insert", 80), ("maintain", 100)])
        ]
        assert [each.wait(300) for each in crowd] == [0] * len(crowd)
        everything = platform.lake.read("posts")
        rows, kinds = everything.column("id").to_numpy(), np.array(everything.column("kind").to_pylist())
        keys, counted = keys_between(sample_seed(1), 0, len(rows)), counted_keys(1, 0, len(rows))
        by_kind = {kind: np.flatnonzero(kinds == kind) for kind in sorted(set(kinds.tolist()))}

        def held(name):
            return sorted(platform.sample(name).arrow().column("id").to_pylist())

        assert held("s") == sorted(rows[np.argsort(counted)[:50]].tolist())
        assert held("w") == sorted(rows[-5000:][np.argsort(counted[-5000:])[:20]].tolist())
        assert held("g") == sorted(rows[np.concatenate([own[np.argsort(keys[own])[:10]] for own in by_kind.values()])].tolist())
        assert platform.sample("g").cardinalities == {(kind,): len(own) for kind, own in by_kind.items()}
