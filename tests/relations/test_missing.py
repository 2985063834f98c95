"""What is not there is missed as what was looked for, and only what is like it of that kind is offered."""

from __future__ import annotations

import pytest

from platform_plugin import Platform
from platform_plugin.errors import UnknownObject
from platform_plugin.lake.catalogue.tables import Name
from platform_plugin.maintenance.service import Maintainer
from platform_plugin.relations.samples.handle import find_named
from platform_plugin.relations.streams.feeds.ingest import find_feed


@pytest.fixture
def platform(tmp_path):
    with Platform.create(tmp_path / "lake") as made:
        made.execute("CREATE STREAM trips (n BIGINT)")
        made.execute("CREATE TABLE tripe (n BIGINT)")
        made.execute("CREATE SAMPLE some_trips ON trips SIZE 5")
        yield made


@pytest.mark.parametrize(
    ("look", "message", "hint"),
    [
        (lambda p: find_feed(p.work, "tripx"), 'stream "main.tripx" does not exist', "did you mean main.trips?"),
        (lambda p: find_feed(p.work, "nosuch"), 'stream "main.nosuch" does not exist', "SHOW STREAMS lists what there is"),
        (lambda p: p.execute("CREATE SAMPLE s ON tripz SIZE 1"), 'relation "main.tripz" does not exist', "did you mean main.trip"),
        (lambda p: p.execute("REFRESH SAMPLE some_trip"), 'sample "main.some_trip" does not exist', "did you mean main.some_trips?"),
        (lambda p: find_named(p.work, "posts", p.lake.snapshot()), 'sample "main.posts" does', "SHOW SAMPLES lists what there is"),
        (
            lambda p: Maintainer(p.work, [Name.of("nosuch")]).run(None, once=True),
            'view, sample or stream "main.nosuch" does not exist',
            "SHOW VIEWS, SHOW SAMPLES and SHOW STREAMS list what there is",
        ),
        (lambda p: p.execute("INSERT INTO zzz VALUES (1)"), 'table "main.zzz" does not exist', "run SHOW TABLES"),
    ],
)
def test_it_is_missed_as_what_it_was_to_be(platform, look, message, hint):
    with pytest.raises(UnknownObject) as raised:
        look(platform)
    assert raised.value.message.startswith(message)
    assert hint in raised.value.hint
