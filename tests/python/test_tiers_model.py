"""Random moves between tiers beside a plain list of what should be in the log."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Literal

import aof2
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

ROOMY = 1 << 40
TIGHT = (1 << 20) + (16 << 10)
"""Room for the segment being written, and a little."""
PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.integers(1, 9_000).map(lambda size: bytes([size & 255]) * size),
)


class TieredLog(RuleBasedStateMachine):
    """With a roomy budget only the rules move segments; with a tight one the log does, too."""

    @initialize(
        format_=st.sampled_from(["full", "compact"]), hot_bytes=st.sampled_from([ROOMY, TIGHT])
    )
    def create(self, format_: Literal["full", "compact"], hot_bytes: int) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.format: Literal["full", "compact"] = format_
        self.tiers = aof2.Tiers(hot_bytes=hot_bytes, frame_bytes=4096)
        self.records: list[tuple[aof2.RecordId, bytes]] = []
        self.earliest = 0
        self.warm: set[int] = set()
        self.open_log(with_tiers=True)

    def open_log(self, *, with_tiers: bool) -> None:
        self.with_tiers = with_tiers
        self.log = aof2.Aof.open(
            self.directory / "events",
            format=self.format,
            segment_bytes=1 << 20,
            tiers=self.tiers if with_tiers else None,
        )
        self.reader = aof2.open(self.directory / "events")

    def close_log(self) -> None:
        self.log.close()
        self.reader.close()

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.read_everything()
            self.close_log()
            shutil.rmtree(self.directory)

    def sealed(self) -> list[aof2.Segment]:
        return [segment for segment in self.log.segments() if segment.is_sealed]

    @rule(payloads=st.lists(PAYLOADS, min_size=1, max_size=12))
    def append(self, payloads: list[bytes]) -> None:
        ids = self.log.append_many(payloads)
        self.records += zip(ids, payloads, strict=True)

    @rule()
    def seal(self) -> None:
        self.log.seal()

    @precondition(lambda self: self.with_tiers and self.sealed())
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        segment = data.draw(st.sampled_from(self.sealed()))
        gone = self.log.evict(segment.segment_id)
        if self.tiers.hot_bytes == ROOMY:
            assert gone == (segment.used_bytes if segment.residency == "hot" else 0)
            self.warm.add(segment.segment_id)

    @precondition(lambda self: self.with_tiers and self.sealed())
    @rule(data=st.data())
    def hydrate(self, data: st.DataObject) -> None:
        segment = data.draw(st.sampled_from(self.sealed()))
        if self.tiers.hot_bytes == TIGHT:
            # There may never be room for it.
            with contextlib.suppress(aof2.Timeout):
                self.log.hydrate(segment.segment_id, timeout=0.01)
        else:
            back = self.log.hydrate(segment.segment_id)
            assert back == (segment.used_bytes if segment.residency == "warm" else 0)
            self.warm.discard(segment.segment_id)

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(self.records)))
        report = self.log.apply_retention(before_offset=offset)
        assert self.earliest <= report.earliest_offset <= max(offset, self.earliest)
        self.earliest = report.earliest_offset
        self.warm -= {segment.segment_id for segment in report.segments}

    @rule(with_tiers=st.booleans())
    def reopen(self, with_tiers: bool) -> None:
        self.close_log()
        self.open_log(with_tiers=with_tiers)

    @rule()
    def read_everything(self) -> None:
        self.log.flush()
        wanted = self.records[self.earliest :]
        for log in (self.log, self.reader):
            scanned = [(r.offset, r.id, bytes(r)) for r in log.scan()]
            assert scanned == [(n + self.earliest, *r) for n, r in enumerate(wanted)]
            table = pa.table(log.scan_arrow(columns=["payload"]))
            assert table["payload"].to_pylist() == [payload for _, payload in wanted]

    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        self.log.flush()
        if not self.records:
            return
        offset = data.draw(st.integers(0, len(self.records) - 1))
        rid, payload = self.records[offset]
        for log in (self.log, self.reader):
            try:
                assert log.read_offset(offset).payload == payload
                assert log.read(rid).offset == offset
                following = next(log.scan(offset))
                assert (following.offset, following.id) == (offset, rid)
            except aof2.Trimmed as trimmed:
                assert offset < self.earliest == trimmed.earliest

    @invariant()
    def everything_is_where_it_was_put(self) -> None:
        if not hasattr(self, "log") or self.tiers.hot_bytes != ROOMY:
            return
        warm = {s.segment_id for s in self.log.segments() if s.residency == "warm"}
        assert warm == self.warm
        files = {int(f.name[:20]) for f in (self.directory / "events" / "warm").glob("*.zst")}
        assert warm <= files <= {s.segment_id for s in self.log.segments()}


TieredLog.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTieredLog = TieredLog.TestCase
