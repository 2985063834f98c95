"""`SampleDefinition`: a sample's relation, size, strata, weight, window and seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from platform_plugin.language.text.options import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

Source = Literal["stream", "table", "view", "samples"]
Key = tuple[str | None, ...]
"""The values of a stratum's columns, as text; `()` without strata."""

LARGEST = 10_000_000
"""The largest size of a sample, which is merged in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDefinition:
    """The definition in a CREATE SAMPLE, in the form that the lake stores.

    A window is a number of rows, a number of seconds, or what the stream holds (`retained`). A sample that merges others has them as its
    `parts` and no relation of its own. A weighted one weighs rows by a column, by their age at a time column, or by both. Samples of
    earlier versions have no ladders, and keep the keys that they had. `engine` is the option of that name.
    """

    relation: str
    source: Source
    size: int
    seed: int
    where: str | None = None
    strata: tuple[str, ...] = ()
    size_per_stratum: int | None = None
    window_rows: int | None = None
    window_seconds: float | None = None
    retained: bool = False
    parts: tuple[str, ...] = ()
    weight: str | None = None
    half_life: float | None = None
    time: str | None = None
    has_ladders: bool = False
    engine: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SampleDefinition:
        """The definition for stored options; earlier versions stored more of them."""
        known = {name: value for name, value in options.items() if name in cls.__slots__}
        return cls(**{**known, "strata": tuple(options.get("strata", ())), "parts": tuple(options.get("parts", ()))})

    def options(self) -> dict[str, Any]:
        """The options to store; what the definition does not set is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False and value != ()}

    @property
    def is_windowed(self) -> bool:
        """Whether rows leave the population when others arrive or time passes."""
        return self.retained or self.window_rows is not None or self.window_seconds is not None

    @property
    def is_counted(self) -> bool:
        """Whether the population is all rows, so that the catalogue has its size and no scan is needed."""
        return self.where is None and not self.strata and not self.is_weighted

    @property
    def is_weighted(self) -> bool:
        """Whether some rows are more likely to be drawn than others."""
        return self.weight is not None or self.half_life is not None

    def cap(self, strata: int) -> int:
        """How many rows a stratum may have among so many strata; it never grows with their number, so a smaller reservoir is a subset.

        A weighted sample stores one row beyond its size, which tells how likely the others were.

        >>> SampleDefinition(relation="", source="stream", size=100, seed=1, strata=("a",), size_per_stratum=30).cap(5)
        20
        """
        if not self.strata:
            return self.size + self.is_weighted
        even = max(1, self.size // max(1, strata))
        return even if self.size_per_stratum is None else min(even, self.size_per_stratum)


def parse_window(text: str) -> int | timedelta | str | None:
    """A window as rows, as a duration or as the word `retention`; None for any other text.

    >>> parse_window("1000 rows"), parse_window("Retention"), parse_window("soon")
    (1000, 'retention', None)
    """
    words = text.lower().split()
    if words and words[0].isdigit() and (len(words) == 1 or words[1:] in (["rows"], ["row"])):
        return int(words[0]) or None
    return "retention" if words == ["retention"] else parse_duration(text)
