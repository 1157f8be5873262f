"""How much one micro-batch takes: limits by records and bytes, and when to wait for more.

Pure arithmetic over offsets and segments; nothing here reads a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aof2.spark.read.splits import Run


def share_out(limit: int, backlog: Mapping[str, int]) -> dict[str, int]:
    """Divide a limit among streams in proportion to what each has to offer.

    So streams stay about equally far behind. A stream that has something gets at least
    one record: else a small one could wait for ever. Together they get no more than the
    limit, or one each if there are more streams than that.
    """
    shares = dict.fromkeys(backlog, 0)
    waiting = {key: count for key, count in backlog.items() if count > 0}
    total = sum(waiting.values())
    if total <= limit:
        return shares | waiting
    spare = max(limit - len(waiting), 0)
    # Everybody has one; the rest goes by what is left of each backlog.
    left = total - len(waiting)
    for key, count in waiting.items():
        shares[key] = 1 + ((count - 1) * spare // left if left else 0)
    short = max(limit, len(waiting)) - sum(shares.values())
    for key in sorted(waiting, key=lambda key: shares[key] - waiting[key]):
        more = min(short, waiting[key] - shares[key])
        shares[key] += more
        short -= more
    return shares


def records_within(runs: list[Run], limit_bytes: int) -> int:
    """How many records from the start of the runs take about this many bytes.

    At least one, so that a query whose limit is smaller than a record goes on.
    """
    count = 0
    for run in runs:
        if run.bytes > limit_bytes:
            count += (run.end - run.start) * limit_bytes // run.bytes
            break
        count += run.end - run.start
        limit_bytes -= run.bytes
    return max(count, 1)


class Patience:
    """``minOffsetsPerTrigger``: waits for enough records, but not for ever."""

    def __init__(self, min_records: int, delay_max_ms: int) -> None:
        self._min_records = min_records
        self._delay_max_ms = delay_max_ms
        self._since_ms: int | None = None

    def is_over(self, waiting_records: int, now_ms: int) -> bool:
        """Whether a micro-batch is due. The clock starts at the first question."""
        if self._since_ms is None:
            self._since_ms = now_ms
        waited_ms = now_ms - self._since_ms
        if waiting_records < self._min_records and waited_ms < self._delay_max_ms:
            return False
        self._since_ms = now_ms
        return True
