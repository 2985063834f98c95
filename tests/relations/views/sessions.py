"""Random rows with times close to each other, and the sessions that they make, told in plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.relations.views.composed import Rows

BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001  the stream's times have no zone
GAP = timedelta(seconds=5)

_POSTS = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2]),
        st.none() | st.integers(0, 4),
        st.just("1.00"),
        st.just(0.5),
        st.none() | st.integers(0, 40),
        st.sampled_from([None, "a", "b"]),
        st.just(()),
    ),
    max_size=24,
)


@st.composite
def posts(draw: st.DrawFn) -> Rows:
    """Posts of few users whose times are equal, near, just a gap apart or further apart, and come in any order."""
    found = [(*row[:4], None if row[4] is None else f"{BEGIN + timedelta(seconds=row[4])}", *row[5:]) for row in draw(_POSTS)]
    return {"posts": found, "likes": [], "users": []}


def sessions_of(
    rows: Sequence[tuple[Any, ...]], key: Callable[[tuple[Any, ...]], Any], gap: Callable[[tuple[Any, ...]], timedelta]
) -> list[Any]:
    """The sessions of posts by a key: the key, start, end and rows of each. Rows without a time are in none."""
    by_key: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        if row[4] is not None and gap(row) > timedelta(0):
            by_key[key(row)].append(row)
    found: list[Any] = []
    for value, own in by_key.items():
        current: list[Any] | None = None
        for row in sorted(own, key=lambda row: row[4]):
            start = datetime.fromisoformat(row[4])
            end = start + gap(row)
            if current is not None and start <= current[2]:
                current[2] = max(current[2], end)
                current[3].append(row)
            else:
                current = [value, start, end, [row]]
                found.append(current)
    return found
