"""A process that maintains the views of a lake again and again until a file is there. Usage: url file"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from platform_plugin.engine.limits import Limits
from platform_plugin.errors import CommitConflict
from platform_plugin.maintenance.run import run_maintenance
from platform_plugin.platform import Platform

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        if "BY_SPARK" in os.environ:
            platform.work.limits = Limits(client_range_rows=0, client_state_bytes=0)
            platform.work.engine = "spark_sql"
        runs = lost = 0
        while not Path(sys.argv[2]).exists():
            try:
                done = run_maintenance(platform.work)
            except CommitConflict:
                lost += 1
                continue
            assert not done.failed, done.failed
            runs += bool(done.views)
        print(runs, lost)
