"""``aof2 manifest``: what happened to the segments of a log."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import ExitCode
from aof2.cli.options import TIMESTAMP, examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.times import TIME_HELP, iso_ms, time_text
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import Manifest, ManifestProblem, ManifestRecord, ManifestReport

#: How often a manifest is looked at for news.
_FOLLOW_SECONDS = 0.2

_RECORD_COLUMNS = (
    Column("record", is_number=True, leaves=3),
    Column("time", is_time=True, leaves=1),
    Column("segment", is_number=True),
    Column("type"),
    Column("offset", is_number=True, leaves=2),
    Column("details"),
)
_TIMELINE_COLUMNS = (
    Column("segment", is_number=True),
    Column("opened", is_time=True, leaves=4),
    Column("sealed", is_time=True, leaves=2),
    Column("last change", is_time=True, leaves=3),
    Column("bytes", is_number=True, leaves=1),
    Column("where"),
    Column("failures"),
)
_PROBLEM_COLUMNS = (
    Column("severity"),
    Column("kind"),
    Column("file"),
    Column("byte", is_number=True, leaves=1),
    Column("what"),
)


@click.group(
    "manifest",
    epilog=examples(
        "aof2 manifest inspect data/events",
        "aof2 manifest inspect data/events --segment 3 --follow",
        "aof2 manifest verify data/events",
    ),
)
def command() -> None:
    """Look at what a log recorded about its segments.

    A log has a manifest if it was opened with manifest_mode "shadow" or "enabled".
    """


@command.command(
    "inspect",
    epilog=examples(
        "aof2 manifest inspect data/events",
        "aof2 manifest inspect data/events --type SealSegment --since -1h",
        "aof2 manifest inspect data/events --timeline",
        "aof2 manifest inspect data/events --follow --json | jq .details",
    ),
)
@log_argument
@click.option("--segment", type=click.IntRange(min=0), metavar="N", help="Only of this segment.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only of this type; may be repeated."
)
@click.option("--since", type=TIMESTAMP, metavar="TIME", help=f"Not before: {TIME_HELP}.")
@click.option("--until", type=TIMESTAMP, metavar="TIME", help="Before this time.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--timeline", is_flag=True, help="One line for each segment: what became of it.")
@json_option
def inspect(
    log: str,
    segment: int | None,
    types: tuple[str, ...],
    since: int | None,
    until: int | None,
    follow: bool,
    timeline: bool,
    as_json: bool,
) -> None:
    """Print the records of a manifest, or a line for each segment.

    Shows what is committed, as far back as chunks are kept.
    """
    from aof2 import Manifest
    from aof2._manifest import RECORD_TYPES

    for name in types:
        if name not in RECORD_TYPES:
            raise click.UsageError(
                f"there is no type {name!r}; there are {', '.join(RECORD_TYPES)}"
            )
    if timeline and (types or follow or since is not None or until is not None):
        raise click.UsageError("--timeline shows whole segments: it goes with --segment only")
    manifest = Manifest.open(log)
    out = Output(as_json=as_json)
    if timeline:
        _print_timeline(out, manifest, segment)
        return

    def wanted(record: "ManifestRecord") -> bool:
        return (
            (segment is None or record.segment_id == segment)
            and (not types or record.type in types)
            and (since is None or record.timestamp_ms >= since)
            and (until is None or record.timestamp_ms < until)
        )

    records = filter(wanted, _records(manifest, follow=follow))
    if as_json:
        for record in records:
            out.object(_record_object(record))
            if follow:
                out.bytes.flush()
    elif follow:
        out.line_of_cells(column.name for column in _RECORD_COLUMNS)
        for record in records:
            out.line_of_cells(_record_row(record))
            out.flush()
    else:
        out.table(_RECORD_COLUMNS, [_record_row(record) for record in records])


def _records(manifest: "Manifest", *, follow: bool) -> Iterator["ManifestRecord"]:
    batches = manifest.batches()
    while True:
        for batch in batches:
            yield from batch
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)


def _record_row(record: "ManifestRecord") -> tuple[str, ...]:
    return (
        str(record.ordinal),
        time_text(record.timestamp_ms),
        str(record.segment_id),
        record.type,
        str(record.logical_offset),
        " ".join(f"{name}={_value_text(name, v)}" for name, v in record.details.items()),
    )


def _value_text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() or '""'
    return f"{value:016x}" if name.endswith("crc64") else str(value)


def _record_object(record: "ManifestRecord") -> dict[str, Any]:
    details = {
        name: value.hex() if isinstance(value, bytes) else _exact(name, value)
        for name, value in record.details.items()
    }
    return {
        "ordinal": record.ordinal,
        "chunk_index": record.chunk_index,
        "chunk_offset": record.chunk_offset,
        "type": record.type,
        "record_type": record.record_type,
        "flags": record.flags,
        "segment_id": record.segment_id,
        "logical_offset": record.logical_offset,
        "timestamp": iso_ms(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
        "details": details,
    }


def _exact(name: str, value: Any) -> Any:
    # Hexadecimal as everywhere: many readers of JSON round numbers of 64 bits.
    return f"{value:016x}" if name.endswith("crc64") and value is not None else value


def _print_timeline(out: Output, manifest: "Manifest", segment: int | None) -> None:
    from dataclasses import asdict

    segments = [s for s in manifest.segments() if segment is None or s.segment_id == segment]
    if out.as_json:
        for known in segments:
            out.object({name: _exact(name, value) for name, value in asdict(known).items()})
        return
    rows = []
    for known in segments:
        places = [
            name
            for name, there in (
                ("hot", known.hot),
                ("warm", known.warm_bytes is not None),
                ("cold", known.cold_key is not None),
            )
            if there
        ]
        failures = [
            f"{what} (reason {code})"
            for what, code in (
                ("compression", known.compression_failure),
                ("upload", known.upload_failure),
                ("hydration", known.hydration_failure),
            )
            if code is not None
        ] + (["flush"] if known.flush_failure else [])
        rows.append(
            (
                str(known.segment_id),
                time_text(known.opened_at_ms),
                time_text(known.sealed_at_ms),
                time_text(known.updated_at_ms),
                "-" if known.durable_bytes is None else human_bytes(known.durable_bytes),
                " ".join(places) or "-",
                ", ".join(failures) or "-",
            )
        )
    out.table(_TIMELINE_COLUMNS, rows)


@command.command("verify", epilog=examples("aof2 manifest verify data/events"))
@log_argument
@json_option
@click.pass_context
def verify(ctx: click.Context, log: str, as_json: bool) -> None:
    """Check every byte of a manifest, and that it agrees with the segment files.

    Checksums, the order of chunks and records, snapshots, and what retention must have
    left. Damage gives exit code 5. A notice is what the next writer settles.
    """
    from aof2 import Manifest

    report = Manifest.open(log).verify()
    out = Output(as_json=as_json)
    if as_json:
        out.object(report.to_dict())
    else:
        if report.problems:
            out.table(_PROBLEM_COLUMNS, [_problem_row(problem) for problem in report.problems])
        out.line(_verdict(report))
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)


def _problem_row(problem: "ManifestProblem") -> tuple[str, ...]:
    return (problem.severity, problem.kind, problem.path, str(problem.offset), problem.detail)


def _verdict(report: "ManifestReport") -> str:
    what = (
        f"{plural(report.record_count, 'record')} in {plural(len(report.chunks), 'chunk')}, "
        f"{plural(len(report.snapshots), 'snapshot')}"
    )
    damages = sum(problem.severity == "damage" for problem in report.problems)
    notices = len(report.problems) - damages
    noticed = f", {plural(notices, 'notice')}" if notices else ""
    if report.is_healthy:
        return f"healthy: {what}{noticed}"
    return f"damaged: {plural(damages, 'problem')}{noticed}; {what} intact"


@command.command("snapshot", epilog=examples("aof2 manifest snapshot data/events"))
@log_argument
@json_option
def snapshot(log: str, as_json: bool) -> None:
    """Write a snapshot, so that replay starts there.

    Opens the log for writing: a running writer takes snapshots by itself. What the
    manifest missed while it was switched off is recorded first.
    """
    from aof2 import Aof, Manifest

    Manifest.open(log)  # only a log that has a manifest gets a snapshot
    with Aof.open(log, manifest_mode="enabled") as writer:
        snapshot_id = writer.snapshot_manifest()
        path = writer.path
    out = Output(as_json=as_json)
    if as_json:
        out.object({"path": path, "snapshot_id": snapshot_id})
    else:
        out.line(f"snapshot {snapshot_id} of {path}")
