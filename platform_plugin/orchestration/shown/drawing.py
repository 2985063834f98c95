"""`draw_lineage`, `draw_split` and `draw_sample`: drawings of an asset as Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from platform_plugin.orchestration.shown.chart import as_markdown
from platform_plugin.relations.samples.plot import plot_sample
from platform_plugin.relations.views.explain import explain_split

if TYPE_CHECKING:
    from platform_plugin.engine.workspace import Workspace
    from platform_plugin.lake.catalogue.tables import Name
    from platform_plugin.operators.group.parts import SplitPlan
    from platform_plugin.orchestration.assets.tracing import TracedRelation

PICTURE = "picture"
_MOST_DRAWN = 40
# A picture is kept with every run that makes one.
_DRAWN_COLUMNS = 6


def draw_lineage(name: str, traced: TracedRelation) -> str | None:
    """A table of each column with its origins, and the same as a Mermaid chart; None where nothing is known.

    >>> from platform_plugin.algebra.plan.nodes import Output
    >>> from platform_plugin.orchestration.assets.lineage import Origin
    >>> from platform_plugin.orchestration.assets.tracing import TracedRelation
    >>> mean = TracedRelation(columns=(Output(name="mean"),), lineage={"mean": frozenset({Origin("main", "posts", "score")})})
    >>> print(draw_lineage("impact", mean))
    | column | made of |
    |---|---|
    | `mean` | `posts.score` |
    <BLANKLINE>
    ```mermaid
    flowchart LR
      posts_score["posts.score"] --> impact_mean["impact.mean"]
    ```
    """
    if not traced.lineage:
        return None
    made_of = {column: sorted(f"{origin.relation}.{origin.column}" for origin in origins) for column, origins in traced.lineage.items()}
    lines = ["| column | made of |", "|---|---|"]
    for column, origins in made_of.items():
        told = ", ".join(f"`{origin}`" for origin in origins) or "the number of rows, or constants"
        lines.append(f"| `{column}` | {told} |".replace("\n", " "))
    arrows = [(origin, f"{name}.{column}") for column, origins in made_of.items() for origin in origins]
    if 0 < len(arrows) <= _MOST_DRAWN:
        lines += ["", "```mermaid", "flowchart LR", *(f"  {_node(origin)} --> {_node(made)}" for origin, made in arrows), "```"]
    return "\n".join(lines)


def _node(column: str) -> str:
    plain = re.sub(r"\W", "_", column, flags=re.ASCII)
    shown = column.replace('"', "'")
    return f'{plain}["{shown}"]'


def draw_split(plan: SplitPlan) -> str:
    """The split of a view: what runs for each range of a stream, what is stored, and what runs at each read."""
    return f"```text\n{explain_split(plan, trees=False).rstrip()}\n```"


def draw_sample(work: Workspace, name: Name) -> str:
    """The first numeric columns of a sample, with its population if that is small."""
    svg = plot_sample(work, (name.schema, name.relation), most_columns=_DRAWN_COLUMNS, most_rows=work.limits.run_histogram_rows)
    return as_markdown(svg.decode(), said=f"histograms of {name}")
