"""`python -m aof2_dev.s3 DIRECTORY`: serves until interrupted, and says how to reach it."""

import signal
import sys
from pathlib import Path

from aof2_dev.s3.server import S3Server


def main() -> None:
    """Serve until interrupted."""
    with S3Server(Path(sys.argv[1])) as server:
        for name, value in server.env().items():
            print(f"export {name}={value}")
        print(f"# serving {server.endpoint}; end with Ctrl-C", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
