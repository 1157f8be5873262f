"""``python -m aof2``: the same as the command ``aof2``."""

import sys

from aof2.cli import main

if __name__ == "__main__":
    sys.exit(main())
