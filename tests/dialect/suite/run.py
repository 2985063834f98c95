"""Run SQLAlchemy's compliance suite against a new lake and the machine's platform server: `python tests/dialect/suite/run.py [-k …]`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def main(*arguments: str) -> int:
    """Pytest's exit code; its report goes to the terminal."""
    sys.path.insert(0, str(ROOT))
    from platform_plugin import Platform

    with tempfile.TemporaryDirectory(prefix="platform-suite-") as folder:
        url = f"platform+local://{folder}/lake"
        Platform.create(url).close()
        command = [sys.executable, "-m", "pytest", "-c", "setup.cfg", "--rootdir", ".", "--dburi", url, "test_suite.py", *arguments]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=HERE, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
