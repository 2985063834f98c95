"""Lake URLs: two forms, everything else refused, and no secret ever shown."""

from __future__ import annotations

import pytest

from platform_plugin.errors import InvalidValue
from platform_plugin.lake.location import Location

TOKEN = "sc%3A%2F%2Fspark%3A15002%2F%3Btoken%3Dsesame%3Buse_ssl%3Dfalse"


@pytest.mark.parametrize(
    "url", [f"platform+local:///srv/lake?spark={TOKEN}", f"platform://me:sesame@db/lakes?data=/srv/data&spark={TOKEN}"]
)
def test_secrets_are_kept_and_never_shown(url: str) -> None:
    where = Location.parse(url)
    assert where.spark == "sc://spark:15002/;token=sesame;use_ssl=false"
    assert "sesame" not in str(where)
    assert "sesame" not in repr(where)
    assert where.is_local or where.catalogue.password == "sesame"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("platform+local://srv/lake", "absolute path"),
        ("platform+local:///", "absolute path"),
        ("platform+local:///srv/lake?data=/elsewhere", "own folder"),
        ("platform+local:///srv/lake?colour=blue", 'unknown option "colour"'),
        ("platform://me@db?data=/srv/data", "needs a database"),
        ("platform://me@db/lakes", "needs a database and a data folder"),
        ("platform://me@db/lakes?data=relative/path", "not absolute"),
        ("postgresql://me:sesame@db/lakes", "not a lake URL scheme"),
        ("platform://me:ses ame@db:notaport/lakes?data=/x", "can't be read"),
    ],
)
def test_other_urls_are_refused_without_repeating_secrets(url: str, complaint: str) -> None:
    with pytest.raises(InvalidValue, match=complaint) as caught:
        Location.parse(url)
    assert caught.value.hint
    assert "sesame" not in str(caught.value)
    assert "ses ame" not in str(caught.value)


def test_a_plain_path_is_a_local_lake() -> None:
    assert Location.parse("/srv/lake") == Location.parse("platform+local:///srv/lake")


def test_a_schema_of_its_own_keeps_lakes_of_one_database_apart() -> None:
    first, second = (Location.parse(f"platform://me@db/lakes?data=/srv/{name}&schema={name}") for name in ("a", "b"))
    assert first.catalogue != second.catalogue
    assert first.schema == "a"
