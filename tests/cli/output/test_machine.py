import csv
import io
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from platform_plugin.cli.output.machine import distinct_names, json_value, write_csv, write_json
from platform_plugin.relations.result import Result

SNAPSHOT = SimpleNamespace(id=7)


def written(write, table, limit=None):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", newline="")
    count = write(Result(table, snapshot=SNAPSHOT), out, limit)
    out.flush()
    return raw.getvalue().decode(), count


@given(st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text()), max_size=20))
def test_json_lines_keep_every_value(rows):
    table = pa.table({"n": pa.array([row[0] for row in rows], pa.int64()), "t": pa.array([row[1] for row in rows], pa.string())})
    text, count = written(write_json, table)
    assert count == len(rows)
    assert [tuple(json.loads(line).values()) for line in text.split("\n")[:-1]] == rows


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")), st.integers(-9, 9)), max_size=20))
def test_csv_is_read_back_by_another_reader(rows):
    table = pa.table({"a b": pa.array([row[0] for row in rows], pa.string()), 'q"': pa.array([row[1] for row in rows], pa.int64())})
    text, count = written(write_csv, table)
    head, *body = csv.reader(io.StringIO(text, newline=""))
    assert (head, count) == (["a b", 'q"'], len(rows))
    assert [(text, int(number)) for text, number in body] == rows


def test_csv_tells_null_from_empty():
    assert written(write_csv, pa.table({"a": pa.array([None, ""], pa.string()), "n": [1, 2]}))[0] == 'a,n\n,1\n"",2\n'


def test_csv_has_a_form_for_every_type():
    table = pa.table(
        {
            "l": pa.array([[1, None]]),
            "s": pa.array([{"x": Decimal("1.10")}]),
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "b": pa.array([b"\xff\x00"]),
            "t": pa.array([datetime(2026, 1, 2, tzinfo=UTC)]),
            "d": pa.array([Decimal("3.50")]),
        }
    )
    _, row = csv.reader(io.StringIO(written(write_csv, table)[0]))
    assert row == ["[1, null]", '{"x": "1.10"}', '{"k": 1}', "ff00", "2026-01-02T00:00:00+00:00", "3.50"]


def test_a_limit_fetches_no_more():
    fetched = []

    def batches():
        for number in range(100):
            fetched.append(number)
            yield pa.record_batch({"n": [number, number]})

    result = SimpleNamespace(columns=["n"], batches=batches, snapshot=SNAPSHOT)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert write_json(result, out, 5) == 5
    assert len(fetched) == 3


def test_columns_of_one_name_are_all_kept():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert json.loads(written(write_json, table)[0]) == {"id": 1, "id_2": 2}


@given(st.lists(st.sampled_from(["a", "a_2", "a_3", "b", ""]), max_size=8))
def test_names_become_distinct_and_none_is_lost(names):
    found = distinct_names(names)
    assert len(set(found)) == len(names)
    assert all(new == old or new.startswith(f"{old}_") for new, old in zip(found, names, strict=True))


@given(st.floats())
def test_what_is_no_json_number_is_a_string(value):
    text = json.dumps(json_value(value), allow_nan=False)
    assert float(json.loads(text)) == value or math.isnan(value)


def test_a_statement_without_rows_is_one_object():
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    result = Result(pa.table({}), snapshot=SNAPSHOT, message="3 rows written to main.t", row_count=3)
    write_json(result, out, None)
    out.flush()
    assert json.loads(out.buffer.getvalue()) == {"message": "3 rows written to main.t", "row_count": 3, "snapshot": 7}
