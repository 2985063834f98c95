"""Retired tables: what a program of before there were versions says when it meets one, and that others do not mind."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.errors import CatalogueError
from platform_plugin.lake.migrations.retired import WORDS, retire_table
from tests.lake.agreement import assert_agree, create

# As an older program declares it.
OLD = sa.Table(
    "platform_progress_of_old",
    sa.MetaData(),
    sa.Column("owner", sa.String, primary_key=True),
    sa.Column("next_row_id", sa.BigInteger, nullable=False),
    sa.Column("moved_at", sa.DateTime(timezone=True)),
    sa.Column("rows", sa.LargeBinary),
)


@pytest.fixture
def retired(lake):
    """A lake in which the table of an older program is retired."""
    with lake.writing() as connection:
        OLD.create(connection)
        connection.execute(sa.insert(OLD).values(owner="a", next_row_id=3))
    with lake.writing() as connection:
        retire_table(connection, OLD.name)
        retire_table(connection, "platform_table_that_never_was")
    return lake


@pytest.mark.parametrize(
    "statement",
    [
        sa.select(OLD),
        sa.select(OLD.c.next_row_id).where(OLD.c.owner == "a"),
        sa.insert(OLD).values(owner="b", next_row_id=1),
        sa.update(OLD).where(OLD.c.owner == "a").values(next_row_id=4),
        sa.delete(OLD).where(OLD.c.owner == "a"),
    ],
)
def test_each_statement_of_an_older_program_is_told_why_it_fails(retired, statement):
    with pytest.raises(CatalogueError) as raised, retired.writing() as connection:
        connection.execute(statement).all()
    assert WORDS in str(raised.value.detail)


def test_an_older_program_does_not_make_the_table_anew(retired):
    def use():
        with retired.writing() as connection:
            # SQLite's answer to whether there is such a table is the refusal already.
            OLD.create(connection, checkfirst=True)
            connection.execute(sa.select(OLD)).all()

    with pytest.raises(CatalogueError) as raised:
        use()
    assert WORDS in str(raised.value.detail)


def test_another_client_reads_and_writes_the_lake_as_before(retired, lake_url, duck):
    create(retired, "t", pa.table({"i": [1, 2]}))
    reader = duck(lake_url)
    reader.execute("INSERT INTO t VALUES (3)")
    reader.execute("CREATE TABLE u AS SELECT i FROM t")
    assert reader.rows("SELECT count(*) FROM (SHOW ALL TABLES)") != [(0,)]
    reader.execute("CALL ducklake_expire_snapshots('lake', versions => [1])")
    reader.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")
    reader.end()
    assert_agree(retired, duck(lake_url))
