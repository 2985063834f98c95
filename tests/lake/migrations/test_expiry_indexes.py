"""The indexes by which an expiry finds files that have ended."""

import pyarrow as pa
import pytest
import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c
from platform_plugin.lake.upkeep.expire import is_unreachable
from tests.lake.agreement import create


@pytest.mark.parametrize("lake_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("table", [c.DATA_FILE, c.DELETE_FILE])
def test_an_expiry_looks_only_at_files_that_have_ended(lake, table):
    create(lake, "t", pa.table({"i": [1, 2]}))
    query = sa.select(table).where(is_unreachable(table))
    with lake.reading() as connection:
        text = str(query.compile(connection.engine, compile_kwargs={"literal_binds": True}))
        plan = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")]
    assert "_by_end" in plan[0], plan
