"""The table of arrival logs: made where there are segments."""

from __future__ import annotations

import sqlalchemy as sa

from platform_plugin.lake.migrations.arrival_logs import add_arrival_logs
from platform_plugin.lake.ring.arrival_log import ARRIVAL_LOG
from platform_plugin.lake.ring.segments import SEGMENT


def columns(connection):
    return [(column["name"], str(column["type"]), column["nullable"]) for column in sa.inspect(connection).get_columns(ARRIVAL_LOG.name)]


def test_it_is_the_table_that_new_lakes_have(lake):
    with lake.writing() as connection:
        # Whatever this process has imported, the lake has neither.
        for table in (SEGMENT, ARRIVAL_LOG):
            table.drop(connection, checkfirst=True)
        add_arrival_logs(connection)
        assert not sa.inspect(connection).has_table(ARRIVAL_LOG.name)
        SEGMENT.create(connection)
        add_arrival_logs(connection)
        made = columns(connection)
        add_arrival_logs(connection)
        ARRIVAL_LOG.drop(connection)
        ARRIVAL_LOG.create(connection)
        assert made == columns(connection)
