import dagster as dg
import pytest

from platform_plugin import Platform


def test_a_table_and_a_stream_are_created_once_and_left_alone_afterwards(shop):
    first = shop.materialize("users", "posts")
    assert {name: event.metadata["action"].value for name, event in first.items()} == {"users": "created", "posts": "created"}
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO users VALUES (1, 'EU', 10), (2, 'US', 20)")
        platform.execute("INSERT INTO posts VALUES (1, 5)")
        assert [row[1:3] for row in platform.execute("SHOW STREAMS")] == [("posts", "stream")]
    second = shop.materialize("users", "posts")
    assert second["users"].metadata["action"].value == "unchanged"
    assert second["users"].metadata["dagster/row_count"].value == 2
    assert second["users"].metadata["dagster/table_name"].value == "main.users"
    columns = second["users"].metadata["dagster/column_schema"].value.columns
    assert [(column.name, column.description) for column in columns] == [("id", None), ("region", "where"), ("rate", None)]


def test_the_data_version_is_the_snapshot_that_last_changed_the_rows(shop):
    versions = []
    for statement in ("SHOW TABLES", "INSERT INTO posts VALUES (1, 5)", "INSERT INTO users VALUES (1, 'EU', 10)", "SHOW TABLES"):
        versions.append(shop.materialize("users", "posts")["users"].tags["dagster/data_version"])
        with Platform.open(shop.lake) as platform:
            platform.execute(statement)
            newest = platform.lake.snapshot().id
    assert versions[0] == versions[1] == versions[2]
    assert versions[3] == str(newest) != versions[2]


def test_a_table_that_differs_from_its_file_is_refused_and_left_alone(shop):
    shop.materialize("users", "posts")
    shop.write(users="CREATE TABLE users (id BIGINT PRIMARY KEY, region STRING NOT NULL, age INT)")
    shop.write(posts="CREATE STREAM posts (uid INT, score INT) WITH (retention = '1 hour')")
    with pytest.raises(dg.Failure) as caught:
        shop.materialize("users")
    said = str(caught.value.description)
    assert 'table "main.users" is not what "users.sql" declares' in said
    assert 'column "id" is BIGINT NOT NULL in the file, INT NOT NULL in the lake' in said
    assert 'column "region" is STRING NOT NULL in the file, STRING in the lake' in said
    assert 'column "age" INT is in the file, not in the lake' in said
    assert 'column "rate" DECIMAL(9,2) is in the lake, not in the file' in said
    assert "ALTER TABLE" in caught.value.metadata["hint"].value
    with pytest.raises(dg.Failure) as caught:
        shop.materialize("posts")
    assert "option retention is 1:00:00 in the file, not set in the lake" in str(caught.value.description)
    assert "option retention_rows is not set in the file, 1000 in the lake" in str(caught.value.description)


def test_another_kind_of_relation_is_never_replaced(shop):
    shop.materialize("users")
    shop.write(users="CREATE STREAM users (id INT)")
    with pytest.raises(dg.Failure, match="there is a table of that name"):
        shop.materialize("users")
    shop.write(users="CREATE VIEW users AS SELECT 1 AS id")
    with pytest.raises(dg.Failure, match="there is a table of that name"):
        shop.materialize("users")


def test_the_schema_of_a_model_is_made_with_it(project):
    project.write(clicks="CREATE STREAM raw.clicks (id INT)")
    assert project.materialize()["raw/clicks"].metadata["dagster/table_name"].value == "raw.clicks"


def test_what_this_version_can_not_do_is_told_with_its_place(shop):
    shop.write(feed="CREATE STREAM feed (id INT)\nFROM FILES '/in/*.avro' (FORMAT avro)")
    with pytest.raises(dg.Failure, match="avro") as caught:
        shop.materialize("feed")
    assert "line " in caught.value.metadata["detail"].value


@pytest.mark.spark
def test_views_are_kept_current_with_their_files_and_queries_rebuild_tables(shop, spark_server):
    first = shop.materialize()
    assert {name: event.metadata["action"].value for name, event in first.items()} == dict.fromkeys(
        ("users", "posts", "impact/impact_base", "impact", "prices"), "created"
    )
    columns = first["impact"].metadata["dagster/column_schema"].value.columns
    assert [(column.name, column.type) for column in columns] == [("uid", "int"), ("score", "double")]
    with Platform.open(shop.lake) as platform:
        platform.execute("INSERT INTO users VALUES (1, 'EU', 10), (2, 'US', 20)")
        platform.execute("INSERT INTO posts VALUES (1, 4), (1, 6), (2, 10)")
    # Made anew, the view counts what the stream still holds only because it says so.
    shop.write(impact="CREATE VIEW impact WITH (start = 'earliest') AS SELECT uid, max(score) AS score FROM posts GROUP BY uid")
    second = shop.materialize("impact", "prices")
    assert second["impact"].metadata["action"].value == "replaced"
    assert second["prices"].metadata["action"].value == "rebuilt"
    assert second["prices"].metadata["dagster/row_count"].value == 2
    assert second["prices"].metadata["jobs"].value >= 1
    with Platform.open(shop.lake) as platform:
        rows = platform.lake.read("prices").sort_by("region").to_pydict()
    assert rows["region"] == ["EU", "US"]
    assert [float(price) for price in rows["price"]] == [pytest.approx(10 / 6), 2.0]
    assert shop.materialize("impact")["impact"].metadata["action"].value == "unchanged"


@pytest.mark.spark
def test_a_view_that_a_run_can_not_define_is_named_with_its_file_and_the_nearest_column(shop, spark_server):
    shop.write(
        impact="-- How much a post moves.\nCREATE CONTINUOUS VIEW impact AS\nSELECT uidd, max(score) AS score FROM posts GROUP BY uidd"
    )
    shop.materialize("users", "posts")
    with pytest.raises(dg.Failure) as caught:
        shop.materialize("impact/impact_base")
    assert str(caught.value.description).startswith('main.impact: file "impact.sql": column "uidd" does not exist')
    assert "line 3, column 8" in caught.value.metadata["detail"].value
    assert caught.value.metadata["hint"].value == "did you mean uid?"


@pytest.mark.spark
def test_a_query_that_fails_changes_nothing_and_shows_its_place(shop, spark_server):
    shop.write(prices="CREATE TABLE prices AS\nSELECT regoin FROM users")
    shop.materialize("users")
    with pytest.raises(dg.Failure) as caught:
        shop.materialize("prices")
    assert str(caught.value.description).startswith('file "prices.sql": column "regoin" does not exist')
    assert "line 2, column 8" in caught.value.metadata["detail"].value
    assert caught.value.metadata["hint"].value == "did you mean region?"
    with Platform.open(shop.lake) as platform:
        assert [table.name.relation for table in platform.lake.tables()] == ["users"]


@pytest.mark.spark
def test_a_stream_over_files_ingests_a_batch_and_a_view_takes_it_up(project, spark_server):
    folder = project.lake.parent / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("1,5\n2,oops\n")
    project.write(
        clicks=f"CREATE STREAM clicks (uid INT, score INT) FROM FILES '{folder}/*.csv' (FORMAT csv)",
        totals="CREATE VIEW totals AS SELECT sum(score) AS score FROM clicks",
    )
    first = project.materialize("clicks", "totals")
    figures = {name: first["clicks"].metadata[name].value for name in ("rows_in", "files_in", "quarantined", "dagster/row_count")}
    assert figures == {"rows_in": 1, "files_in": 1, "quarantined": 1, "dagster/row_count": 1}
    (folder / "2.csv").write_text("3,7\n")
    second = project.materialize("clicks", "totals")
    assert second["clicks"].metadata["rows_in"].value == 1
    assert second["clicks"].tags["dagster/data_version"] != first["clicks"].tags["dagster/data_version"]
    assert {name: second["totals"].metadata[name].value for name in ("rows_in", "groups_touched")} == {"rows_in": 1, "groups_touched": 1}
    with Platform.open(project.lake) as platform:
        assert list(platform.execute("SELECT score FROM totals")) == [(7,)], "what was there when it was created does not count"


def test_a_history_is_made_after_its_stream_and_another_one_is_refused(shop):
    shop.write(past="-- Posts that have left.\nCREATE TABLE past AS HISTORY OF posts", likes="CREATE STREAM likes (uid INT)")
    made = shop.materialize("posts", "past")
    assert made["past"].metadata["action"].value == "created"
    assert shop.specs()["past"].group_name == "tables"
    assert [column.name for column in shop.specs()["past"].metadata["dagster/column_schema"].columns] == ["uid", "score"]
    with Platform.open(shop.lake) as platform:
        assert list(platform.execute("SHOW CREATE past")) == [("CREATE TABLE main.past AS HISTORY OF main.posts",)]
        for _ in range(2):
            platform.stream("posts").append([{"uid": 1, "score": 2}] * 1000, wait=True)
    again = shop.materialize("posts", "past")
    assert again["past"].metadata["action"].value == "unchanged"
    assert again["past"].metadata["dagster/row_count"].value == 1000
    shop.write(past="CREATE TABLE past AS HISTORY OF likes")
    with pytest.raises(dg.Failure, match=r"it is the history of main\.likes in the file, of main\.posts in the lake"):
        shop.materialize("past", "likes")
