"""`Yardstick`: what a fixed piece of work costs at this moment, so that tests compare costs whatever else runs on the machine."""

from __future__ import annotations

import json
import time

import sqlalchemy as sa


class Yardstick:
    """A fixed piece of work of the kind that is measured: statements that are built and run, and rows that are taken in."""

    def __init__(self) -> None:
        self._connection = sa.create_engine("sqlite://").connect()
        self._connection.exec_driver_sql("CREATE TABLE t (i INTEGER PRIMARY KEY, s TEXT)")
        self._connection.exec_driver_sql("INSERT INTO t VALUES " + ", ".join(f"({number}, 'text {number}')" for number in range(500)))
        self._rows = sa.table("t", sa.column("i"), sa.column("s"))

    def __call__(self) -> None:
        for number in range(20):
            found = self._connection.execute(sa.select(self._rows).where(self._rows.c.i > number).order_by(self._rows.c.s)).all()
            assert json.loads(json.dumps(dict(map(tuple, found))))

    def seconds(self) -> float:
        """Of the processor, in this process."""
        began = time.process_time()
        self()
        return time.process_time() - began
