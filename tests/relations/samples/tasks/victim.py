"""A process whose sample is drawn by executors and that is killed on the way. Usage: url, then a point to die at, or seconds as `0.3s`."""

from __future__ import annotations

import os
import signal
import sys
import threading

from platform_plugin.engine.spark.session.spool import SpoolFolder
from platform_plugin.platform import Platform
from tests.lake.crashing import Points, watch

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        platform.work.engine = "executors"
        _ = platform.work.session  # a start of Spark would take most of the time
        points = Points(None if sys.argv[2].endswith("s") else int(sys.argv[2]))
        remove = SpoolFolder.remove

        def removed(self: SpoolFolder, below: str = "") -> None:
            points.reach("before reservoirs are removed")
            remove(self, below)
            points.reach("after reservoirs are removed")

        SpoolFolder.remove = removed  # type: ignore[method-assign]
        watch(points)
        if points.kill_at is None:
            threading.Timer(float(sys.argv[2].removesuffix("s")), os.kill, (os.getpid(), signal.SIGKILL)).start()
        platform.execute("REFRESH SAMPLE drawn")
        print(points.count)
        os._exit(0)
