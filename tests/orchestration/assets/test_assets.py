import logging
import sys

import dagster as dg
import pytest

from platform_plugin import Platform
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.orchestration.assets import assets
from platform_plugin.orchestration.assets.inventory import read_inventory
from platform_plugin.orchestration.assets.translator import Translator
from tests.orchestration.conftest import IMPACT, POSTS, USERS


def test_files_are_assets_before_there_is_a_lake(shop, caplog):
    with caplog.at_level(logging.WARNING):
        specs = shop.specs()
    assert set(specs) == {"users", "posts", "impact/impact_base", "impact", "prices"}
    assert "only the SQL files are loaded: there is no lake at " in caplog.text
    assert " yet; the first run creates it, or create one with" in caplog.text
    assert "platform init" in specs["users"].metadata["lake"]
    assert not shop.lake.exists()
    assert {name: (spec.group_name, spec.kinds) for name, spec in specs.items()} == {
        "users": ("tables", {"table", "spark"}),
        "posts": ("streams", {"stream", "spark"}),
        "impact/impact_base": ("views", {"base", "spark"}),
        "impact": ("views", {"view", "spark"}),
        "prices": ("results", {"table", "spark"}),
    }
    assert {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in specs.items()} == {
        "users": set(),
        "posts": set(),
        "impact/impact_base": {"posts"},
        "impact": {"impact/impact_base", "posts"},
        "prices": {"impact", "users"},
    }


def test_a_suite_that_can_not_be_checked_is_told(shop, caplog, monkeypatch):
    text = "engine: {}\nexpectations: [{{type: expect_column_values_to_be_unique, kwargs: {{column: id}}}}]"
    (shop.folder / "users.expectations.yml").write_text(text.format("arrow"))
    (shop.folder / "prices.expectations.yml").write_text(text.format("spark"))
    monkeypatch.setattr(assets, "has_gallery", lambda: False)
    with caplog.at_level(logging.WARNING):
        shop.specs()
    assert "the suites of main.users can't be checked: Great Expectations is not installed; " in caplog.text
    assert "[quality]" in caplog.text


def test_declared_columns_are_described(shop):
    shop.write(users_yml="columns: {id: who}")
    schema = shop.specs()["users"].metadata["dagster/column_schema"]
    assert [(column.name, column.type, column.description) for column in schema.columns] == [
        ("id", "int", "who"),
        ("region", "string", "where"),
        ("rate", "decimal(9,2)", None),
    ]
    assert [column.constraints.nullable for column in schema.columns] == [False, True, True]
    assert schema.columns[0].constraints.other == ["primary key"]


def test_the_description_is_short_and_the_statement_stands_beside_it(shop):
    users = shop.specs()["users"]
    assert users.description == "Who posts."
    assert users.metadata["sql"].value.startswith("```sql\nCREATE TABLE users")


def test_relations_of_the_lake_are_assets_with_their_figures(shop):
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE SCHEMA raw")
        platform.execute("CREATE TABLE raw.visits (at TIMESTAMP, `a b` ARRAY<INT>) COMMENT 'by hand'")
        platform.execute("INSERT INTO raw.visits (at) VALUES (TIMESTAMP '2026-01-01 00:00:00'), (NULL)")
        platform.execute("CREATE TABLE users (id INT PRIMARY KEY, region STRING, rate DECIMAL(9,2))")
        newest = platform.lake.snapshot().id
        with platform.lake.commit("store a view") as commit:
            commit.create_view(("raw", "days"), "SELECT to_date(at) FROM raw.visits")
    specs = shop.specs()
    assert set(specs) == {"users", "posts", "impact/impact_base", "impact", "prices", "raw/visits", "raw/days"}
    visits = specs["raw/visits"]
    assert visits.metadata["dagster/row_count"] == 2
    assert visits.metadata["dagster/table_name"] == "raw.visits"
    assert visits.metadata["snapshot"] == newest + 1
    assert visits.metadata["files"] == 1
    assert visits.metadata["bytes"] > 0
    assert visits.description == "by hand"
    assert [column.type for column in visits.metadata["dagster/column_schema"].columns] == ["timestamp", "array<int>"]
    assert [dep.asset_key.to_user_string() for dep in specs["raw/days"].deps] == ["raw/visits"]
    # A file and a relation of the same name are one asset: the file says what it is, the catalogue how much there is of it.
    assert specs["users"].metadata["dagster/row_count"] == 0
    assert specs["users"].description.startswith("Who posts.")


def test_a_stored_query_that_nobody_can_read_keeps_nothing_from_loading(project, caplog):
    with Platform.create(project.lake) as platform, platform.lake.commit("store a view") as commit:
        commit.create_view("odd", "FROM nowhere SELECT ;;")
    with caplog.at_level(logging.WARNING):
        assert not list(project.specs()["odd"].deps)
    assert 'view "main.odd"' in caplog.text


def test_a_lake_that_was_damaged_leaves_the_files(shop, caplog):
    shop.lake.mkdir()
    (shop.lake / "lake.sqlite").write_text("not a database at all" * 100)
    assert set(shop.specs()) == {"users", "posts", "impact/impact_base", "impact", "prices"}
    assert "only the SQL files are loaded" in caplog.text


def test_a_base_has_what_is_read_below_the_grouping_and_a_view_what_is_read_live(project):
    project.write(users=USERS, posts=POSTS, regions="CREATE TABLE regions (region STRING, country STRING)")
    project.write(
        reach="CREATE VIEW reach AS SELECT country, n FROM (SELECT region, count(*) AS n FROM posts JOIN users ON id = uid GROUP BY region)"
        " JOIN regions USING (region)"
    )
    deps = {name: {dep.asset_key.to_user_string() for dep in spec.deps} for name, spec in project.specs().items()}
    assert deps["reach/reach_base"] == {"posts", "users"}
    assert deps["reach"] == {"reach/reach_base", "posts", "regions"}


def test_columns_and_their_lineage_are_told_before_anything_runs(shop):
    specs = shop.specs()
    schema, lineage = (specs["impact"].metadata[f"dagster/column_{what}"] for what in ("schema", "lineage"))
    assert [(column.name, column.type) for column in schema.columns] == [("uid", "int"), ("score", "double")]
    assert lineage.deps_by_column["score"] == [dg.TableColumnDep(asset_key=dg.AssetKey("posts"), column_name="score")]
    prices = specs["prices"].metadata["dagster/column_lineage"].deps_by_column["price"]
    assert {(dep.asset_key.to_user_string(), dep.column_name) for dep in prices} == {("impact", "score"), ("users", "rate")}
    drawn = specs["prices"].metadata["lineage"].value
    assert "| `price` | `impact.score`, `users.rate` |" in drawn
    assert 'impact_score["impact.score"] --> prices_price["prices.price"]' in drawn
    assert "stream part" in specs["impact/impact_base"].metadata["split"].value


def test_a_base_is_called_after_its_view_and_leads_to_its_sql(shop):
    shop.write(impact="-- How far posts reach.\nCREATE VIEW impact AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid")
    view, base = (shop.specs()[key] for key in ("impact", "impact/impact_base"))
    assert (base.key.path[-1], base.metadata["view"].asset_key) == ("impact_base", view.key)
    assert base.description.startswith("The stored part of the view impact:")
    assert base.description.endswith(view.description)
    (link,) = base.metadata["dagster/code_references"].code_references
    assert link.file_path == str(shop.folder / "impact.sql")


@pytest.mark.spark
def test_a_view_that_no_run_has_maintained_says_that_it_waits_for_one(shop, spark_server):
    both = ("impact", "impact/impact_base")
    assert {shop.specs()[key].metadata["status"] for key in both} == {"waits for its first run, which creates it"}
    assert "status" not in shop.specs()["prices"].metadata
    with Platform.create(shop.lake) as platform:
        for statement in (POSTS, IMPACT, "INSERT INTO posts VALUES (1, 4)"):
            platform.execute(statement)
        waiting = "waits for its first run; reads are current without it"
        assert {shop.specs()[key].metadata["status"] for key in both} == {waiting}
        run_maintenance(platform.work, frozenset({Name.of("impact")}))
    assert not any("status" in shop.specs()[key].metadata for key in both)


def test_a_view_that_is_refused_shows_why_and_loads(shop):
    shop.write(newest="CREATE VIEW newest WITH (target_lag = '5 seconds') AS SELECT * FROM posts")
    newest = shop.specs()["newest"]
    assert "a continuous view groups the rows of a stream" in newest.metadata["trouble"].value


def test_views_are_virtual_and_tables_and_streams_are_not(shop):
    virtual = {name for name, spec in shop.specs().items() if spec.is_virtual}
    assert virtual == {"impact"}


def test_the_code_version_follows_the_meaning(shop):
    before = shop.specs()
    shop.write(impact="CREATE VIEW impact WITH (target_lag = '5 seconds') AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid")
    assert shop.specs()["impact/impact_base"].code_version == before["impact/impact_base"].code_version, "what is kept is the same"
    shop.write(impact="-- now with words\ncreate view impact AS\nselect uid, avg(score) AS score from posts group by uid;")
    assert shop.specs()["impact"].code_version == before["impact"].code_version
    shop.write(impact="CREATE VIEW impact AS SELECT uid, max(score) AS score FROM posts GROUP BY uid")
    assert shop.specs()["impact"].code_version != before["impact"].code_version


def test_a_translator_decides_keys_groups_and_tags(shop):
    class Prefixed(Translator):
        def asset_key(self, name):
            return super().asset_key(name).with_prefix("lake")

        def group_name(self, relation):
            return "everything"

        def tags(self, relation):
            return {"noun": relation.kind}

    specs = {spec.key: spec for spec in shop.definitions(Prefixed()).resolve_all_asset_specs()}
    impact = specs[dg.AssetKey(["lake", "impact"])]
    assert {dep.asset_key for dep in impact.deps} == {dg.AssetKey(["lake", "posts"]), dg.AssetKey(["lake", "impact", "impact_base"])}
    assert impact.group_name == "everything"
    assert impact.tags["noun"] == "view"


def test_loading_never_starts_spark(shop):
    with Platform.create(shop.lake) as platform:
        platform.execute("CREATE TABLE users (id INT)")
    loaded = "pyspark.sql.connect.session" in sys.modules
    shop.definitions()
    read_inventory(str(shop.lake))
    assert ("pyspark.sql.connect.session" in sys.modules) == loaded


def test_names_that_dagster_refuses_become_words_and_keep_their_table_name(project):
    project.write(a="CREATE STREAM `two words` (i INT)", b="CREATE VIEW `prüfung` AS SELECT i FROM `Two Words`")
    specs = project.specs()
    assert set(specs) == {"two_words", "pr_fung"}
    assert [dep.asset_key.to_user_string() for dep in specs["pr_fung"].deps] == ["two_words"]
    assert specs["pr_fung"].metadata["dagster/table_name"] == "main.prüfung"
    assert project.materialize("two_words")["two_words"].metadata["dagster/table_name"].value == 'main."two words"'


def test_groups_are_nouns_with_the_folders_below_and_what_is_read_where_there_are_very_many(project, monkeypatch):
    (project.folder / "views" / "growth").mkdir(parents=True)
    project.write(posts=POSTS)
    for number in range(3):
        project.write(**{f"views/growth/v{number}": f"CREATE VIEW v{number} AS SELECT count(*) AS n FROM posts"})
    groups = {name: spec.group_name for name, spec in project.specs().items()}
    assert (groups["posts"], groups["v1"], groups["v1/v1_base"]) == ("streams", "views/growth", "views/growth")
    monkeypatch.setattr(assets, "_CROWD", 2)
    groups = {name: spec.group_name for name, spec in project.specs().items()}
    assert (groups["posts"], groups["v1"], groups["v1/v1_base"]) == ("streams", "views/growth/posts", "views/growth/posts")


def test_what_nobody_described_is_told_as_what_it_is(project):
    project.write(posts=POSTS, impact="CREATE VIEW impact AS SELECT uid, avg(score) AS score FROM posts GROUP BY uid")
    first = {name: spec.description.splitlines()[0] for name, spec in project.specs().items() if name != "impact/impact_base"}
    assert first == {"posts": "A stream.", "impact": "A continuous view over posts."}
