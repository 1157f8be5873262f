"""How much is done in a row, and the records that everybody writes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """So many records of so many bytes."""

    record_count: int
    payload_len: int

    @property
    def payload_bytes(self) -> int:
        return self.record_count * self.payload_len

    def payload(self) -> bytes:
        """One payload: the same for all, so that nobody measures where it came from."""
        return b"x" * self.payload_len

    def segment_bytes(self) -> int:
        """Size of a segment that holds all of it, as the Rust side computes it."""
        used = self.record_count * (self.payload_len + 40) + 4096
        return max(1 << (used - 1).bit_length(), 64 << 10)
