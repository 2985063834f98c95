"""`plot_sample`: a sample's numeric columns as SVG, beside those of its population and of older versions."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from platform_plugin.relations.samples.histogram import read_histograms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.relations.samples.histogram import Histogram

    Floats = NDArray[np.float64]

_WIDTH, _HEIGHT, _MARGIN = 300, 150, 24
_ACROSS = 3
_SAMPLE, _POPULATION, _OLDER = "#4477aa", "#222222", "#cc6677"


def plot_sample(
    work: Workspace,
    name: str | tuple[str, str],
    *,
    versions: Sequence[int] = (),
    most_columns: int | None = None,
    most_rows: int | None = None,
) -> bytes:
    """An SVG image of a sample's numeric columns; `versions` are older snapshots, drawn over it to show drift.

    With `most_columns` it has only the first of them. A population of more than `most_rows`, by default the limit `histogram_rows`, is left
    out.
    """
    title, histograms = read_histograms(work, name, versions, most_columns=most_columns, most_rows=most_rows)
    return draw(title, histograms).encode()


def draw(title: str, histograms: Sequence[Histogram]) -> str:
    """The SVG: bars show the sample, the dark line its population, red lines older versions."""
    across = min(_ACROSS, max(1, len(histograms)))
    down = -(-len(histograms) // across) or 1
    width, height = across * (_WIDTH + _MARGIN) + _MARGIN, down * (_HEIGHT + 3 * _MARGIN) + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN}" font-size="14">{escape(title)}</text>',
    ]
    if not histograms:
        parts.append(f'<text x="{_MARGIN}" y="{2 * _MARGIN + 12}">no numeric column</text>')
    for number, histogram in enumerate(histograms):
        left = _MARGIN + number % across * (_WIDTH + _MARGIN)
        top = 2 * _MARGIN + number // across * (_HEIGHT + 3 * _MARGIN)
        parts += [f'<g transform="translate({left},{top})">', *_panel(histogram), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(histogram: Histogram) -> list[str]:
    newest = histogram.versions[0][1]
    lines = [(label, shares, _OLDER) for label, shares in histogram.versions[1:]]
    if histogram.population is not None:
        lines.append(("population", histogram.population, _POPULATION))
    tallest = max([1e-9, float(newest.max()), *(float(shares.max()) for _, shares, _ in lines)])
    step = _WIDTH / len(newest)
    parts = [f'<text y="12">{escape(histogram.column)}</text>', f'<g transform="translate(0,{_MARGIN})">']
    heights = [_HEIGHT * share / tallest for share in newest.tolist()]
    # One path for all bars: a picture is kept with every run that makes one.
    bars = "".join(f"M{place * step:.1f},{_HEIGHT}v{-tall:.1f}h{step - 1:.1f}v{tall:.1f}z" for place, tall in enumerate(heights) if tall)
    parts.append(f'<path d="{bars}" fill="{_SAMPLE}" fill-opacity="0.6"/>')
    for label, shares, colour in lines:
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{_outline(shares, step, tallest)}">'
            f"<title>{escape(label)}</title></polyline>"
        )
    parts.append(f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="#888888"/>')
    parts.append(f'<text y="{_HEIGHT + 13}">{histogram.edges[0]:.4g}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{_HEIGHT + 13}" text-anchor="end">{histogram.edges[-1]:.4g}</text>')
    if len(histogram.versions) > 1:
        middle = _WIDTH // 2
        parts.append(f'<text x="{middle}" y="{_HEIGHT + 13}" text-anchor="middle" fill="{_OLDER}">drift {histogram.drift:.3f}</text>')
    return [*parts, "</g>"]


def _outline(shares: Floats, step: float, tallest: float) -> str:
    points = []
    for place, share in enumerate(shares.tolist()):
        y = _HEIGHT - _HEIGHT * share / tallest
        points += [f"{place * step:.1f},{y:.1f}", f"{(place + 1) * step:.1f},{y:.1f}"]
    return " ".join(points)
