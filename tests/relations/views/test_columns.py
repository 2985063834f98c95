"""Columns that are told without Spark are those that Spark gives, and what is certain is created without Spark."""

from __future__ import annotations

import pytest

from platform_plugin.engine.workspace import Workspace
from platform_plugin.errors import PlatformError, RefusedView
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.platform import Platform
from platform_plugin.relations.views.columns import ask_columns, infer_columns
from platform_plugin.relations.views.plans import prepare_plan
from platform_plugin.relations.views.read.view import split_name
from tests.relations.views.admitted import ADMITTED
from tests.relations.views.composed import COLUMNS


def create(tmp_path):
    made = Platform.create(tmp_path / "lake")
    for name, columns in COLUMNS.items():
        listed = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        made.execute(f"CREATE {'TABLE' if name == 'users' else 'STREAM'} {name} ({listed})")
    made.execute("INSERT INTO users VALUES (1, 'EU', 1.5), (2, NULL, 0.25)")
    return made


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A lake on a machine that has no Spark."""

    def refuse(work):
        raise AssertionError("Spark was asked")

    with create(tmp_path) as made:
        monkeypatch.setattr(Workspace, "session", property(refuse))
        yield made


CERTAIN = {
    "null keys": ADMITTED["null keys"],
    "decimals": "SELECT uid, sum(amount) AS s, min(amount) AS a, max(at) AS t FROM posts GROUP BY uid",
    "a filter": "SELECT content, count(*) AS n FROM posts WHERE score > 3 AND ratio IS NOT NULL GROUP BY content HAVING count(*) > 1",
    "a table looked up": "SELECT u.region, count(*) AS n FROM posts p JOIN users u ON u.id = p.uid GROUP BY u.region",
    "a table above": "SELECT u.region, p.n FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p JOIN users u ON u.id = p.uid",
    "two streams": "SELECT p.uid, p.n, l.w FROM (SELECT uid, count(*) AS n FROM posts GROUP BY uid) p "
    "JOIN (SELECT uid, sum(weight) AS w FROM likes GROUP BY uid) l ON l.uid = p.uid",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_a_view_of_certain_types_is_created_without_spark(alone, name):
    alone.execute(f"CREATE VIEW v AS {CERTAIN[name]}")
    assert [row[0] for row in alone.execute("SHOW VIEWS")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT content + 1 AS c, count(*) AS n FROM posts GROUP BY content + 1",  # a cast that only Spark makes
        "SELECT uid, sum(content) AS s FROM posts GROUP BY uid",
        "SELECT uid, sum(liked) AS s FROM likes GROUP BY uid",  # wrong: there is no sum of booleans
        "SELECT uid, count(*) AS n FROM posts WHERE score GROUP BY uid",  # wrong: no condition
        "SELECT uid, count(*) AS n FROM posts WHERE uid = content GROUP BY uid",
        "SELECT uid, count(*) AS n FROM posts WHERE day > 3 GROUP BY uid",
        "SELECT tags, count(*) AS n FROM posts GROUP BY tags",
        "SELECT uid, upper(content, 1) AS c, count(*) AS n FROM posts GROUP BY ALL",
    ],
)
def test_what_is_not_certain_is_asked(alone, query):
    with pytest.raises((AssertionError, PlatformError)) as caught:
        alone.execute(f"CREATE VIEW v AS {query}")
    assert "Spark was asked" in str(caught.value) or isinstance(caught.value, PlatformError)
    assert not list(alone.execute("SHOW VIEWS"))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_columns_told_without_spark_are_those_that_spark_gives(tmp_path, spark_server):
    told = {}
    with create(tmp_path) as platform:
        snapshot = platform.lake.snapshot()
        for name, text in [*ADMITTED.items(), *CERTAIN.items()]:
            try:
                plan, _ = prepare_plan(platform.work, text, snapshot)
            except RefusedView:
                continue
            streams = {stream: platform.lake.table(split_name(stream), snapshot) for stream in plan.stream_names}
            inferred = infer_columns(platform.work, plan, streams, snapshot, {})
            if inferred is None:
                continue
            asked = ask_columns(platform.work, Name.of(name), plan, streams, snapshot, is_deferred=False, whole=None)
            assert dict(inferred.fields) == dict(asked.fields), name
            for part, rows in inferred.rows.items():
                assert sorted(map(repr, rows.to_pylist())) == sorted(repr(row.asDict()) for row in asked.frames[part].collect())
            told[name] = len(asked.fields)
    print(f"{len(told)} of {len(ADMITTED) + len(CERTAIN)} definitions need no Spark to be created")
    assert len(told) > len(CERTAIN) + 10


@pytest.mark.spark
def test_spark_is_asked_once(tmp_path, spark_server, monkeypatch):
    with create(tmp_path) as platform:
        platform.execute("SELECT 1").close()
        asked = []
        client = platform.work.session.spark.client
        analyze = client._analyze
        monkeypatch.setattr(client, "_analyze", lambda method, **named: asked.append(method) or analyze(method, **named))
        platform.execute("CREATE VIEW v AS SELECT soundex(content) AS sound, count(*) AS n FROM posts GROUP BY 1")
        assert asked == ["schema"]
        platform.execute("CREATE VIEW w AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid")
        assert asked == ["schema"]
