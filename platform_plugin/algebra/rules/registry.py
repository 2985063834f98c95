"""`RULES`: the one list of rules on the plans of queries, in the order in which they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from platform_plugin.algebra.rules.distinct_keys import DistinctKeys
from platform_plugin.algebra.rules.join_hints import JoinHints
from platform_plugin.algebra.rules.lookup import FindLookup
from platform_plugin.algebra.rules.needed_columns import NeededColumns
from platform_plugin.algebra.rules.pruning import Pruning
from platform_plugin.algebra.rules.result_limit import LimitAtReader
from platform_plugin.algebra.rules.result_size import BoundedResult
from platform_plugin.algebra.rules.stream_first import StreamFirst

if TYPE_CHECKING:
    from platform_plugin.algebra.rules.rule import Phase, Rule

RULES: tuple[Rule, ...] = (
    NeededColumns(),
    Pruning(),
    LimitAtReader(),
    BoundedResult(),
    FindLookup(),
    DistinctKeys(),
    StreamFirst(),
    JoinHints(),
)
RULE_NAMES = tuple(rule.name for rule in RULES)


def rules_of(phase: Phase) -> tuple[Rule, ...]:
    """The rules of one phase."""
    return tuple(rule for rule in RULES if rule.phase == phase)
