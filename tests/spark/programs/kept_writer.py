"""A writer in a process of its own. Does what its input says, a line each, and answers.

append N    append N more records and make them durable; answers the end of the log
retain N    remove segments whose records all lie before N; answers the first offset left
"""

import sys

import aof2
from support import FIRST_MS, payload

with aof2.Aof.open(sys.argv[1], segment_bytes=64 << 10) as log:
    for line in sys.stdin:
        what, number = line.split()
        if what == "append":
            end = log.watermarks().appended
            for offset in range(end, end + int(number)):
                log.append(payload(offset), timestamp_ms=FIRST_MS + offset * 1_000)
            log.flush()
            print(log.watermarks().durable, flush=True)
        else:
            print(log.apply_retention(before_offset=int(number)).earliest_offset, flush=True)
