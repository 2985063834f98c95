"""WITH SAMPLE (error = …, confidence = …): the plan by which a query's aggregates are estimated from sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from platform_plugin.algebra.functions import AGGREGATES, canonical_name
from platform_plugin.algebra.plan.render import sql_of
from platform_plugin.errors import InvalidStatement, InvalidValue
from platform_plugin.language.query.query import analyse_query
from platform_plugin.language.text.bare_names import find_names
from platform_plugin.language.text.leaves import read_constant
from platform_plugin.language.text.places import Span, locate_offset
from platform_plugin.language.text.tokens import NUMBER, tokenize
from platform_plugin.language.text.values import Literal as ConstantValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp

    from platform_plugin.language.text.tokens import Tokens

UNIT, STRATUM = "_unit", "_stratum"
_DEFAULTS = {"error": 0.05, "confidence": 0.95}
_HINT = "SELECT groups and aggregates FROM relation [JOIN …] [WHERE …] [GROUP BY …]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateMeasure:
    """One aggregate: a total, a ratio of two totals, or a quantile; `above` and `below` number the row values it is made of."""

    name: str
    kind: Literal["total", "ratio", "quantile"]
    above: int
    below: int | None = None
    scale: float = 1.0
    counts: bool = False
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximation:
    """A query that is to be estimated.

    `text` gives, for each row that passes the condition, its groups, its values, and the sampled row that it comes from.
    """

    text: str
    groups: tuple[str, ...]
    hidden_groups: int
    measures: tuple[ApproximateMeasure, ...]
    values: int
    order: tuple[tuple[Literal["group", "measure"], int], ...]
    error: float
    confidence: float


def wants_sample(query: Span) -> bool:
    """Whether a query has WITH SAMPLE; this is asked of every query, so the cheap test comes first."""
    if "sample" not in query.text.lower():
        return False
    return _find_clause(find_names(tokenize(query.source, query.start, query.end))) is not None


def plan_approximation(query: Span) -> Approximation:
    """The plan of a query with WITH SAMPLE, or an error that names the part that can't be estimated.

    >>> text = "SELECT kind, count(*) AS n, avg(score) FROM posts WITH SAMPLE (error = 0.1) WHERE id > 3 GROUP BY kind"
    >>> plan = plan_approximation(Span(text, 0, len(text)))
    >>> plan.groups, [(measure.name, measure.kind) for measure in plan.measures], plan.error
    (('kind',), [('n', 'total'), ('avg(score)', 'ratio')], 0.1)
    """
    from sqlglot import exp

    tokens = find_names(tokenize(query.source, query.start, query.end))
    clause = _find_clause(tokens)
    if clause is None:
        raise locate_offset(query).attach(InvalidStatement("the query has no WITH SAMPLE", hint="write it after the relation"))
    first, last, options = clause
    start, end = tokens.starts[first] - query.start, tokens.ends[last] - query.start
    rest = query.text[:start] + " " * (end - start) + query.text[end:]
    try:
        read = analyse_query(_named(rest))
    except InvalidStatement as error:
        raise locate_offset(query).attach(InvalidStatement("the query can't be read as one that is estimated", hint=_HINT)) from error
    if not isinstance(read.tree, exp.Select):
        raise locate_offset(query).attach(_refused("only a single SELECT is estimated"))
    if any(reference.is_special for reference in read.relations):
        hint = "leave out AT, SESSION and changes"
        raise locate_offset(query).attach(InvalidValue("a relation is estimated as it is now", hint=hint))
    return _Planner(query, read.tree, exp).plan(options)


def _find_clause(tokens: Tokens) -> tuple[int, int, dict[str, float]] | None:
    """The first and last token of WITH SAMPLE (…), and its options."""
    for index in range(len(tokens)):
        if tokens.upper(index) == "WITH" and tokens.upper(index + 1) == "SAMPLE" and tokens.upper(index + 2) == "(":
            return _read_clause(tokens, index)
    return None


def _read_clause(tokens: Tokens, first: int) -> tuple[int, int, dict[str, float]]:
    options = dict(_DEFAULTS)
    index = first + 3
    while tokens.upper(index) != ")":
        if index >= len(tokens):
            raise locate_offset(tokens.span(first, first + 2)).attach(
                InvalidStatement("WITH SAMPLE ( is not closed", hint="write WITH SAMPLE (error = 0.02)")
            )
        name = tokens.text(index).lower()
        place = tokens.span(index, index + 1)
        if name not in _DEFAULTS:
            raise locate_offset(place).attach(
                InvalidStatement(f'WITH SAMPLE has no option "{name[:40]}"', hint="its options are error and confidence")
            )
        if tokens.upper(index + 1) != "=" or tokens.kind(index + 2) != NUMBER:
            raise locate_offset(place).attach(InvalidStatement(f'option "{name}" takes a number', hint=f"write {name} = {_DEFAULTS[name]}"))
        try:
            options[name] = float(tokens.text(index + 2))
        except ValueError:
            options[name] = 0.0
        check_bounds(options["error"], options["confidence"], place)
        index += 3
        if tokens.upper(index) == ",":
            index += 1
    return first, index, options


def check_bounds(error: float, confidence: float, place: Span | None = None) -> None:
    """Refuse an error or a confidence that no sample can have."""
    wrong = None
    if not 0 < error < 1:
        wrong = InvalidValue(f"an error of {error:g} can't be asked for", hint="give a share such as 0.02")
    elif not 0.5 <= confidence < 1:
        wrong = InvalidValue(f"a confidence of {confidence:g} can't be asked for", hint="give 0.5 to 0.9999, such as 0.95")
    if wrong is not None:
        raise wrong if place is None else locate_offset(place).attach(wrong)


def _named(text: str) -> str:
    """The text with `?` as named parameters, since expressions of it are written more than once."""
    tokens = tokenize(text)
    parts, end, number = [], 0, 0
    for index in range(len(tokens)):
        if tokens.text(index) == "?":
            parts += [text[end : tokens.starts[index]], f":_positional_{number}"]
            end, number = tokens.ends[index], number + 1
    return "".join([*parts, text[end:]])


def _refused(what: str) -> InvalidStatement:
    return InvalidStatement(what, hint=_HINT)


class _Planner:
    """Reads the tree of one query."""

    def __init__(self, query: Span, tree: exp.Select, library: object) -> None:
        self.query, self.tree = query, tree
        self.exp: Any = library
        self.values: list[str] = []

    def fail(self, what: str) -> InvalidStatement:
        failed = _refused(what)
        locate_offset(self.query).attach(failed)
        return failed

    def plan(self, options: dict[str, float]) -> Approximation:
        tree, exp = self.tree, self.exp
        self._check_shape()
        measures: list[ApproximateMeasure] = []
        groups: list[tuple[str, str]] = []
        order: list[tuple[Literal["group", "measure"], int]] = []
        for item in tree.expressions:
            node = item.unalias()
            name = item.alias or (item.name if isinstance(item, exp.Column) else _sql(item))
            if _has_aggregate(node):
                order.append(("measure", len(measures)))
                measures.append(self._measure(name, node))
            else:
                order.append(("group", len(groups)))
                groups.append((name, _sql(node)))
        if not measures:
            raise self.fail("nothing is aggregated, so that there is nothing to estimate")
        hidden = self._hidden_groups(groups)
        shown = [f"{text} AS _g{place}" for place, text in enumerate([*(text for _, text in groups), *hidden])]
        shown += [f"CAST({value} AS DOUBLE) AS _y{place}" for place, value in enumerate(self.values)]
        body = _sql(tree.args["from_"])
        body += "".join(f" {_sql(join).strip()}" for join in tree.args.get("joins") or [])
        if tree.args.get("where"):
            body += f" {_sql(tree.args['where']).strip()}"
        return Approximation(
            text=f"SELECT {', '.join([*shown, UNIT, STRATUM])} {body.strip()}",
            groups=tuple(name for name, _ in groups),
            hidden_groups=len(hidden),
            measures=tuple(measures),
            values=len(self.values),
            order=tuple(order),
            error=options["error"],
            confidence=options["confidence"],
        )

    def _check_shape(self) -> None:
        tree, exp = self.tree, self.exp
        known = {"expressions", "from_", "where", "group", "joins", "kind", "hint", "operation_modifiers"}
        other = next((name for name, value in tree.args.items() if value and name not in known), None)
        if other is not None:
            raise self.fail(f"{other.strip('_').upper()} is not part of a query that is estimated")
        source = tree.args.get("from_")
        if source is None or not isinstance(source.this, exp.Table):
            raise self.fail("the first relation in FROM is the one that is sampled, and it is none")
        if any(found is not tree for found in tree.find_all(exp.Select)):
            raise self.fail("a query inside of the query can't be estimated")
        if tree.find(exp.Window) is not None:
            raise self.fail("a window function can't be estimated")
        for join in tree.args.get("joins") or []:
            if (join.side or "").upper() in ("RIGHT", "FULL"):
                raise self.fail(f"{join.side.upper()} JOIN asks for rows that the sample does not have")

    def _hidden_groups(self, groups: Sequence[tuple[str, str]]) -> list[str]:
        """The groups that are not shown; that every shown one is a group is checked."""
        exp, group = self.exp, self.tree.args.get("group")
        others = [] if group is None else [value for name, value in group.args.items() if name != "expressions"]
        parts = [] if group is None else group.expressions
        if any(others) or any(isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets) for one in parts):
            raise self.fail("only plain GROUP BY is estimated, without ROLLUP, CUBE or ALL")
        left = dict.fromkeys(range(len(groups)))
        hidden = []
        for node in parts:
            text = _sql(node)
            place = next((index for index, (name, own) in enumerate(groups) if text in (own, name)), None)
            if isinstance(node, exp.Literal) and node.is_int:
                item = int(node.this) - 1
                shown = [i for i, entry in enumerate(self.tree.expressions) if not _has_aggregate(entry.unalias())]
                place = shown.index(item) if item in shown else None
                if place is None:
                    raise self.fail(f"GROUP BY {item + 1} is not one of the groups")
            if place is None:
                hidden.append(text)
            else:
                left.pop(place, None)
        if left:
            raise self.fail(f'"{groups[next(iter(left))][0]}" is neither aggregated nor grouped by')
        return hidden

    def _value(self, text: str) -> int:
        if text not in self.values:
            self.values.append(text)
        return self.values.index(text)

    def _measure(self, name: str, node: exp.Expr) -> ApproximateMeasure:
        exp = self.exp
        while isinstance(node, exp.Paren):
            node = node.this
        condition = None
        inner = node
        if isinstance(node, exp.Filter):
            condition, inner = _sql(node.expression.this), node.this
        if _name(inner) == "avg" and len(inner.expressions) == 1:
            text = _if(_sql(inner.expressions[0]), condition)
            above, below = self._value(f"coalesce({text}, 0)"), self._value(f"CASE WHEN ({text}) IS NULL THEN 0 ELSE 1 END")
            return ApproximateMeasure(name=name, kind="ratio", above=above, below=below)
        share = self._share(inner)
        if share is not None:
            text = _if(_sql(inner.expressions[0]), condition)
            return ApproximateMeasure(name=name, kind="quantile", above=self._value(text), share=share)
        if isinstance(node, exp.Div):
            above, over, _ = self._total(node.this)
            below, under, _ = self._total(node.expression)
            return ApproximateMeasure(name=name, kind="ratio", above=above, below=below, scale=over / under)
        place, scale, counts = self._total(node)
        return ApproximateMeasure(name=name, kind="total", above=place, scale=scale, counts=counts)

    def _share(self, node: exp.Expr) -> float | None:
        """The share of a quantile; None for another aggregate."""
        called = _name(node)
        if called == "median":
            return 0.5
        if called not in ("percentile", "percentile_approx") or len(node.expressions) < 2:
            return None
        share = _number(node.expressions[1])
        if share is None or not 0 < share < 1:
            raise self.fail("the share of a quantile is a number between 0 and 1 here")
        return share

    def _total(self, node: exp.Expr) -> tuple[int, float, bool]:
        """The row value that a sum or a count adds up, what it is multiplied by, and whether it is a count."""
        exp = self.exp
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Mul):
            for factor, other in ((node.this, node.expression), (node.expression, node.this)):
                if (number := _number(factor)) is not None:
                    place, scale, _ = self._total(other)
                    return place, scale * number, False
        condition = None
        if isinstance(node, exp.Filter):
            condition, node = _sql(node.expression.this), node.this
        called, inner = _name(node), node.expressions[0] if len(node.expressions) == 1 else None
        if inner is not None and not isinstance(inner, exp.Distinct):
            if called == "count_if":
                return self._value(_if(f"CASE WHEN {_sql(inner)} THEN 1 ELSE 0 END", condition, "0")), 1.0, True
            if called == "count":
                every = isinstance(inner, exp.Star | exp.Literal)
                text = "1" if every else f"CASE WHEN ({_sql(inner)}) IS NULL THEN 0 ELSE 1 END"
                return self._value(_if(text, condition, "0")), 1.0, True
            if called == "sum":
                return self._value(f"coalesce({_if(_sql(inner), condition)}, 0)"), 1.0, False
        raise self.fail(f"{_sql(node)} can't be estimated: count, sum, avg, a ratio of them, median and percentile can")


def _name(node: exp.Expr) -> str:
    """The name of the function that a node calls, whatever else it goes by; empty if it calls none."""
    from sqlglot import exp

    return canonical_name(str(node.this)) if isinstance(node, exp.Anonymous) else ""


def _has_aggregate(node: exp.Expr) -> bool:
    from sqlglot import exp

    return any(str(call.this) in AGGREGATES for call in node.find_all(exp.Anonymous))


def _number(node: exp.Expr) -> float | None:
    constant = read_constant(node)
    if not isinstance(constant, ConstantValue) or constant.kind not in ("integer", "decimal", "double"):
        return None
    return float(str(constant.value))


def _sql(node: exp.Expr) -> str:
    """The text of a part of the query for Spark."""
    return sql_of(node)


def _if(text: str, condition: str | None, otherwise: str = "NULL") -> str:
    return text if condition is None else f"CASE WHEN {condition} THEN {text} ELSE {otherwise} END"
