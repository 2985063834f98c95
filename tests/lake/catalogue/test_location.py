"""One URL says where a lake is, and never shows a password."""

from pathlib import Path

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.catalogue.location import Location


def test_local_forms_name_the_same_lake(tmp_path):
    forms = (f"platform+local://{tmp_path}/lake", f"{tmp_path}/lake", tmp_path / "lake", f"platform+local://{tmp_path}/lake/")
    assert {Location.parse(form).data_path for form in forms} == {f"{tmp_path}/lake/data/"}
    assert {str(Location.parse(form).catalogue) for form in forms} == {f"sqlite:///{tmp_path}/lake/lake.sqlite"}
    assert Location.parse("~/lake").folder == Path.home() / "lake"


def test_postgres_urls():
    where = Location.parse("platform://me:se%40cret@host:5433/db?data=s3://bucket/pre&spark=sc://s:15002&schema=other%20one")
    assert (where.data_path, where.spark, where.schema, where.is_local) == ("s3://bucket/pre/", "sc://s:15002", "other one", False)
    assert (where.catalogue.password, where.catalogue.database, where.catalogue.port) == ("se@cret", "db", 5433)
    for shown in (str(where), repr(where)):
        assert "se@cret" not in shown
        assert "se%40cret" not in shown


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("platform+local://host/lake", "absolute path"),
        ("platform+local://", "absolute path"),
        ("platform+local:///lake?data=/x", "own folder"),
        ("platform+local:///lake?colour=red", '"colour"'),
        ("platform://host/db", "data folder"),
        ("platform://host/?data=/x", "database"),
        ("platform://host/db?data=x/y", "not absolute"),
        ("platform+local:///lake?outside=x", "not absolute"),
        ("platform+local:///lake?outside=/x/../etc", "not absolute"),
        ("platform://host/db?data=s3://b/x&outside=/x", "another file system"),
        ("postgresql://host/db", "not a lake URL"),
        ("http://host/db", "not a lake URL"),
        ("platform://host:port/db?data=/x", "can't be read"),
    ],
)
def test_what_is_no_lake_url_is_refused_with_the_forms_that_are(url, match):
    with pytest.raises(InvalidValue, match=match) as refused:
        Location.parse(url)
    assert refused.value.hint


def test_a_refused_url_does_not_repeat_its_password():
    for url in ("platform://me:hunter2@host:port/db?data=/x", "mysql://me:hunter2@host/db", "platform://me:hunter2@host/db"):
        with pytest.raises(InvalidValue) as refused:
            Location.parse(url)
        assert "hunter2" not in str(refused.value)


def test_folders_outside_are_part_of_the_url():
    local = Location.parse("platform+local:///srv/lake?outside=/srv/in&outside=/srv/other one/")
    assert local.outside == ("/srv/in/", "/srv/other one/")
    assert Location.parse(str(local)) == local
    assert Location.parse("platform://h/db?data=s3://b/x&outside=s3://c/y").outside == ("s3://c/y/",)
    assert Location.parse("platform+local:///srv/lake").outside == ()
