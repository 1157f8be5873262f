"""Random operations on a log beside a plain list of what should be in it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import aof2
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.integers(1, 30_000).map(lambda size: bytes([size & 255]) * size),
)
TIMES = st.integers(0, 3_000)
KINDS = st.sampled_from([bytes, bytearray, memoryview])
Visibility = Literal["durable", "appended"]


@dataclass
class Expected:
    """One record as it should be."""

    id: aof2.RecordId
    timestamp_ms: int | None
    flags: int
    payload: bytes


class LogMachine(RuleBasedStateMachine):
    """Seals make the segments, so that what is durable is known at every step."""

    ids = Bundle("ids")

    @initialize(format_=st.sampled_from(["full", "compact"]))
    def create(self, format_: Literal["full", "compact"]) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.format: Literal["full", "compact"] = format_
        self.records: list[Expected] = []
        self.durable = 0
        self.earliest = 0
        self.open_log()

    def open_log(self) -> None:
        self.log = aof2.Aof.open(
            self.directory / "events",
            format=self.format,
            # Never full: a rollover would flush at a time of its own.
            segment_bytes=16 << 20,
            flush_interval_ms=0,
            flush_bytes=1 << 30,
        )
        self.reader = aof2.open(self.directory / "events")

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.close()
            report = aof2.verify(self.directory / "events")
            assert report.is_healthy, report.problems
            assert report.next_offset == len(self.records)
            shutil.rmtree(self.directory)

    @rule(target=ids, payload=PAYLOADS, ms=st.none() | TIMES, flags=st.integers(0, 3), kind=KINDS)
    def append(self, payload: bytes, ms: int | None, flags: int, kind: Any) -> aof2.RecordId:
        flags = flags if self.format == "full" else 0
        rid = self.log.append(kind(payload), timestamp_ms=ms, flags=flags)
        self.records.append(Expected(rid, ms, flags, payload))
        return rid

    @rule(target=ids, payloads=st.lists(PAYLOADS, max_size=12), kind=KINDS)
    def append_many(self, payloads: list[bytes], kind: Any) -> Any:
        before = len(self.records)
        ids = self.log.append_many(kind(payload) for payload in payloads)
        assert (len(ids), ids.first_offset) == (len(payloads), before)
        for rid, payload in zip(ids, payloads, strict=True):
            self.records.append(Expected(rid, None, 0, payload))
        return multiple(*ids)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable = len(self.records)

    @rule(rid=ids)
    def flush_one(self, rid: aof2.RecordId) -> None:
        self.log.flush(rid)
        self.durable = self.log.watermarks().durable
        assert all(record.id > rid for record in self.records[self.durable :])

    @rule()
    def seal(self) -> None:
        self.log.seal()
        self.durable = len(self.records)
        assert all(segment.is_sealed for segment in self.log.segments() if segment.record_count)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.reader.close()
        self.durable = len(self.records)
        self.open_log()

    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(self.records)))
        report = self.log.apply_retention(before_offset=offset)
        assert self.earliest <= report.earliest_offset <= max(offset, self.earliest)
        assert report.record_count == report.earliest_offset - self.earliest
        self.earliest = report.earliest_offset

    def check(self, record: aof2.Record, offset: int) -> None:
        expected = self.records[offset]
        assert (record.offset, record.id, record.flags) == (offset, expected.id, expected.flags)
        assert record.payload == expected.payload
        if expected.timestamp_ms is not None:
            assert record.timestamp_ms == expected.timestamp_ms

    def logs(self, visibility: Visibility) -> list[aof2.ReadableLog]:
        """Those that must see everything: nobody tells readers what is only appended."""
        return [self.log, self.reader] if visibility == "durable" else [self.log]

    def limit(self, visibility: Visibility) -> int:
        return self.durable if visibility == "durable" else len(self.records)

    @rule(rid=ids, visibility=st.sampled_from(["durable", "appended"]))
    def read(self, rid: aof2.RecordId, visibility: Visibility) -> None:
        offset = next(i for i, record in enumerate(self.records) if record.id == rid)
        for log in self.logs(visibility):
            try:
                self.check(log.read(rid, visibility=visibility), offset)
                self.check(log.read_offset(offset, visibility=visibility), offset)
            except aof2.Trimmed as error:
                assert offset < self.earliest == error.earliest
            except (aof2.RecordNotFound, aof2.PastEnd):
                assert offset >= self.limit(visibility)

    @rule(data=st.data(), visibility=st.sampled_from(["durable", "appended"]))
    def scan(self, data: st.DataObject, visibility: Visibility) -> None:
        limit = self.limit(visibility)
        start = data.draw(st.integers(self.earliest, limit))
        end = data.draw(st.none() | st.integers(0, len(self.records) + 2))
        start_at: Any = start
        end_at: Any = end
        if start < limit and data.draw(st.booleans()):
            start_at = self.records[start].id
        if end is not None and end < limit and data.draw(st.booleans()):
            end_at = self.records[end].id
        wanted = range(start, limit if end is None else min(end, limit))
        for log in self.logs(visibility):
            for records in (
                log.scan(start_at, end_at, visibility=visibility),
                log.follow(start_at, end_at, visibility=visibility, timeout=0),
            ):
                offsets = []
                for record in records:
                    self.check(record, record.offset)
                    offsets.append(record.offset)
                assert offsets == list(wanted)
                assert records.skipped == 0

    @rule(ms=TIMES)
    def find_moment(self, ms: int) -> None:
        """The first durable record at or after a moment, and a scan that starts there."""
        stamps = {record.offset: record.timestamp_ms for record in self.log.scan()}
        wanted = next((o for o, stamp in stamps.items() if stamp >= ms), self.durable)
        moment = datetime.fromtimestamp(ms / 1000, UTC)
        for log in (self.log, self.reader):
            assert log.offset_at(ms) == log.offset_at(moment) == wanted
            assert log.scan(moment).next_offset == wanted

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = aof2.Watermarks(appended=len(self.records), durable=self.durable)
        assert self.log.watermarks() == expected
        assert self.log.earliest_offset() == self.earliest
        segments = self.log.segments()
        assert (
            sum(segment.record_count for segment in segments) == len(self.records) - self.earliest
        )
        assert self.reader.watermarks().durable == self.durable


LogMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLog = LogMachine.TestCase
