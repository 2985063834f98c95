import pytest

from platform_plugin.errors import InvalidFiles, PlatformError
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.orchestration.components.model import fingerprint, parse_model, read_models


def test_a_model_says_what_it_reads(shop):
    models = {model.name.relation: model for model in read_models(shop.folder)}
    assert {name: model.kind for name, model in models.items()} == {
        "users": "table",
        "posts": "stream",
        "impact": "view",
        "prices": "table",
    }
    assert [str(name) for name in models["prices"].reads] == ["main.impact", "main.USERS"]
    assert models["users"].reads == ()
    assert models["users"].primary_key == ("id",)


def test_files_in_folders_are_found_and_named_by_their_path(project):
    (project.folder / "raw" / "deep").mkdir(parents=True)
    (project.folder / "raw" / "deep" / "clicks.sql").write_text("\ufeffCREATE STREAM raw.clicks (at TIMESTAMP)")
    (model,) = read_models(project.folder)
    assert (model.name, model.file) == (Name(schema="raw", relation="clicks"), "raw/deep/clicks.sql")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE t (\n  id INTT\n)", ["bad.sql", "line 2, column 6", "INTT"]),
        ("CREATE VIEW v AS SELECT * FORM posts", ["bad.sql", "line 1"]),
        ("SELECT 1", ["bad.sql", "not a definition", "CREATE TABLE, CREATE STREAM, CREATE VIEW or CREATE SAMPLE"]),
        ("-- nothing", ["bad.sql", "an empty statement"]),
        ("CREATE STREAM a (i INT); CREATE STREAM b (i INT)", ["bad.sql", "more than one statement", "column 26"]),
        ("CREATE TABLE t AS SELECT :since", ["bad.sql", "a file has no parameters", "column 26"]),
    ],
)
def test_a_broken_file_is_named_with_the_place(shop, text, said):
    shop.write(bad=text)
    with pytest.raises(PlatformError) as caught:
        read_models(shop.folder)
    assert [part for part in said if part not in str(caught.value)] == []


def test_all_wrong_files_are_told_at_once_and_each_once(shop):
    shop.write(
        bad="CREATE TABLE t (\n  id INTT\n)",
        bad_yml="descripton: x",
        worse="CREATE VIEW v AS SELECT * FORM posts",
        again="CREATE STREAM Users (id INT)",
    )
    with pytest.raises(InvalidFiles, match="4 errors in files") as caught:
        read_models(shop.folder)
    told = str(caught.value)
    assert [told.count(each) for each in ('file "bad.sql"', 'file "bad.yml"', 'file "worse.sql"', "declared twice")] == [1, 1, 1, 1]
    assert ["line 2, column 6" in told, 'line 1: "descripton"' in told, "did you mean FROM?" in told] == [True, True, True]
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True), "no chain that tells the same again"


def test_bytes_that_are_no_text_are_refused(project):
    (project.folder / "bad.sql").write_bytes(b"CREATE TABLE t\xff")
    with pytest.raises(PlatformError, match=r'file "bad.sql" can\'t be read'):
        read_models(project.folder)


def test_two_files_for_one_relation_are_refused(shop):
    shop.write(again="CREATE STREAM Users (id INT)")
    with pytest.raises(PlatformError, match="declared twice") as caught:
        read_models(shop.folder)
    assert "again.sql and users.sql" in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PlatformError, match="does not exist"):
        read_models(tmp_path / "nowhere")


def test_layout_comments_and_case_of_keywords_do_not_change_the_fingerprint():
    original = fingerprint("CREATE VIEW v AS SELECT uid, 'a  b' AS x FROM posts")
    assert fingerprint("create view v as -- why\n  select uid,\n 'a  b' AS x from posts") == original
    for other in ("'a b' AS x", "'a  b' AS X", "'a  b' AS y"):
        assert fingerprint(f"CREATE VIEW v AS SELECT uid, {other} FROM posts") != original


def test_the_description_is_the_best_that_was_said():
    head = "-- From the head\n-- of the file.\n"
    assert parse_model(f"{head}CREATE STREAM s (i INT)", file="s.sql").description == "From the head of the file."
    assert parse_model(f"{head}CREATE STREAM s (i INT) COMMENT 'from SQL'", file="s.sql").description == "from SQL"
