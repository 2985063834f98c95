"""The platform server as a script for `spark-submit`, on a cluster: `spark-submit --master … deploy/spark_server.py FOLDER`."""

from __future__ import annotations

import sys

from platform_plugin.engine.spark.server.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
