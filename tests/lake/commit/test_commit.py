"""One commit, one snapshot: rows of `platform_*` tables and of relations together, on what the commit expected."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CommitConflict, InvalidValue
from platform_plugin.lake.catalogue import catalogue as c
from tests.lake.agreement import append, assert_agree, create, rows_of

ROWS = pa.table({"i": [1, 2]})
WATERMARKS = sa.Table(
    "platform_test_watermark",
    sa.MetaData(),
    sa.Column("view", sa.String, primary_key=True),
    sa.Column("source", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger),
)


def watermarks(lake):
    with lake.reading() as connection:
        return {(row.view, row.source): row.snapshot_id for row in connection.execute(sa.select(WATERMARKS))}


def test_notes_and_rows_become_visible_together(lake, reader):
    table = create(lake, "t", ROWS)
    with lake.commit("both") as commit:
        commit.append(table, [lake.write(table, ROWS)])
        commit.put(WATERMARKS, view="v", source="t", snapshot_id=7)
        commit.put(WATERMARKS, view="v", source="u", snapshot_id=8)
    assert watermarks(lake) == {("v", "t"): 7, ("v", "u"): 8}
    refused = lake.commit("neither")
    refused.append(table, [lake.write(table, ROWS)])
    refused.put(WATERMARKS, view="v", source="t", snapshot_id=9)
    refused.put(WATERMARKS, {"snapshot_id": 1}, view="v", source="u", snapshot_id=9)
    with pytest.raises(CommitConflict), refused:
        pass
    assert watermarks(lake) == {("v", "t"): 7, ("v", "u"): 8}
    assert lake.read("t").num_rows == 4
    with lake.commit("forget") as commit:
        commit.forget(WATERMARKS, {"snapshot_id": 7}, view="v", source="t")
    assert watermarks(lake) == {("v", "u"): 8}
    assert_agree(lake, reader)


def test_expectations(lake):
    with lake.commit("first") as commit:
        commit.put(WATERMARKS, None, view="v", source="t", snapshot_id=1)
    for expected, match in ((None, "is there already"), ({"snapshot_id": 2}, "has snapshot_id = 1, expected 2")):
        with pytest.raises(CommitConflict, match=match), lake.commit("refused") as commit:
            commit.put(WATERMARKS, expected, view="v", source="t", snapshot_id=3)
    with pytest.raises(CommitConflict, match="has snapshot_id = None, expected 1"), lake.commit("refused") as commit:
        commit.forget(WATERMARKS, {"snapshot_id": 1}, view="other", source="t")
    with lake.commit("moved on") as commit:
        commit.put(WATERMARKS, {"snapshot_id": 1}, view="v", source="t", snapshot_id=2)
    assert watermarks(lake) == {("v", "t"): 2}


def test_a_conflict_names_both_commits(lake):
    base = lake.snapshot()
    with lake.commit("theirs", author="Ada") as commit:
        commit.put(WATERMARKS, view="v", source="t", snapshot_id=1)
    with pytest.raises(CommitConflict) as conflict, lake.commit("mine", base=base, author="Grace") as commit:
        commit.put(WATERMARKS, None, view="v", source="t", snapshot_id=2)
    assert conflict.value.message.startswith(f'commit "mine" by Grace based on snapshot {base.id} conflicts')
    assert f'snapshot {base.id + 1} "theirs" by Ada' in conflict.value.detail
    assert conflict.value.hint


def test_expect_unchanged(lake, reader):
    table, other = create(lake, "t", ROWS), create(lake, "u", ROWS)
    append(lake, table, ROWS)

    def refused(change):
        base = lake.snapshot()
        change()
        with pytest.raises(CommitConflict, match=r'"main\.t" was changed'), lake.commit("mine", base=base) as commit:
            commit.expect_unchanged(other, table)

    refused(lambda: append(lake, table, ROWS))
    refused(lambda: reader.execute("INSERT INTO t VALUES (5)"))
    refused(lambda: reader.execute("DELETE FROM t WHERE i = 5"))
    refused(lambda: reader.execute("COMMENT ON TABLE t IS 'new'"))
    base = lake.snapshot()
    append(lake, other, ROWS)
    lake.merge("t")
    reader.execute("CALL ducklake_merge_adjacent_files('lake')")
    with lake.commit("rows only moved", base=base) as commit:
        commit.expect_unchanged(table)
        commit.append(other, [lake.write(other, ROWS)])


def test_a_table_dropped_meanwhile_is_a_conflict(lake, reader):
    table = create(lake, "t", ROWS)
    file = lake.write(table, ROWS)
    reader.execute("DROP TABLE t")
    with pytest.raises(CommitConflict, match="dropped"), lake.commit("late") as commit:
        commit.append(table, [file])


def test_what_a_commit_says_of_itself(lake, reader):
    create(lake, "t", ROWS)
    with lake.commit("it's a message", author="Ada", notes={"run": "7"}) as commit:
        commit.append(lake.table("t"), [lake.write(lake.table("t"), ROWS)])
    record = lake.commits(limit=1)[0]
    assert (record.id, record.author, record.message, record.changes) == (2, "Ada", "it's a message", "inserted_into_table:1")
    assert json.loads(record.notes)["run"] == "7"
    assert str(record) == 'snapshot 2 "it\'s a message" by Ada (inserted_into_table:1)'
    found = reader.rows("SELECT snapshot_id, author, commit_message FROM ducklake_snapshots('lake') ORDER BY 1")
    assert found[-1] == (2, "Ada", "it's a message")


def test_duckdb_understands_every_word_of_our_changes(lake, reader):
    """A word that it does not know would make its own concurrent commits fail."""
    table = create(lake, "t", ROWS)
    with lake.commit("many words") as commit:
        commit.create_schema("s")
        commit.create_view("v", "SELECT 1")
        commit.add_column(table, lake.columns_of(pa.schema([("n", pa.int32())]))[0])
    with lake.commit("more") as commit:
        commit.drop_schema("s")
        commit.drop_view(lake.views()[0])
        commit.rename_table(lake.table("t"), "u")
    append(lake, lake.table("u"), pa.table({"i": [1]}))
    lake.merge("u")
    with lake.commit("nothing but a note") as commit:
        commit.put(WATERMARKS, view="v", source="t", snapshot_id=1)
    changes = reader.rows("SELECT snapshot_id, changes FROM ducklake_snapshots('lake') ORDER BY 1")
    assert [row[0] for row in changes] == list(range(lake.snapshot().id + 1))
    if not lake.location.is_local:  # on SQLite a transaction of DuckDB that began to read can't write once somebody else has
        reader.execute("BEGIN")
        reader.execute("INSERT INTO u(i) VALUES (9)")
        append(lake, lake.table("u"), pa.table({"i": [2]}))
        lake.merge("u")
        reader.execute("COMMIT")
        assert (9, None) in rows_of(lake.read("u"))
    assert_agree(lake, reader)


def test_a_finished_commit_takes_nothing_more(lake):
    with lake.commit("done") as commit:
        commit.put(c.PLATFORM_LAKE, key="k", value="v")
    with pytest.raises(InvalidValue, match="finished"):
        commit.put(c.PLATFORM_LAKE, key="k", value="w")


def test_another_process_sees_a_commit_at_once(lake, lake_url):
    create(lake, "t", ROWS)
    program = f"from platform_plugin.lake.lake import Lake; print(Lake.open({lake_url!r}).read('t').num_rows)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout == "2\n"
