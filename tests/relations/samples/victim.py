"""A process that works on the samples of a lake and is killed at the n-th point on the way. Usage: url point [first row to append]

It appends ten rows from memory where it is told to, and else lets the samples take up what is there.
"""

from __future__ import annotations

import sys

from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.lake.crashing import Points, watch
from tests.relations.samples.streams import rows

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        points = Points(int(sys.argv[2]))
        watch(points)
        if len(sys.argv) > 3:
            first = int(sys.argv[3])
            with platform.stream("posts") as stream:
                stream.append(rows(first, first + 10), wait=True)
        else:
            done = run_maintenance(platform.work, kinds=["sample"])
            assert not done.failed
        print(points.count)
