"""A process that appends batches with or without ids and says which were acknowledged; killed at random by the test that started it."""

from __future__ import annotations

import sys
from datetime import timedelta

import pyarrow as pa

from platform_plugin.platform import Platform
from platform_plugin.relations.streams.append import Grouping


def batch(writer: int, number: int) -> pa.Table:
    """Between one and five rows that say where they belong."""
    count = 1 + (writer + number) % 5
    return pa.table({"writer": pa.array([writer] * count, pa.int32()), "batch": pa.array([number] * count, pa.int32())})


def main() -> None:
    """`url writer first ids`: append for ever, and print each number once its receipt is there."""
    url, writer, first, ids = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "ids"
    with Platform.open(url) as platform, platform.stream("s", grouping=Grouping(linger=timedelta(milliseconds=5))) as stream:
        number = first
        while True:
            for _ in range(20):
                receipt = stream.append(batch(writer, number), batch_id=f"{writer}/{number}" if ids else None)
                receipt.add_done_callback(lambda done, number=number: done.exception() or print(number, flush=True))
                number += 1
            receipt.result()


if __name__ == "__main__":
    main()
