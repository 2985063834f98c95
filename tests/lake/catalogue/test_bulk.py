"""Rows go in and change together, whatever their number, and read as they were given."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.catalogue.bulk import insert_rows, update_rows

THINGS = sa.Table(
    "platform_things",
    sa.MetaData(),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("text", sa.String),
    sa.Column("flag", c.Flag),
    sa.Column("moment", c.UtcTimestamp),
    sa.Column("identity", c.Identity),
    sa.Column("odd name, 'x' % :y", sa.BigInteger),
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
TEXTS = ("plain", "", "NULL", "null", "it's", 'a"b', "{a,b}", "a\\b", "é🦆", None, " x ", "%s")


def row(number: int, text: str | None) -> dict[str, object]:
    return {
        "number": number,
        "text": text,
        "flag": (True, False, None)[number % 3],
        "moment": MOMENT if number % 2 else None,
        "identity": UUID(int=number) if number % 2 else None,
        "odd name, 'x' % :y": 2**40 + number if number % 5 else None,
    }


@pytest.mark.parametrize("count", [1, 2, len(TEXTS), 2000])
def test_rows_read_as_they_were_given(lake, count):
    lake.prepare_tables([THINGS])
    rows = [row(number, TEXTS[number % len(TEXTS)]) for number in range(count)]
    with lake.writing() as connection:
        insert_rows(connection, THINGS, rows)
        found = [dict(found._mapping) for found in connection.execute(sa.select(THINGS).order_by(THINGS.c.number))]
        assert found == rows
        changed = [row(number, "changed") for number in range(0, count, 2)]
        update_rows(connection, THINGS, [{"number": new["number"]} for new in changed], [{**new, "flag": True} for new in changed])
        found = [dict(found._mapping) for found in connection.execute(sa.select(THINGS).order_by(THINGS.c.number))]
    assert found == [old if old["number"] % 2 else {**old, "text": "changed", "flag": True} for old in rows]


def test_what_a_row_lacks_is_null(lake):
    lake.prepare_tables([THINGS])
    with lake.writing() as connection:
        insert_rows(connection, THINGS, [{"number": 1}, {"number": 2, "text": "two"}, {"number": 3, "flag": False}])
        found = connection.execute(sa.select(THINGS.c.number, THINGS.c.text, THINGS.c.flag).order_by(THINGS.c.number)).all()
    assert [tuple(each) for each in found] == [(1, None, None), (2, "two", None), (3, None, False)]


def test_a_column_of_nulls_keeps_its_type(lake):
    lake.prepare_tables([THINGS])
    with lake.writing() as connection:
        insert_rows(connection, THINGS, [{"number": number, "moment": None, "identity": None, "flag": None} for number in range(3)])
        update_rows(connection, THINGS, [{"number": 0}, {"number": 1}], [{"moment": None, "text": None}] * 2)
        assert connection.execute(sa.select(sa.func.count()).where(THINGS.c.moment.is_(None))).scalar() == 3
