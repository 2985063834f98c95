"""What engines did for a commit is read from its notes, and those of others are left alone."""

import pytest

from platform_plugin.lake.lake import Lake
from platform_plugin.lake.values.engine_notes import NOTED, parse_engine_notes


@pytest.mark.parametrize("notes", [None, "", "no json", '"engines"', '{"engines": 5}', '{"engines": ["x"]}', '["engines"]', "{}"])
def test_notes_of_other_programs_are_none(notes):
    assert parse_engine_notes(notes) == []


def test_a_commit_keeps_them(tmp_path):
    with Lake.create(tmp_path / "lake") as lake:
        with lake.commit("a commit", notes={NOTED: [{"engine": "local", "rows": 5}]}) as commit:
            commit.create_schema("s")
        assert parse_engine_notes(lake.commits(limit=1)[0].notes) == [{"engine": "local", "rows": 5}]
