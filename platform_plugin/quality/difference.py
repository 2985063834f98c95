"""`find_difference`: the difference between expected and actual rows, as a text for people."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOLERANCE = 1e-9


def find_difference(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> str | None:
    """The difference between rows in any order, as text; None if there is none.

    Only columns that the expected rows name are looked at. Floats may differ by a billionth.

    >>> print(find_difference([{"uid": 1, "n": 2}, {"uid": 2, "n": 1}], [{"uid": 2, "n": 1}, {"uid": 1, "n": 3}]))
                  uid  n
      - expected    1  2
      + got         1  3
      1 row as expected
    """
    columns = list(dict.fromkeys(name for row in expected for name in row)) or list(found[0] if found else ())
    absent = [name for name in columns if found and name not in found[0]]
    if absent:
        return f'  there is no column "{absent[0]}" among {", ".join(found[0])}'
    left = [tuple(row.get(name) for name in columns) for row in found]
    missing = []
    for row in expected:
        wanted = tuple(row.get(name) for name in columns)
        place = next((place for place, other in enumerate(left) if all(map(_is_same, wanted, other))), None)
        if place is None:
            missing.append(wanted)
        else:
            left.pop(place)
    if not missing and not left:
        return None
    lines = _lined_up([("", columns), *(("- expected", row) for row in missing), *(("+ got", row) for row in left)])
    same = len(expected) - len(missing)
    return "\n".join([*lines, f"  {same} {'row' if same == 1 else 'rows'} as expected"])


def _is_same(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    if isinstance(found, Decimal) and isinstance(expected, int | float | str) and not isinstance(expected, bool):
        return bool(Decimal(str(expected)) == found)
    if isinstance(found, float) and isinstance(expected, int | float) and not isinstance(expected, bool):
        return math.isclose(expected, found, rel_tol=_TOLERANCE, abs_tol=1e-12) or (math.isnan(expected) and math.isnan(found))
    if isinstance(found, datetime) and isinstance(expected, datetime):
        return found.replace(tzinfo=None) == expected.replace(tzinfo=None)
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    return type(expected) is not bool and expected == found if not isinstance(found, bool) else expected is found


def _lined_up(rows: Sequence[tuple[str, Sequence[Any]]]) -> list[str]:
    cells = [(mark, ["NULL" if value is None else str(value) for value in row]) for mark, row in rows]
    widths = [max(len(row[place]) for _, row in cells) for place in range(len(cells[0][1]))]
    return [
        f"  {mark:10}  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for mark, row in cells
    ]
