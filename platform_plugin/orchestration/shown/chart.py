"""`draw_panels`: lines over time as a small SVG for a Markdown field, without a library."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 190, 64, 150, 30, 26
# Told apart by people who see few colours, on a light and on a dark page.
_COLOURS = ("#4f6bed", "#e07b39", "#2e9e6b", "#c23a6b", "#8a63d2", "#7a7a2e")
_MOST_LINES = len(_COLOURS)


def draw_panels(panels: Sequence[tuple[str, str, Mapping[str, Sequence[float]]]], *, since: str, until: str) -> str:
    """Panels one below the other, each with a title, a unit and its lines by name; if there are too many lines, the highest ones.

    >>> draw_panels([("lag", "s", {"impact": [0.0, 2.0]})], since="12:00", until="12:15").startswith("<svg")
    True
    """
    body = [
        _panel(title, unit, lines, top=number * _HEIGHT, since=since, until=until) for number, (title, unit, lines) in enumerate(panels)
    ]
    height = _HEIGHT * len(panels)
    style = 'font-family="Inter, Helvetica, Arial, sans-serif" font-size="12"'
    back = f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" {style}>{back}{"".join(body)}</svg>'


def as_markdown(svg: str, *, said: str) -> str:
    """An SVG as an image in Markdown."""
    return f"![{said}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _panel(title: str, unit: str, lines: Mapping[str, Sequence[float]], *, top: int, since: str, until: str) -> str:
    shown = dict(sorted(lines.items(), key=lambda pair: (-max(pair[1], default=0.0), pair[0]))[:_MOST_LINES])
    most = _round_up(max((max(values, default=0.0) for values in shown.values()), default=0.0))
    low, high = top + _HEIGHT - _BOTTOM, top + _TOP
    right = _WIDTH - _RIGHT
    parts = [f'<text x="{_LEFT}" y="{top + 19}" font-weight="600" fill="#1f2430">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = low - (low - high) * share
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dfe3ea"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end" fill="#6b7280">{_short(most * share)} {escape(unit)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{low + 17}" fill="#6b7280">{escape(since)}</text>')
    parts.append(f'<text x="{right}" y="{low + 17}" text-anchor="end" fill="#6b7280">{escape(until)}</text>')
    for number, (name, values) in enumerate(shown.items()):
        colour = _COLOURS[number]
        step = (right - _LEFT) / max(len(values) - 1, 1)
        points = " ".join(f"{_LEFT + step * place:.0f},{low - (low - high) * value / most:.1f}" for place, value in enumerate(values))
        if len(shown) == 1:
            parts.append(f'<polygon points="{_LEFT},{low} {points} {right},{low}" fill="{colour}" opacity="0.12"/>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>')
        y = top + _TOP + 8 + 18 * number
        parts.append(f'<rect x="{right + 14}" y="{y - 8}" width="10" height="10" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{right + 30}" y="{y + 1}" fill="#1f2430">{escape(name[:18])}</text>')
    if len(lines) > len(shown):
        more = top + _TOP + 8 + 18 * len(shown)
        parts.append(f'<text x="{right + 14}" y="{more + 1}" fill="#6b7280">and {len(lines) - len(shown)} more</text>')
    if not shown:
        parts.append(f'<text x="{(_LEFT + right) // 2}" y="{(low + high) // 2}" text-anchor="middle" fill="#6b7280">nothing yet</text>')
    return "".join(parts)


def _round_up(value: float) -> float:
    """The next number that reads well on an axis.

    >>> [_round_up(value) for value in (0.0, 0.7, 13.0, 4200.0)]
    [1.0, 1.0, 20.0, 5000.0]
    """
    if value <= 0:
        return 1.0
    scale = 10.0 ** len(str(int(value))) / 10 if value >= 1 else 0.1
    return next(scale * factor for factor in (1, 2, 5, 10, 20) if scale * factor >= value)


def _short(value: float) -> str:
    """A number in few characters.

    >>> [_short(value) for value in (0.0, 2.5, 50.0, 12_000.0, 3e6)]
    ['0', '2.5', '50', '12k', '3M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
