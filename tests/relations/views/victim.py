"""A process that maintains the views of a lake, or runs a statement, and is killed at the n-th point on the way. Usage: url point [sql]

ENGINE in its environment names the engine; those on Spark take up even small ranges.
"""

from __future__ import annotations

import os
import sys

from platform_plugin.engine.limits import Limits
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform
from tests.lake.crashing import Points, watch

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        platform.execute("SELECT count(*) FROM range(1)").close()
        if "ENGINE" in os.environ:
            platform.work.limits = Limits(client_range_rows=0, client_state_bytes=0, task_least_rows=1)
            platform.work.engine = os.environ["ENGINE"]
        points = Points(int(sys.argv[2]))
        watch(points)
        if len(sys.argv) > 3:
            platform.execute(sys.argv[3])
        else:
            done = run_maintenance(platform.work)
            assert not done.failed
        print(points.count)
