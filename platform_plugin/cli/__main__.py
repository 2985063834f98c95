"""`python -m platform_plugin.cli` is the `platform` command."""

import sys

from platform_plugin.cli import main

if __name__ == "__main__":
    sys.exit(main())
