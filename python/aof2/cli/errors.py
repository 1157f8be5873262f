"""From exceptions to exit codes and one line that says what to do.

| code | meaning |
|---|---|
| 0 | success |
| 1 | wrong usage: an option, an argument, a value that can never be appended |
| 2 | not found: no such log, file or record |
| 3 | not permitted |
| 4 | I/O: disk full, locked by a writer, poisoned, timed out |
| 5 | corruption was found |
| 70 | a bug in aof2 |
| 130 | interrupted |

Exceptions are told apart by type and errno, never by their text.
"""

import errno
import json
import os
import sys
import traceback
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import click

from aof2.cli.streams import STDOUT_NAME

TRACEBACK_VARIABLE = "AOF2_TRACEBACK"


class ExitCode(IntEnum):
    """What the process ends with."""

    SUCCESS = 0
    USAGE = 1
    NOT_FOUND = 2
    NOT_PERMITTED = 3
    IO = 4
    CORRUPT = 5
    BUG = 70
    INTERRUPTED = 130


@dataclass(frozen=True)
class Failure:
    """A failure as a person or a script is told."""

    code: ExitCode
    kind: str
    message: str
    hint: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """``error: what; what to do``, always one line."""
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return f"error: {one_line(text)}"

    def as_json(self) -> str:
        """Return the same for ``--json``."""
        error = {
            "kind": self.kind,
            "message": one_line(self.message),
            "hint": one_line(self.hint) or None,
            "exit_code": int(self.code),
            **self.details,
        }
        return json.dumps({"error": error}, ensure_ascii=True)


class CommandError(click.ClickException):
    """A failure that a command found itself."""

    def __init__(
        self, code: ExitCode, kind: str, message: str, hint: str = "", **details: Any
    ) -> None:
        super().__init__(message)
        self.failure = Failure(code, kind, message, hint, details)


def usage(message: str, hint: str = "") -> CommandError:
    """Options that do not go together, a value that makes no sense."""
    return CommandError(ExitCode.USAGE, "usage", message, hint)


def one_line(text: str) -> str:
    """Text without anything that would break the line or speak to a terminal."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        # A byte of a path that the locale does not know.
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def describe(error: BaseException) -> Failure:
    """Find what to tell about an exception."""
    if isinstance(error, CommandError):
        return error.failure
    if isinstance(error, click.ClickException):
        return _of_click(error)
    from aof2 import Error

    if isinstance(error, Error):
        return _of_log(error)
    if isinstance(error, OSError):
        return _of_system(error)
    name = type(error).__name__
    return Failure(
        ExitCode.BUG,
        "bug",
        f"unexpected {name}: {error}",
        f"this is a bug in aof2; {TRACEBACK_VARIABLE}=1 shows where",
    )


def with_notes(failure: Failure, error: BaseException) -> Failure:
    """Add what the command noted at the exception: how far it got."""
    notes = getattr(error, "__notes__", [])
    if not notes:
        return failure
    return replace(failure, message="; ".join([failure.message, *notes]))


def _of_click(error: click.ClickException) -> Failure:
    if isinstance(error, click.FileError):
        # click says only "No such file": the cause of it has the errno.
        cause = error.__cause__ or error.__context__
        if isinstance(cause, OSError):
            return _of_system(cause)
    # click lists choices on lines of their own.
    message = " ".join(error.format_message().split()).rstrip(".")
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see {error.ctx.command_path} --help"
    return Failure(ExitCode.USAGE, "usage", message, hint)


def _of_log(error: BaseException) -> Failure:
    """Errors of the package; the message already says what was done where."""
    import aof2

    message = str(error)
    names = ("path", "pid", "offset", "records", "earliest", "end", "field", "segment_id")
    details = _attributes(error, *names)
    match error:
        case aof2.Locked():
            hint = "stop that process first; reading (cat, tail, export) needs no lock"
            return Failure(ExitCode.IO, "locked", message, hint, details)
        case aof2.Corrupt():
            hint = "aof2 verify shows all of it, aof2 repair repairs it"
            return Failure(ExitCode.CORRUPT, "corrupt", message, hint, details)
        case aof2.ForeignFile():
            return Failure(ExitCode.CORRUPT, "foreign_file", message, "", details)
        case aof2.NotALog():
            hint = "check the path; aof2 append creates a log"
            return Failure(ExitCode.NOT_FOUND, "not_a_log", message, hint, details)
        case aof2.Trimmed():
            hint = "start at earliest"
            return Failure(ExitCode.NOT_FOUND, "trimmed", message, hint, details)
        case aof2.PastEnd():
            hint = "aof2 info shows the range of offsets"
            hint = "--appended shows what is not durable yet" if error.is_appended else hint
            return Failure(ExitCode.NOT_FOUND, "past_end", message, hint, details)
        case aof2.RecordNotFound():
            hint = "ids come from append --ids and cat --json"
            hint = "--appended shows what is not durable yet" if error.is_appended else hint
            return Failure(ExitCode.NOT_FOUND, "no_such_record", message, hint, details)
        case aof2.SegmentNotFound():
            hint = "aof2 segments lists them, aof2 seal closes the active one"
            return Failure(ExitCode.NOT_FOUND, "no_such_segment", message, hint, details)
        case aof2.InvalidRecord():
            return Failure(ExitCode.USAGE, "invalid_record", message, "", details)
        case aof2.InvalidConfig():
            return Failure(ExitCode.USAGE, "invalid_config", message, "", details)
        case aof2.Poisoned():
            hint = "check the disk, then run the command again: opening recovers what is on it"
            return Failure(ExitCode.IO, "poisoned", message, hint, details)
        case aof2.Timeout() | aof2.WouldBlock():
            return Failure(ExitCode.IO, "timeout", message, "try again", details)
        case aof2.NameTaken():
            details |= _attributes(error, "name", "url")
            if (stream_id := getattr(error, "stream_id", None)) is not None:
                details["stream_id"] = f"{stream_id:016x}"
            return Failure(ExitCode.USAGE, "name_taken", message, "", details)
        case aof2.Fenced():
            details |= _attributes(error, "writer")
            return Failure(ExitCode.IO, "fenced", message, "", details)
        case aof2.Diverged():
            details |= _attributes(error, "url")
            return Failure(ExitCode.CORRUPT, "diverged", message, "", details)
        case aof2.Held():
            details |= _attributes(error, "holders")
            return Failure(ExitCode.IO, "held", message, "", details)
        case aof2.Shared():
            details |= _attributes(error, "origin")
            return Failure(ExitCode.IO, "shared", message, "", details)
        case aof2.NoSuchDatabase():
            details |= _attributes(error, "db")
            hint = "aof2 catalog ls lists them"
            return Failure(ExitCode.NOT_FOUND, "no_such_database", message, hint, details)
        case aof2.NoSuchSnapshot():
            details |= _attributes(error, "name")
            hint = "aof2 snapshot LOG lists those of a log, aof2 catalog tree those of a catalog"
            return Failure(ExitCode.NOT_FOUND, "no_such_snapshot", message, hint, details)
        case aof2.JobPending():
            details |= _attributes(error, "job_id")
            hint = "aof2 catalog jobs shows it"
            return Failure(ExitCode.IO, "job_pending", message, hint, details)
        case aof2.FeedReset():
            details |= _attributes(error, "cursor", "next")
            hint = "read the catalog, then go on with --from and the first generation"
            return Failure(ExitCode.NOT_FOUND, "feed_reset", message, hint, details)
        case aof2.Refused():
            return Failure(ExitCode.USAGE, "refused", message, "", details)
        case aof2.NewerVersion():
            details |= _attributes(error, "what", "found", "known")
            return Failure(ExitCode.IO, "newer_version", message, "", details)
        case aof2.ColdError():
            return _of_store(error)
        case OSError():
            return _of_system(error)
    return Failure(ExitCode.IO, "error", message, "", details)


def _attributes(error: BaseException, *names: str) -> dict[str, Any]:
    """Those attributes that the error has, as JSON can hold them."""
    found = {}
    for name in names:
        value = getattr(error, name, None)
        if value is not None:
            found[name] = list(value) if isinstance(value, tuple) else value
    return found


_NOT_PERMITTED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NOT_FOUND = {errno.ENOENT, errno.ENOTDIR}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


def _of_store(error: Any) -> Failure:
    """Describe what an object store refused."""
    details = _attributes(error, "operation", "key")
    told = getattr(error, "kind", "error")
    kind = f"cold_{told}"
    match told:
        case "denied":
            hint = "the credentials are looked for where the AWS tools look for them"
            return Failure(ExitCode.NOT_PERMITTED, kind, str(error), hint, details)
        case "no_such_bucket":
            hint = "the address names the bucket, AOF2_COLD_ENDPOINT the store"
            return Failure(ExitCode.NOT_FOUND, kind, str(error), hint, details)
        case "not_found":
            hint = "check the bucket and the address"
            return Failure(ExitCode.NOT_FOUND, kind, str(error), hint, details)
        case "unavailable" if "certificate" in str(error):
            hint = "SSL_CERT_FILE names the certificates of authorities that are trusted"
            return Failure(ExitCode.IO, kind, str(error), hint, details)
        case "unavailable" | "timeout" | "throttled":
            hint = "check AOF2_COLD_ENDPOINT and the network, then run it again"
            return Failure(ExitCode.IO, kind, str(error), hint, details)
    return Failure(ExitCode.IO, kind, str(error), "", details)


def _of_system(error: OSError) -> Failure:
    """Describe what the system refused; ``errno`` says why."""
    message = _system_message(error)
    details = _attributes(error, "errno")
    path = error.filename
    if path == STDOUT_NAME:
        message = f"standard output could not be written: {error.strerror}"
        hint = "what was printed is not complete"
        return Failure(ExitCode.IO, "output", message, hint, details)
    if path is not None:
        details["path"] = os.fsdecode(path) if isinstance(path, str | bytes) else str(path)
    number = error.errno
    if number in _NOT_PERMITTED:
        hint = "check who may write and read there (ls -ld)"
        return Failure(ExitCode.NOT_PERMITTED, "not_permitted", message, hint, details)
    if number in _NOT_FOUND:
        return Failure(ExitCode.NOT_FOUND, "not_found", message, "check the path", details)
    if number in _DISK_FULL:
        hint = "free space and run it again; what was reported durable is kept"
        return Failure(ExitCode.IO, "disk_full", message, hint, details)
    return Failure(ExitCode.IO, "io", message, "", details)


def _system_message(error: OSError) -> str:
    """Say what failed and why, without the ``[Errno 2]`` of Python's own text."""
    from aof2 import Error

    if isinstance(error, Error):
        # The core's text names operation, place and cause already.
        return str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return error.strerror or str(error) or type(error).__name__


def report(error: BaseException, *, as_json: bool) -> ExitCode:
    """Tell about an exception on stderr, and return the exit code."""
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error, file=sys.stderr)
    failure = with_notes(describe(error), error)
    print(failure.as_json() if as_json else failure.line(), file=sys.stderr)
    return failure.code
