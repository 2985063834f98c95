"""`AT (GATE => 'passed')` gives what passed a gate last and nothing else, wherever a query may name a relation."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from platform_plugin import Platform
from platform_plugin.errors import InvalidStatement, InvalidValue, RefusedView
from platform_plugin.lake.catalogue.tables import Name

pytestmark = pytest.mark.spark

PASSED = "SELECT id FROM daily AT (GATE => 'passed')"


@pytest.fixture
def platform(tmp_path, spark_server):
    with Platform.create(tmp_path / "lake") as made:
        yield made


def guarded(platform, statement):
    """Run a statement while the table has an open gate."""
    with platform.lake.gates.guarding(Name.of("daily"), lambda *_: None):
        platform.execute(statement)


def rows(platform, query):
    return sorted(row[0] for row in platform.execute(query))


def test_only_what_passed_is_read(platform, tmp_path):
    platform.execute("CREATE TABLE daily AS SELECT 1 AS id")
    with pytest.raises(InvalidValue, match=r'no version of table "main\.daily" has passed a gate'):
        platform.execute(PASSED)
    guarded(platform, "CREATE OR REPLACE TABLE daily AS SELECT 2 AS id")
    platform.execute("INSERT INTO daily VALUES (-1)")
    with pytest.raises(RefusedView, match="a view names no snapshot"):
        platform.execute(f"CREATE VIEW shown AS {PASSED}")
    platform.execute("CREATE OR REPLACE TABLE daily AS SELECT -2 AS id, 'x' AS other")
    for query in (PASSED, "SELECT d.id FROM main.daily AT (GATE => 'passed') AS d WHERE d.id > 0", f"SELECT id FROM ({PASSED})"):
        assert rows(platform, query) == [2]
    platform.execute(f"CREATE TABLE copied AS {PASSED}")
    assert rows(platform, "SELECT id FROM copied") == [2]
    assert rows(platform, "SELECT id FROM daily") == [-2]
    engine = sa.create_engine(f"platform+local://{tmp_path / 'lake'}")
    with engine.connect() as connection:
        assert connection.execute(sa.text(PASSED)).scalars().all() == [2]
    engine.dispose()


def test_what_has_no_version_that_passed_is_refused(platform):
    platform.execute("CREATE STREAM daily (id INT)")
    guarded(platform, "INSERT INTO daily VALUES (1)")
    with pytest.raises(InvalidValue, match=r'stream "main\.daily" has no versions that pass a gate: each batch'):
        platform.execute(PASSED)
    with pytest.raises(InvalidStatement, match="a snapshot is named by one value"):
        platform.execute("SELECT id FROM daily AT (GATE => 'open')")
