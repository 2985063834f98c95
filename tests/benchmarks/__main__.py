"""`python -m tests.benchmarks NAME`: run one benchmark; without a name, list them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

_NOT_BENCHMARKS = {"__init__", "__main__", "report"}


def names() -> list[str]:
    """Every module of this folder that measures something."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _NOT_BENCHMARKS)


def main() -> int:
    """Run what was asked for."""
    if len(sys.argv) != 2 or sys.argv[1] not in names():
        if len(sys.argv) > 1:
            print(f"there is no benchmark {' '.join(sys.argv[1:])!r}", file=sys.stderr)
        print("usage: make bench NAME=name\n")
        for name in names():
            print(f"  {name:<12} {(import_module(f'tests.benchmarks.{name}').__doc__ or '').splitlines()[0]}")
        return 2 if len(sys.argv) > 1 else 0
    import_module(f"tests.benchmarks.{sys.argv[1]}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
