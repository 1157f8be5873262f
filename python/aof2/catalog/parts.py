"""Parts of operations, as callers give them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectName:
    """An object by what it holds. The database that made it first stays in the name.

    >>> from aof2.catalog import ObjectName
    >>> name = ObjectName(origin_db=1, chunk_id=2, generation=3)
    >>> str(name)
    '00000001/00000002/base:00000003'
    >>> ObjectName.parse(str(name)) == name
    True
    """

    origin_db: int
    """Database that made it."""
    chunk_id: int
    """Chunk of that database."""
    variant: str = "base"
    """Which object of the chunk: "base", "wal", "segment" or "delta-0001"."""
    generation: int = 0
    """Rewrites have later generations."""

    def __str__(self) -> str:
        """Return the key below a namespace."""
        place = f"{self.origin_db:08x}/{self.chunk_id:08x}"
        return f"{place}/{self.variant}:{self.generation:08x}"

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Read it as it is shown."""
        try:
            origin, chunk, rest = text.split("/")
            variant, generation = rest.split(":")
            return cls(int(origin, 16), int(chunk, 16), variant, int(generation, 16))
        except ValueError:
            raise ValueError(f"{text!r} is not the name of an object") from None


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment that an operation is about, and what is stored of it."""

    segment_id: int
    """The segment."""
    crc64: int
    """Checksum of what is stored."""
    bytes: int
    """Length of that."""
    epoch: int = 0
    """Which of its objects: keys are never used again."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkFields:
    """A chunk as it is registered."""

    chunk_id: int
    """Its number, never used again in its database."""
    _: dataclasses.KW_ONLY
    size_bytes: int
    """Length of its file."""
    crc64: int
    """Checksum of its file."""
    first_page: int = 0
    """First page that it holds; 0 for chunks of a write-ahead log."""
    page_count: int = 0
    """Pages that it holds; 0 for chunks of a write-ahead log."""
    compression: str = "raw"
    """How it is stored: "raw" or "zstd"."""
    residency: str = "local"
    """Where it is: "local", "local_and_remote", "remote_archived" or "evicted"."""
    lsn_start: int = 0
    """First position of the write-ahead log that it covers."""
    lsn_end: int = 0
    """Position behind the last."""
    remote_namespace: int | None = None
    """Place in a bucket where its object is."""
    remote_object: ObjectName | None = None
    """The object, if it is in a bucket."""
    supersedes: int | None = None
    """In a checkpoint: the chunk that it replaces, with its deltas."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeltaFields:
    """A delta over a chunk as it is registered."""

    base_chunk_id: int
    """The chunk that it patches."""
    delta_id: int
    """Its number, for the name of its object."""
    _: dataclasses.KW_ONLY
    dirty_pages: bytes
    """Pages that it holds, in the encoding of the page store."""
    size_bytes: int
    """Length of its file."""
    crc64: int
    """Checksum of its file."""
    compression: str = "raw"
    """How it is stored: "raw" or "zstd"."""
    residency: str = "local"
    """Where it is: "local", "local_and_remote", "remote_archived" or "evicted"."""
    remote_namespace: int | None = None
    """Place in a bucket where its object is."""
    remote_object: ObjectName | None = None
    """The object, if it is in a bucket."""
