"""A reader in another process, while this one writes.

The reader takes no lock and sees a record as soon as it is durable. A second
writer is refused, with the process id of the first.

Run it: python examples/other_process.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import aof2

READER = """
import sys
import aof2

with aof2.open(sys.argv[1]) as reader:
    print("reader: connected", flush=True)
    for record in reader.follow("earliest", timeout=60.0, until_closed=True):
        print("reader:", record.offset, bytes(record).decode(), flush=True)
    print("reader: the writer has closed the log", flush=True)
"""

SECOND_WRITER = """
import sys
import aof2

try:
    aof2.Aof.open(sys.argv[1])
except aof2.Locked as error:
    print("second writer: refused, process", error.pid, "writes this log")
"""


def main() -> None:
    """Write while another process reads."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events"
        with (
            aof2.Aof.open(path) as log,
            subprocess.Popen(
                [sys.executable, "-c", READER, path], stdout=subprocess.PIPE, text=True
            ) as reader,
        ):
            assert reader.stdout is not None
            print(reader.stdout.readline(), end="")
            for word in ("one", "two", "three"):
                rid = log.append(word.encode())
                log.flush(rid)
                print(reader.stdout.readline(), end="")  # it has seen the record

            refused = subprocess.run(
                [sys.executable, "-c", SECOND_WRITER, path], capture_output=True, text=True
            )
            print(refused.stdout, end="")

            log.close()
            print(reader.stdout.read(), end="")
        print("reader: exit code", reader.returncode)


if __name__ == "__main__":
    main()
