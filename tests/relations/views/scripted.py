"""A process that runs a script in one commit and is killed at the n-th point on the way. Usage: url point file"""

from __future__ import annotations

import sys
from pathlib import Path

from platform_plugin.platform import Platform
from tests.lake.crashing import Points, watch

if __name__ == "__main__":
    with Platform.open(sys.argv[1]) as platform:
        points = Points(int(sys.argv[2]))
        watch(points)
        list(platform.execute_script(Path(sys.argv[3]).read_text(), one_commit=True))
        print(points.count)
