"""Payloads from arguments, lines and whole files, for ``aof2 append``."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from aof2.cli.errors import CommandError, ExitCode
from aof2.cli.units import human_bytes

#: What is read from a pipe at once. A pipe that holds less gives what it has, so a
#: slow producer's lines are appended as they come.
_READ_BYTES = 1 << 16
_LINE_BYTES_MAX = 2 << 30


def check_readable(files: Sequence[str]) -> None:
    """Fail as reading them would, before anything is appended."""
    for name in files:
        if name != "-":
            Path(name).open("rb").close()


def of_arguments(texts: Sequence[str], skip_empty: bool) -> Iterator[list[bytes]]:
    """Make a payload of each argument; one that is no text keeps its bytes."""
    return _split_at_empty([os.fsencode(text) for text in texts], 1, "argument", skip_empty)


def of_files(
    names: Sequence[str], whole: bool, delimiter: bytes, skip_empty: bool
) -> Iterator[list[bytes]]:
    """Make a payload of each file, or of each of its lines; ``-`` is stdin."""
    for name in names:
        shown = "stdin" if name == "-" else name
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            if whole:
                yield from _split_at_empty([stream.read()], None, shown, skip_empty)
            else:
                yield from _lines(stream, delimiter, shown, skip_empty)


def _lines(
    stream: BinaryIO, delimiter: bytes, shown: str, skip_empty: bool
) -> Iterator[list[bytes]]:
    """Lines as they come in, as many at a time as one read brought."""
    number = 1
    begun: list[bytes] = []  # pieces of a line whose end was not read yet
    while chunk := stream.read1(_READ_BYTES):  # type: ignore[attr-defined]
        head, *tails = chunk.split(delimiter)
        begun.append(head)
        if not tails:
            _check_len(begun, f"{shown}, line {number}")
            continue
        lines = [b"".join(begun), *tails[:-1]]
        begun = [tails[-1]]
        yield from _split_at_empty(lines, number, f"{shown}, line", skip_empty)
        number += len(lines)
    if last := b"".join(begun):
        yield [last]


def _check_len(pieces: list[bytes], shown: str) -> None:
    """No segment is larger, and reading on would fill the memory."""
    if len(pieces) * _READ_BYTES > _LINE_BYTES_MAX and sum(map(len, pieces)) > _LINE_BYTES_MAX:
        message = f"{shown} is longer than {human_bytes(_LINE_BYTES_MAX)}, the longest segment"
        raise CommandError(ExitCode.USAGE, "invalid_record", message)


def _split_at_empty(
    payloads: list[bytes], number: int | None, shown: str, skip_empty: bool
) -> Iterator[list[bytes]]:
    """Give the payloads; an empty one is left out, or fails after those before it."""
    if all(payloads):
        yield payloads
        return
    if skip_empty:
        yield [payload for payload in payloads if payload]
        return
    empty = payloads.index(b"")
    yield payloads[:empty]
    place = shown if number is None else f"{shown} {number + empty}"
    message = f"{place} is empty; a record has at least one byte"
    raise CommandError(
        ExitCode.USAGE, "invalid_record", message, "--skip-empty passes over empty ones"
    )
