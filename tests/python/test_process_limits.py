"""What the system allows a process limits how fast logs are read, not how large they are."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import aof2
import pytest
from support import SMALL, run_program, wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the programs read /proc")

FEW_FILES = """
    import json, os, resource, sys
    import aof2

    path = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with aof2.open(path) as reader:
        by_reader = [bytes(record.payload).decode() for record in reader.scan()]
    tiers = aof2.Tiers(hot_bytes=1)
    with aof2.Aof.open(path, tiers=tiers) as log:
        by_writer = [bytes(record.payload).decode() for record in log.scan()]
        figures = log.metrics()
    most = max(map(int, os.listdir("/proc/self/fd")))
    healthy = aof2.verify(path).is_healthy
    print(json.dumps([by_reader, by_writer, figures["open_files"], most, healthy]))
"""


def test_a_log_of_more_compressed_segments_than_descriptors_is_read(tmp_path: Path) -> None:
    """Each compressed segment used to take a descriptor for as long as the log was open."""
    path = tmp_path / "events"
    count = 200
    with aof2.Aof.open(path, tiers=aof2.Tiers(hot_bytes=1), **SMALL) as log:
        for i in range(count):
            log.append(b"%d" % i)
            log.seal()
        wait_until(lambda: log.tiers().evicted_segments == count, "compressed segments")

    (line,) = run_program(FEW_FILES, path)

    by_reader, by_writer, open_files, most, healthy = json.loads(line)
    assert by_reader == by_writer == [str(i) for i in range(count)]
    assert 0 < open_files <= 32
    assert most < 60
    assert healthy


SMALL_ADDRESS_SPACE = """
    import json, resource, sys
    from pathlib import Path
    import aof2

    def used():
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    path, room_bytes = sys.argv[1], int(sys.argv[2])
    with aof2.open(path) as reader:
        limit = used() + room_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        ids, kept = [], []
        for record in reader.scan():
            ids.append(record.id)
            if record.offset % 97 == 0:
                kept.append(record)
        by_id = [reader.read(rid).offset for rid in ids[::50]]
        by_offset = [reader.read_offset(i).offset for i in range(0, len(ids), 50)]
        lengths = [len(record.payload) for record in kept]
        # Somebody else needs memory, too.
        taken = bytearray(room_bytes // 4)
        again = sum(1 for _ in reader.scan())
    print(json.dumps([len(ids), by_id, by_offset, lengths, again]))
"""


def test_a_log_larger_than_the_address_space_is_read(tmp_path: Path) -> None:
    """A reader kept everything mapped that it had read, until there were no addresses left."""
    path = tmp_path / "events"
    segment_bytes, record_bytes = 32 << 20, 64 << 10
    with aof2.Aof.open(path, segment_bytes=segment_bytes) as log:
        for _ in range(40):
            log.append_many([bytes(record_bytes)] * 100)
        log.seal()
    count = 4_000

    (line,) = run_program(SMALL_ADDRESS_SPACE, path, 3 * segment_bytes)

    found, by_id, by_offset, lengths, again = json.loads(line)
    assert found == again == count
    assert by_id == by_offset == list(range(0, count, 50))
    assert set(lengths) == {record_bytes}
