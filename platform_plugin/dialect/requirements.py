"""The requirements of SQLAlchemy's compliance suite that the platform meets, and the reason for each that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_CONSTRAINTS = "rows are checked against NOT NULL only"
NO_GENERATED_KEYS = "the platform gives out no key values"
NO_TRANSACTIONS = "every statement commits by itself"
NO_TEMPORARY = "there are no temporary relations"
NO_TIME = "Spark can't read TIME columns"
NO_RETURNING = "changes give no rows"
NOT_COMPILED = "the dialect does not compile it"
NOT_OFFERED = "the platform does not offer it"
NAMES_FOLD = "names that differ only in case are the same name"

OPEN = """
    array_type autocommit boolean_col_expressions comment_reflection create_or_replace_view create_table_as ctes datetime_literals
    datetime_timezone dialect_level_isolation_level_param except_ fetch_first get_isolation_level_values intersect isolation_level
    nullsordering order_by_label_with_expression precision_numerics_enotation_small precision_numerics_many_significant_digits regexp_match
    regexp_replace schema_create_delete server_defaults supports_bitwise_and supports_bitwise_not supports_bitwise_or supports_bitwise_xor
    table_ddl_if_exists timestamp_microseconds tuple_in unicode_ddl uuid_data_type views window_functions window_range json_type
"""

CLOSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "foreign_keys",
            "foreign_key_ddl",
            "foreign_key_constraint_reflection",
            "self_referential_foreign_keys",
            "on_update_cascade",
            "named_constraints",
            "implicitly_named_constraints",
            "duplicate_key_raises_integrity_error",
            "index_reflection",
            "indexes_with_ascdesc",
            "reflect_indexes_with_ascdesc",
            "unique_constraint_reflection",
            "recursive_fk_cascade",
        ),
        NO_CONSTRAINTS,
    ),
    **dict.fromkeys(("autoincrement_insert", "autoincrement_without_sequence", "implements_get_lastrowid"), NO_GENERATED_KEYS),
    **dict.fromkeys(("temporary_tables", "temp_table_reflection", "temp_table_reflect_indexes"), NO_TEMPORARY),
    **dict.fromkeys(("time", "time_microseconds", "time_implicit_bound"), NO_TIME),
    **dict.fromkeys(("json_array_indexes",), NOT_COMPILED),
}


class Requirements(SuiteRequirements):
    """The suite's requirements by name; each one that is not met has a reason."""

    def __getattribute__(self, name: str) -> Any:
        if name in CLOSED:
            return exclusions.skip_if(lambda _: True, CLOSED[name])  # type: ignore[no-untyped-call]
        if name in _OPEN:
            return exclusions.open()  # type: ignore[no-untyped-call]
        return super().__getattribute__(name)


_OPEN = frozenset(OPEN.split())
