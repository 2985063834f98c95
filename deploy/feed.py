"""Live data for the reference platform: users once, and posts for as long as somebody watches."""

from __future__ import annotations

import math
import random
import signal
import sys
import time
from contextlib import suppress

import pyarrow as pa

from platform_plugin.errors import PlatformError
from platform_plugin.platform import Platform

USERS = 1_000
REGIONS = ("DE", "FR", "US", "JP")
PAUSE_SECONDS = 1.0
POSTS_PER_SECOND = 200


def feed(url: str) -> None:
    """Add users once and posts for ever; a lake or stream that is not there yet is waited for."""
    while True:
        try:
            with Platform.open(url) as platform:
                add_users(platform)
                stream = platform.stream("posts")
                began = time.monotonic()
                while True:
                    stream.append(posts(time.monotonic() - began))
                    time.sleep(PAUSE_SECONDS)
        except PlatformError:
            # The first materialization makes the lake; a restart of it is survived too.
            time.sleep(1.0)


def add_users(platform: Platform) -> None:
    """The users, unless somebody added some."""
    lake = platform.lake
    table = lake.table("users")
    if lake.read("users").num_rows:
        return
    chance = random.Random(7)
    rows = {
        "id": pa.array(range(USERS), pa.int32()),
        "region": pa.array([chance.choice(REGIONS) for _ in range(USERS)]),
        "rate": pa.array([round(chance.uniform(1, 50), 2) for _ in range(USERS)]).cast(pa.decimal128(9, 2)),
    }
    with lake.commit("load users") as commit:
        commit.append(table, [lake.write(table, pa.table(rows))])


def posts(seconds: float) -> pa.Table:
    """A second's posts: their number swells and ebbs within five minutes, and a few people write most of them."""
    count = max(1, int(POSTS_PER_SECOND * (1 + 0.8 * math.sin(seconds / 300 * math.tau)) * random.uniform(0.7, 1.3)))
    uids = [min(int(random.expovariate(1 / 150)), USERS - 1) for _ in range(count)]
    return pa.table(
        {
            "uid": pa.array(uids, pa.int32()),
            "username": pa.array([f"user{uid}" for uid in uids]),
            "score": pa.array([int(random.expovariate(1 / (5 + uid % 97))) for uid in uids], pa.int32()),
            "content": pa.array([f"post of user {uid}" for uid in uids]),
        }
    )


if __name__ == "__main__":
    # A shell that starts things in the background lets them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        feed(sys.argv[1])
