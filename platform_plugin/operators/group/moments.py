"""Variances and covariances: stored as structs of doubles, and merged by Chan's formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.moments import MOMENT_MERGE
from platform_plugin.operators.group.calls import call_expression, cast, parse_expression

if TYPE_CHECKING:
    from sqlglot import exp

from platform_plugin.operators.group.calls import Call

MOMENTS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
PAIRS = (
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_count",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
)

_ANSWERS = {
    "var_pop": "CASE WHEN _0.n > 0 THEN _0.m2 / _0.n END",
    "var_samp": "CASE WHEN _0.n > 1 THEN _0.m2 / (_0.n - 1) END",
    "stddev_pop": "CASE WHEN _0.n > 0 THEN sqrt(_0.m2 / _0.n) END",
    "stddev_samp": "CASE WHEN _0.n > 1 THEN sqrt(_0.m2 / (_0.n - 1)) END",
    "covar_pop": "CASE WHEN _0.n > 0 THEN _0.sxy / _0.n END",
    "covar_samp": "CASE WHEN _0.n > 1 THEN _0.sxy / (_0.n - 1) END",
    "corr": "CASE WHEN _0.n > 1 AND _0.sxx > 0 AND _0.syy > 0 THEN _0.sxy / sqrt(_0.sxx * _0.syy) END",
    "regr_count": "coalesce(CAST(_0.n AS BIGINT), 0)",
    "regr_avgx": "CASE WHEN _0.n > 0 THEN _0.mx END",
    "regr_avgy": "CASE WHEN _0.n > 0 THEN _0.my END",
    "regr_sxx": "CASE WHEN _0.n > 0 THEN _0.sxx END",
    "regr_syy": "CASE WHEN _0.n > 0 THEN _0.syy END",
    "regr_sxy": "CASE WHEN _0.n > 0 THEN _0.sxy END",
    "regr_slope": "CASE WHEN _0.n > 0 AND _0.sxx > 0 THEN _0.sxy / _0.sxx END",
    "regr_intercept": "CASE WHEN _0.n > 0 AND _0.sxx > 0 THEN _0.my - _0.sxy / _0.sxx * _0.mx END",
    "regr_r2": "CASE WHEN _0.n > 0 AND _0.sxx > 0 THEN CASE WHEN _0.syy > 0 THEN _0.sxy * _0.sxy / (_0.sxx * _0.syy) ELSE 1.0D END END",
}
_PAIR_MERGE = """
aggregate(collect_list(_0), named_struct('n', 0.0D, 'mx', 0.0D, 'my', 0.0D, 'sxx', 0.0D, 'syy', 0.0D, 'sxy', 0.0D), (a, b) ->
CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN b
ELSE named_struct('n', a.n + b.n,
'mx', a.mx + (b.mx - a.mx) * b.n / (a.n + b.n),
'my', a.my + (b.my - a.my) * b.n / (a.n + b.n),
'sxx', a.sxx + b.sxx + (b.mx - a.mx) * (b.mx - a.mx) * a.n * b.n / (a.n + b.n),
'syy', a.syy + b.syy + (b.my - a.my) * (b.my - a.my) * a.n * b.n / (a.n + b.n),
'sxy', a.sxy + b.sxy + (b.mx - a.mx) * (b.my - a.my) * a.n * b.n / (a.n + b.n)) END)
"""
# The merge, solved for one of the two. What rounding leaves of a spread is not below zero.
_RETRACT = """
CASE WHEN _0.n > _1.n THEN named_struct('n', _0.n - _1.n,
'mean', _0.mean - (_1.mean - _0.mean) * _1.n / (_0.n - _1.n),
'm2', greatest(0.0D, _0.m2 - _1.m2 - (_1.mean - _0.mean) * (_1.mean - _0.mean) * _0.n * _1.n / (_0.n - _1.n)))
ELSE named_struct('n', 0.0D, 'mean', 0.0D, 'm2', 0.0D) END
"""
_PAIR_RETRACT = """
CASE WHEN _0.n > _1.n THEN named_struct('n', _0.n - _1.n,
'mx', _0.mx - (_1.mx - _0.mx) * _1.n / (_0.n - _1.n),
'my', _0.my - (_1.my - _0.my) * _1.n / (_0.n - _1.n),
'sxx', greatest(0.0D, _0.sxx - _1.sxx - (_1.mx - _0.mx) * (_1.mx - _0.mx) * _0.n * _1.n / (_0.n - _1.n)),
'syy', greatest(0.0D, _0.syy - _1.syy - (_1.my - _0.my) * (_1.my - _0.my) * _0.n * _1.n / (_0.n - _1.n)),
'sxy', _0.sxy - _1.sxy - (_1.mx - _0.mx) * (_1.my - _0.my) * _0.n * _1.n / (_0.n - _1.n))
ELSE named_struct('n', 0.0D, 'mx', 0.0D, 'my', 0.0D, 'sxx', 0.0D, 'syy', 0.0D, 'sxy', 0.0D) END
"""


def moment_parts(call: Call) -> exp.Expr:
    """The stored struct of a range's rows: n, mean and M2, the sum of squared distances from the mean."""
    value = cast(call.args[0], "DOUBLE")
    number, mean, spread = (
        call.filtered(call_expression(name, found)) for name, found in (("count", call.args[0]), ("avg", value), ("var_pop", value))
    )
    text = "named_struct('n', CAST(_0 AS DOUBLE), 'mean', coalesce(_1, 0.0D), 'm2', coalesce(_2 * _0, 0.0D))"
    return parse_expression(text, number, mean, spread)


def pair_parts(call: Call) -> exp.Expr:
    """The same for pairs of values; pairs with a NULL are left out, as in Spark's own functions."""
    y, x = (cast(value, "DOUBLE") for value in call.args[:2])
    names = ("regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy")
    text = (
        "named_struct('n', CAST(_0 AS DOUBLE), 'mx', coalesce(_1, 0.0D), 'my', coalesce(_2, 0.0D), "
        "'sxx', coalesce(_3, 0.0D), 'syy', coalesce(_4, 0.0D), 'sxy', coalesce(_5, 0.0D))"
    )
    return parse_expression(text, *(call.filtered(call_expression(name, y, x)) for name in names))


def moment_merge(column: exp.Expr) -> exp.Expr:
    """The merge of all stored structs of a group."""
    return parse_expression(MOMENT_MERGE, column)


def pair_merge(column: exp.Expr) -> exp.Expr:
    """The same for pairs."""
    return parse_expression(_PAIR_MERGE, column)


def moment_retract(before: exp.Expr, gone: exp.Expr) -> exp.Expr:
    """The stored struct of a group without some of its rows, from those of all its rows and of the ones that leave."""
    return parse_expression(_RETRACT, before, gone)


def pair_retract(before: exp.Expr, gone: exp.Expr) -> exp.Expr:
    """The same for pairs."""
    return parse_expression(_PAIR_RETRACT, before, gone)


def moment_answer(name: str, column: exp.Expr) -> exp.Expr:
    """A function's answer from the merged struct, of one column or of pairs."""
    return parse_expression(_ANSWERS[name], column)
