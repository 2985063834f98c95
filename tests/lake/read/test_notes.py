"""What engines did for a commit is read from its notes, and those of others are left alone."""

import pytest

from platform_plugin.lake.lake import Lake
from platform_plugin.lake.read.notes import NOTED, parse_engine_notes, read_recent_notes


@pytest.mark.parametrize("notes", [None, "", "no json", '"engines"', '{"engines": 5}', '{"engines": ["x"]}', '["engines"]', "{}"])
def test_notes_of_other_programs_are_none(notes):
    assert parse_engine_notes(notes) == []


def test_the_newest_come_first(tmp_path):
    with Lake.create(tmp_path / "lake") as lake:
        for number in range(3):
            with lake.commit("a commit", notes={NOTED: [{"engine": "local", "rows": number}]}) as commit:
                commit.create_schema(f"s{number}")
        with lake.commit("another") as commit:
            commit.create_schema("other")
        assert [run["rows"] for run in read_recent_notes(lake)] == [2, 1, 0]
        assert [run["rows"] for run in read_recent_notes(lake, commits=2)] == [2]
