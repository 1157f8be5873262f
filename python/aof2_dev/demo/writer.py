"""The process that is killed: `python -m aof2_dev.demo.writer PATH EVENTS BATCH`.

It appends events one by one and flushes after every batch. Only when the flush has
returned does it acknowledge the batch, by printing how many events are durable. It
never closes the log: it ends by being killed, or when whoever started it is gone.
"""

import sys

import aof2

from aof2_dev.demo.events import event


def main(path: str, event_count: int, batch: int) -> None:
    """Append events, then wait to be killed."""
    with aof2.Aof.open(path) as log:
        for number in range(event_count):
            log.append(event(number))
            if number % batch == batch - 1:
                log.flush()
                print(number + 1, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
