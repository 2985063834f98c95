from itertools import chain

import pyarrow as pa

from platform_plugin.relations.samples.strata import group_positions, strata_of


def test_keys_tell_null_from_text():
    table = pa.table({"a": ["x", None, "x", "None"], "b": pa.array([1, 1, None, 1], pa.int32())})
    numbers, keys = strata_of(table, ["a", "b"])
    assert [keys[number] for number in numbers] == [("x", "1"), (None, "1"), ("x", None), ("None", "1")]
    assert strata_of(table, [])[1] == [()]
    assert sorted(chain.from_iterable(places.tolist() for places in group_positions(table, ["b"]).values())) == [0, 1, 2, 3]
