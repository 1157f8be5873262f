"""Printing records, for ``cat``, ``tail`` and ``export``."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from aof2.cli.errors import CommandError, ExitCode, usage
from aof2.cli.output import Output
from aof2.cli.payloads import RecordFormat
from aof2.cli.ranges import records_text
from aof2.cli.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aof2 import ArrowScan, Follow, Record, Scan, SkippedRange
    from aof2._types import OnCorruption, Visibility

#: Bytes gathered before they are written: one write for many small records.
_WRITE_BYTES = 1 << 16
#: More ranges than these are only counted; JSON has them all.
_RANGES_SHOWN = 8


def record_format(
    *, as_json: bool, output: str | None, with_meta: bool, delimiter: str | None
) -> RecordFormat:
    """Return the output format that the options ask for."""
    if as_json and output not in (None, "json"):
        raise usage(f"--json and --output {output} were both given", "use one of them")
    name = "json" if as_json else output or "text"
    if delimiter is not None and name != "raw":
        raise usage("--delimiter is for --output raw")
    if with_meta and name != "text":
        raise usage("--meta is for --output text; json and hex show it anyway")
    end = b"\n" if delimiter is None else _unescaped(delimiter)
    return RecordFormat(name, with_meta=with_meta, delimiter=end)


def _unescaped(text: str) -> bytes:
    """Read the delimiter; shells make newlines, tabs and NULs hard to type."""
    for escape, char in (("\\n", "\n"), ("\\t", "\t"), ("\\0", "\0")):
        text = text.replace(escape, char)
    return text.encode("utf-8", "surrogateescape")


def write_records(records: "Iterable[Record]", encoding: RecordFormat, out: BinaryIO) -> int:
    """Write records, and return their number.

    What was read before an error is written before the error is raised.
    """
    count = 0
    gathered = bytearray()
    try:
        for record in records:
            gathered += encoding.encode(record)
            count += 1
            if len(gathered) >= _WRITE_BYTES:
                out.write(gathered)
                # Not clear(): the writer may still hold the old buffer.
                gathered = bytearray()
    finally:
        out.write(gathered)
    return count


@dataclass
class Missing:
    """What scans passed over."""

    skipped: int = 0
    lost: int = 0
    ranges: "list[SkippedRange]" = field(default_factory=list)

    def add(self, scan: "Scan | Follow | ArrowScan") -> "Missing":
        """Take in what one of them passed over."""
        self.skipped += scan.skipped
        self.lost += scan.lost
        self.ranges += scan.skipped_ranges
        return self

    def tell(self, out: Output) -> None:
        """Warn about what a repair gave up; fail with exit code 5 if damage was skipped.

        All that is intact was printed, and that was not all there had been.
        """
        damaged = self.skipped - self.lost
        if damaged:
            message = f"{plural(damaged, 'damaged record')} skipped: {self._text('damaged')}"
            message += f"; {self._lost_text()}" if self.lost else ""
            hint = "aof2 verify shows where"
            raise CommandError(ExitCode.CORRUPT, "skipped", message, hint, **self._details())
        self.warn(out)

    def warn(self, out: Output) -> None:
        """Warn about what a repair gave up."""
        if self.lost:
            out.warn("lost", self._lost_text(), self._details())

    def _lost_text(self) -> str:
        what = plural(self.lost, "record")
        return f"{what} missing, lost before the log was repaired: {self._text('lost')}"

    def _details(self) -> dict[str, Any]:
        ranges = [{"records": list(r.records), "reason": r.reason} for r in self.ranges]
        return {"skipped": self.skipped, "lost": self.lost, "ranges": ranges}

    def _text(self, reason: str) -> str:
        shown = [records_text(*each.records) for each in self.ranges if each.reason == reason]
        more = len(shown) - _RANGES_SHOWN
        text = ", ".join(shown[:_RANGES_SHOWN])
        return f"{text}, and {plural(more, 'more range')}" if more > 0 else text


def visibility(with_appended: bool) -> "Visibility":
    """Return the package's word for which records are seen."""
    return "appended" if with_appended else "durable"


def on_corruption(skip_damage: bool) -> "OnCorruption":
    """Return the package's word for what damage does."""
    return "skip" if skip_damage else "fail"
