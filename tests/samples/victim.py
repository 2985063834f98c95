"""A process that maintains the samples of a lake and is killed at the n-th point on the way. Usage: url point"""

from __future__ import annotations

import sys

from platform_plugin.platform import Platform
from platform_plugin.samples.maintain import run_sample_maintenance
from tests.lake.crashing import Points, watch

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        points = Points(int(sys.argv[2]))
        watch(points)
        done = run_sample_maintenance(platform.work)
        assert not done.failed
        print(points.count)
