"""`parse_engine_notes`: what engines did for a commit, from its notes; imports nothing slow."""

from __future__ import annotations

import json
from typing import Any

NOTED = "engines"
"""The note of a commit that has what engines did for it."""


def parse_engine_notes(notes: str | None) -> list[dict[str, Any]]:
    """The runs of engines in the notes of a commit; none in those of other programs.

    >>> parse_engine_notes('{"engines": [{"engine": "local"}], "commit": "1"}'), parse_engine_notes("engines"), parse_engine_notes(None)
    ([{'engine': 'local'}], [], [])
    """
    if not notes or f'"{NOTED}"' not in notes:
        return []
    try:
        runs = json.loads(notes)[NOTED]
    except (ValueError, KeyError, TypeError):
        return []
    return [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []
