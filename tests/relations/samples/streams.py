"""Streams and tables for tests of samples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from platform_plugin.relations.samples.keys.keys import sample_seed
from platform_plugin.relations.samples.keys.ladders import LadderKeys

COLUMNS = "id INT, kind STRING, score INT"


def rows(first, last):
    """Rows of these numbers; their kind is one of three, the first of which is rare."""
    numbers = range(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "kind": ["rare" if number % 50 == 0 else "ab"[number % 2] for number in numbers],
            "score": pa.array([number * 7 % 100 for number in numbers], pa.int32()),
        }
    )


def append(platform, relation, first, last, *, files=1):
    """Add rows in one commit."""
    lake = platform.lake
    table = lake.table(relation)
    whole = rows(first, last)
    step = -(-whole.num_rows // files)
    with lake.commit(f"{first} to {last}") as commit:
        commit.append(table, [lake.write(table, whole.slice(start, step)) for start in range(0, whole.num_rows, step)])


def counted_keys(seed, first, last):
    """The keys that rows with these ids have in a sample that only counts them."""
    return LadderKeys(sample_seed(seed)).of(np.arange(first, last))


def ids(platform, sample):
    """The numbers of the rows that a sample holds now."""
    return sorted(platform.sample(sample).arrow().column("id").to_pylist())
