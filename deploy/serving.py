"""Says by its exit code whether this user's platform server is ready: `python -m deploy.serving`; for health checks."""

from __future__ import annotations

import sys

from platform_plugin.engine.spark.server.attach import status

if __name__ == "__main__":
    phase = status().phase
    sys.exit(None if phase == "ready" else phase)
