"""Reading the manifest of a log: what happened to its segments."""

from __future__ import annotations

import datetime
import json
import os
from typing import TYPE_CHECKING, Any

from aof2._aof2 import ManifestFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow

    from aof2._manifest_types import (
        ManifestIndex,
        ManifestRecord,
        ManifestReport,
        ManifestSegment,
    )
    from aof2._types import StrPath

# Decoded at a time: enough to make the call cheap, little enough to keep memory flat.
_BATCH_RECORDS = 4096


class Manifest:
    """The manifest of a log: every opening, sealing and removal of a segment, in order.

    Reads only, in any process, while a writer may run. Pickles by its path.

    >>> import aof2
    >>> manifest = aof2.Manifest.open(path)
    >>> [record.type for record in manifest.records(segment_id=0)]
    ['SegmentOpened', 'SealSegment']
    """

    def __init__(self, files: ManifestFiles) -> None:
        """Use `Manifest.open`."""
        self._files = files

    @classmethod
    def open(cls, path: StrPath) -> Manifest:
        """Open the manifest of the log in this directory.

        Raises `NotALog` if there is no log, or if it has no manifest.

        >>> import aof2
        >>> aof2.Manifest.open(path).index().next_record > 0
        True
        """
        return cls(ManifestFiles(os.fspath(path)))

    @property
    def path(self) -> str:
        """Directory of the log."""
        return self._files.path

    @property
    def stream_id(self) -> int:
        """Id of the stream."""
        return self._files.stream_id

    def records(
        self,
        *,
        segment_id: int | None = None,
        types: Iterable[str] | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
    ) -> Iterator[ManifestRecord]:
        """Give the committed records, oldest first, as far as chunks are there.

        `since` and `until` are aware datetimes; `until` is not included.

        >>> [record.segment_id for record in manifest.records(types=["SealSegment"])]
        [0]
        """
        wanted = None if types is None else frozenset(_type_names(types))
        first_ms = None if since is None else _milliseconds("since", since)
        end_ms = None if until is None else _milliseconds("until", until)
        return (
            record
            for record in self._all_records()
            if (segment_id is None or record.segment_id == segment_id)
            and (wanted is None or record.type in wanted)
            and (first_ms is None or record.timestamp_ms >= first_ms)
            and (end_ms is None or record.timestamp_ms < end_ms)
        )

    def _all_records(self) -> Iterator[ManifestRecord]:
        for batch in self.batches():
            yield from batch

    def batches(self, place: tuple[int, int] | None = None) -> RecordBatches:
        """Give the committed records as lists, from a place on.

        When it ends, iterate over it again later: it goes on where it stopped.

        >>> batches = manifest.batches()
        >>> sum(len(batch) for batch in batches) > 0
        True
        >>> list(batches)
        []
        """
        return RecordBatches(self._files, place)

    def index(self) -> ManifestIndex:
        """Return what all records add up to.

        >>> manifest.index().pending_uploads
        []
        """
        return self._files.index()

    def segments(self) -> list[ManifestSegment]:
        """Return what the manifest knows of the segments, oldest first.

        >>> [segment.is_sealed for segment in manifest.segments()]
        [True, False]
        """
        return self.index().segments

    def verify(self) -> ManifestReport:
        """Check every byte, and whether the manifest agrees with the segment files.

        >>> manifest.verify().is_healthy
        True
        """
        return self._files.verify()

    def records_arrow(self) -> pyarrow.RecordBatchReader:
        """Give the committed records as a stream of Arrow batches; needs pyarrow.

        `details` is JSON, with bytes as hexadecimal digits.

        >>> manifest.records_arrow().read_all().column("type")[0].as_py()
        'SegmentOpened'
        """
        import pyarrow as pa

        schema = pa.schema(
            [
                pa.field("ordinal", pa.int64(), nullable=False),
                pa.field("chunk_index", pa.int64(), nullable=False),
                pa.field("chunk_offset", pa.int64(), nullable=False),
                pa.field("type", pa.string(), nullable=False),
                pa.field("record_type", pa.int32(), nullable=False),
                pa.field("flags", pa.int32(), nullable=False),
                pa.field("segment_id", pa.int64(), nullable=False),
                pa.field("logical_offset", pa.int64(), nullable=False),
                pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
                pa.field("details", pa.string(), nullable=False),
            ]
        )

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in self.batches():
                yield pa.RecordBatch.from_pylist([arrow_row(record) for record in batch], schema)

        return pa.RecordBatchReader.from_batches(schema, rows())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path."""
        return (Manifest.open, (self.path,))

    def __repr__(self) -> str:
        """Say where it is."""
        return f"Manifest({self.path!r})"


class RecordBatches:
    """Committed records in lists; see `Manifest.batches`."""

    def __init__(self, files: ManifestFiles, place: tuple[int, int] | None) -> None:
        """Use `Manifest.batches`."""
        self._files = files
        self.place = place
        """Where the next record is expected: chunk, and byte in it."""

    def __iter__(self) -> Iterator[list[ManifestRecord]]:
        """Give what is committed and was not given yet."""
        while True:
            records, place = self._files.read(self.place, _BATCH_RECORDS)
            self.place = place
            if not records:
                return
            yield records


def arrow_row(record: ManifestRecord) -> dict[str, Any]:
    """Make a row of `Manifest.records_arrow`."""
    return {
        "ordinal": record.ordinal,
        "chunk_index": record.chunk_index,
        "chunk_offset": record.chunk_offset,
        "type": record.type,
        "record_type": record.record_type,
        "flags": record.flags,
        "segment_id": record.segment_id,
        "logical_offset": record.logical_offset,
        "timestamp": record.timestamp_ms * 1000,
        "details": details_json(record),
    }


def details_json(record: ManifestRecord) -> str:
    """Return the fields of a record as JSON, with bytes as hexadecimal digits."""
    return json.dumps(record.details, default=bytes.hex)


RECORD_TYPES = (
    "SegmentOpened",
    "SealSegment",
    "CompressionStarted",
    "CompressionDone",
    "CompressionFailed",
    "UploadStarted",
    "UploadDone",
    "UploadFailed",
    "Tier2DeleteQueued",
    "Tier2Deleted",
    "HydrationStarted",
    "HydrationDone",
    "HydrationFailed",
    "LocalEvicted",
    "SnapshotMarker",
    "CustomEvent",
    "Unknown",
)
"""The types of records there are."""


def _type_names(types: Iterable[str]) -> Iterator[str]:
    if isinstance(types, str):
        raise TypeError("types must be an iterable of names, not str")
    for name in types:
        if name not in RECORD_TYPES:
            raise ValueError(f"types: there is no {name!r}; there are {', '.join(RECORD_TYPES)}")
        yield name


def _milliseconds(name: str, moment: datetime.datetime) -> int:
    if not isinstance(moment, datetime.datetime):
        raise TypeError(f"{name} must be a datetime, not {type(moment).__name__}")
    if moment.tzinfo is None:
        raise ValueError(f"{name} must have a time zone, such as datetime.UTC")
    return int(moment.timestamp() * 1000)
