"""The picture of a profile: what came when, and how large it was."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aof2.spark.errors import PackageMismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aof2._types import StrPath
    from aof2.spark.pipelines.profile import HourProfile, ProfileReport, SegmentProfile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INCHES = (12.0, 9.0)
_DPI = 100
#: Of an axis that shows bytes.
_MARKS_MAX = 8
_RECORDS, _BYTES, _SIZES = "#2a6f97", "#468f5a", "#b5651d"


def require_matplotlib() -> None:
    """Fail with what to install."""
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise PackageMismatch(
            f"a plot is drawn by matplotlib, which cannot be imported ({error}); "
            "pip install 'aof2[plot]'"
        ) from error


def draw(report: ProfileReport, file: StrPath) -> ProfileReport:
    """Draw a profile to a PNG file, and return the report that names it."""
    require_matplotlib()
    # Without pyplot: nothing global, no window, no backend to choose.
    figure = import_module("matplotlib.figure").Figure(
        figsize=_INCHES, dpi=_DPI, layout="constrained"
    )
    records, sizes_in_time, sizes = figure.subplots(3, 1)
    figure.suptitle(_title(report))
    rates = [each.records_per_s or 0.0 for each in report.hours]
    _draw_hours(records, report.hours, rates, _RECORDS, "records per second")
    bytes_per_s = [each.bytes_per_s or 0.0 for each in report.hours]
    _draw_hours(sizes_in_time, report.hours, bytes_per_s, _BYTES, "payload per second")
    _draw_segments(sizes, report.segments)
    for axes in (sizes_in_time, sizes):
        _mark_bytes(axes)
    figure.savefig(file, format="png")
    return replace(report, plot=os.fspath(file))


def _title(report: ProfileReport) -> str:
    if report.total is None:
        return f"{report.path}: no records"
    total = report.total
    return (
        f"{report.path}: {total.record_count:,} records, {_bytes_text(total.payload_bytes)} "
        f"in {len(report.segments):,} segments"
    )


def _draw_hours(
    axes: Any, hours: Sequence[HourProfile], heights: Sequence[float], colour: str, label: str
) -> None:
    axes.set_ylabel(label)
    axes.set_xlabel("hour (UTC)")
    axes.grid(axis="y", alpha=0.3)
    axes.set_ylim(bottom=0, top=max(heights, default=1.0) * 1.08 or 1.0)
    starts = [_EPOCH + timedelta(milliseconds=each.hour_ms) for each in hours]
    if starts:
        dates = import_module("matplotlib.dates")
        locator = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.bar(starts, heights, width=timedelta(hours=1), align="edge", color=colour)


def _draw_segments(axes: Any, segments: Sequence[SegmentProfile]) -> None:
    axes.set_ylabel("payload of a record")
    axes.set_xlabel("segment" if len({each.stream for each in segments}) < 2 else "segments")
    axes.grid(axis="y", alpha=0.3)
    places = range(len(segments))
    axes.vlines(
        places,
        [each.payload_len_min for each in segments],
        [each.payload_len_max for each in segments],
        color=_SIZES,
        alpha=0.45,
        linewidth=3 if len(segments) < 200 else 1,
        label="shortest to longest",
    )
    means = [each.payload_len_mean for each in segments]
    axes.plot(places, means, "o", markersize=4, color=_SIZES, label="mean")
    axes.xaxis.get_major_locator().set_params(integer=True)

    def name(place: float, _position: int | None = None) -> str:
        number = round(place)
        is_one = abs(place - number) < 1e-6 and 0 <= number < len(segments)
        return str(segments[number].segment_id) if is_one else ""

    axes.xaxis.set_major_formatter(name)
    if segments:
        axes.set_xlim(-0.6, len(segments) - 0.4)
        # Room above for the legend.
        axes.set_ylim(0, max(each.payload_len_max for each in segments) * 1.25)
        axes.legend(loc="upper right", ncols=2, frameon=False)


def _mark_bytes(axes: Any) -> None:
    """Put the marks at powers of two and their multiples: those are round in KiB and MiB."""
    _, top = axes.get_ylim()
    step = 2.0 ** math.ceil(math.log2(top / _MARKS_MAX))
    axes.yaxis.set_major_locator(import_module("matplotlib.ticker").MultipleLocator(step))
    axes.yaxis.set_major_formatter(_bytes_text)


def _bytes_text(value: float, _position: int | None = None) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"
