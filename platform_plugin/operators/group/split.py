"""`plan_split`: a view's query becomes static parts, stream parts with their states, and an upper query.

What an executor does with a `SplitPlan` (see `parts` for the values):

* **Create**, at snapshot s: run every static part at s and store its result, which the stream parts look up later. Create an empty table
  for each state, with the columns of `state.columns`; a type that is None there is what Spark's analysis of a part's SQL says. A static
  part with `feeds` is not looked up: its rows are the first ones of that state. The view covers the rows that arrive after s.
* **Maintain**: for a range of a stream that no run has consumed, run `part.sql({part.stream: range, "static_1": …})` of each stream part on
  that stream, and append the rows to the state of `part.state`. The range is a relation with the stream's columns, and with `ROW_ID`,
  growing in the order of arrival, where `part.row_id` says so. The new rows and the new cursor are committed together.
* **Compact** at any time, any rows of a state: `state.merge_sql(rows)` gives rows that stand for them.
* **Read**: for each state, take its stored rows and what its stream parts give for the rows that no run has consumed yet, merge
  them, and run `plan.upper_sql({"state_1": merged, …})`; other relations in it are read at the reader's snapshot. A `volatile` plan's
  answers are not served twice. A state without keys merges to one row even of nothing.
* All of it runs in the time zone that the view was created in, because casts between strings, dates and timestamps depend on it.

The promise: for every cut of the streams' rows into ranges, and any order of appends and merges, the upper query over the merged states
gives what the view's query gives over all rows, with the static parts' tables as they were at creation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.build.query import build_plan
from platform_plugin.algebra.plan.nodes import Derived, Item, Project, outputs, scans
from platform_plugin.algebra.plan.traversal import column_reference, walk_expression
from platform_plugin.errors import RefusedView, UnknownObject
from platform_plugin.language.text.counting import count_text
from platform_plugin.language.text.places import Span, locate_offset, suggest_word, syntax_error
from platform_plugin.operators.group.admission import CHANGING, Refuser, groups_streams
from platform_plugin.operators.group.body import read_body
from platform_plugin.operators.group.cutting import cut_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from platform_plugin.algebra.plan.nodes import Query
    from platform_plugin.algebra.plan.relations import RelationFacts
    from platform_plugin.operators.group.cutting import Typer
    from platform_plugin.operators.group.parts import SplitPlan


def read_plan(query: str | Span, relations: Mapping[str, RelationFacts]) -> Query:
    """The plan of a query, over relations by the names that it may use for them, in lower case.

    Names and functions that a plan can't express are refused at their places.
    """
    source = query.source if isinstance(query, Span) else query

    def place(node: exp.Expr | None) -> tuple[int, int]:
        found = [inner.meta["at"] for inner in walk_expression(node) if "at" in inner.meta] if node is not None else []
        whole = (query.start, query.end) if isinstance(query, Span) else (0, len(source))
        return min(found) if found else whole

    def fail(node: exp.Expr | None, message: str, hint: str | None) -> Exception:
        return syntax_error(Span(source, *place(node)), message, hint=hint)

    def relation(parts: tuple[str, ...], node: exp.Expr) -> RelationFacts:
        found = relations.get(".".join(parts).lower())
        if found is None:
            missing = UnknownObject(f'relation "{".".join(parts)}" does not exist', hint=suggest_word(".".join(parts), relations))
            raise locate_offset(Span(source, *place(node))).attach(missing)
        return found

    try:
        return build_plan(read_body(query), relation, fail, read_body)
    except RecursionError as error:
        raise fail(None, "this query is nested too deeply for a view", "write x IN (…) for x = … OR x = …, or name inner parts") from error


def plan_split(
    query: str | Span,
    relations: Mapping[str, RelationFacts],
    *,
    names: tuple[str, ...] = (),
    typer: Typer | None = None,
    whole: Query | None = None,
) -> SplitPlan:
    """A view's query split into its parts, or a `RefusedView` that says which rule it breaks, where, and what would be accepted.

    `relations` are known by the names that the query may use for them, in lower case. `names` are the view's own names for its columns.
    `typer` gives the column types of a SELECT, as Spark does; it is asked only where a type matters and can't be told from the text.
    `whole` is the query's plan, where it is known.

    >>> from platform_plugin.algebra.plan.relations import RelationFacts
    >>> from platform_plugin.algebra.types.data_types import Field, Primitive
    >>> fields = (Field(name="uid", type=Primitive("int32")), Field(name="score", type=Primitive("int32")))
    >>> posts = RelationFacts(name=("main", "posts"), kind="stream", fields=fields)
    >>> plan = plan_split("SELECT uid, avg(score) AS score FROM posts GROUP BY uid", {"posts": posts})
    >>> print(plan.streams[0].sql({"main.posts": "range_1"}))
    SELECT posts.uid, sum(posts.score) AS sum_score, count(posts.score) AS n_score FROM range_1 AS posts GROUP BY posts.uid
    >>> print(plan.states[0].merge_sql("additions"))
    SELECT `rows`.uid, sum(`rows`.sum_score) AS sum_score, sum(`rows`.n_score) AS n_score FROM additions AS `rows` GROUP BY `rows`.uid
    """
    whole = read_plan(query, relations) if whole is None else whole
    refuse = Refuser(source=query.source if isinstance(query, Span) else query)
    if not any(found.kind in CHANGING for found in scans(whole)):
        refused = refuse("R9", "query", "a continuous view reads a stream", None, "make it a plain view: CREATE VIEW … AS …")
        refused.is_plain = True
        raise refused
    try:
        return cut_plan(_renamed(whole, names, refuse) if names else whole, refuse, typer)
    except RefusedView as refused:
        refused.is_plain = not groups_streams(whole)
        raise


def _renamed(plan: Query, names: tuple[str, ...], refuse: Refuser) -> Query:
    found = outputs(plan)
    if len(found) != len(names):
        raise refuse(
            "R10", "columns", f"the view names {count_text(len(names), 'column')} and its query has {len(found)}", None, "name all of them"
        )
    alias = "result"
    items = tuple(Item(value=column_reference(alias, old.name), name=new, type=old.type) for old, new in zip(found, names, strict=True))
    return Project(source=Derived(query=plan, alias=alias), items=items)
