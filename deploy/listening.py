"""Says by its exit code whether somebody listens at a host and port: `python -m deploy.listening HOST PORT`; for health checks."""

from __future__ import annotations

import socket
import sys

if __name__ == "__main__":
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
    except OSError as error:
        sys.exit(str(error))
