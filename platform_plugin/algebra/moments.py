"""Moments, stored as their number, mean and the sum of squared distances from it: the expression that merges those of several parts."""

from __future__ import annotations

MOMENT_MERGE = """
aggregate(collect_list(_0), named_struct('n', 0.0D, 'mean', 0.0D, 'm2', 0.0D), (a, b) -> CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN b
ELSE named_struct('n', a.n + b.n,
'mean', a.mean + (b.mean - a.mean) * b.n / (a.n + b.n),
'm2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * b.n / (a.n + b.n)) END)
"""
"""Chan's formula over the stored structs of a group, which stand for `_0`."""
