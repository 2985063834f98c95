"""`read_name_mapping`: the columns of files of other programs, which have names and no field ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from platform_plugin.lake.catalogue import catalogue as c

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def read_name_mapping(connection: Connection, mapping_id: int) -> tuple[dict[tuple[int | None, str], tuple[int, int]], dict[int, str]]:
    """For files of other programs: (parent, column name) to (mapping column, field id), and names of columns kept in paths by field id."""
    m = c.NAME_MAPPING.c
    query = sa.select(m.column_id, m.source_name, m.target_field_id, m.parent_column, m.is_partition).where(m.mapping_id == mapping_id)
    rows = connection.execute(query).all()
    inside = {(row.parent_column, row.source_name): (row.column_id, row.target_field_id) for row in rows if not row.is_partition}
    return inside, {row.target_field_id: row.source_name for row in rows if row.is_partition}
