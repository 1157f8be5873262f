"""Commit records: which streams of a target belong to it, at every moment.

A target is a directory of logs that the sink writes:

    {target}/
      part-00003-9f…                 a log; all logs whose commit happened are visible
      _aof2_staging/                 logs of tasks that run, failed, or wait for their commit
      _aof2_commits/
        lock                         held while a commit is published
        {number:020}-{id}.intent     its parts may be moving in            parts are hidden
        {number:020}-{id}.rollback   its parts are being moved out         parts are hidden
        {number:020}-{id}.committed  it happened; the rest is tidying up   what it replaces is hidden
        {number:020}-{id}.done       history
        txn/{hash of the app}.json   the last version that an application committed

A record is written once, whole, and from then on only renamed. The rename from `intent`
to `committed` is the commit: before it a reader sees nothing of the commit, after it
everything, and nothing of what it replaces. At most one record is not `done`, since
whoever publishes finishes what a crash left first. The random id keeps apart two records
of the same number, so that nobody ever renames the record of somebody else.

`visible_names` is what a reader lists a target with. A program that lists the directory
by itself sees the same, except while a commit is being published or after a crash there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from aof2 import Error
from aof2.spark.files import Files

COMMITS = "_aof2_commits"
STAGING = "_aof2_staging"
TXN = "txn"

State = Literal["intent", "rollback", "committed", "done"]

_RECORD = re.compile(r"(\d{20})-([0-9a-f]{8})\.(intent|rollback|committed|done)")
_VERSION = 1
#: Listing is repeated when a commit was published meanwhile; that often, a commit is
#: published faster than a directory is listed.
_LISTINGS_MAX = 1_000


class BadCommitRecord(Error, ValueError):
    """A file in ``_aof2_commits`` is not what the sink wrote."""

    path: str
    """The file."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Txn:
    """What makes a write recognisable when it is tried again: versions of an app grow."""

    app: str
    version: int


@dataclass(frozen=True)
class Commit:
    """What one write adds to a target, and what it takes away."""

    number: int
    id: str
    parts: tuple[str, ...]
    replaces: tuple[str, ...]
    txn: Txn | None
    rows: int
    payload_bytes: int
    created_at_ms: int

    def encode(self) -> bytes:
        """Return the record's bytes."""
        record = {"record": _VERSION, **asdict(self)}
        return json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class CommitFile:
    """A record by its name."""

    number: int
    id: str
    state: State

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.number:020}-{self.id}.{self.state}"


def is_reserved(name: str) -> bool:
    """Return whether a name in a target is not a stream's: the sink's own, or hidden."""
    return name.startswith(("_", "."))


def commits_dir(target: Path) -> Path:
    """Return where a target's records are."""
    return target / COMMITS


def staging_dir(target: Path) -> Path:
    """Return where tasks write before their commit."""
    return target / STAGING


def list_records(files: Files, target: Path) -> list[CommitFile]:
    """Return all records, oldest first."""
    found = (_RECORD.fullmatch(name) for name in files.names(commits_dir(target)))
    return [CommitFile(int(match[1]), match[2], _state(match[3])) for match in found if match]


def _state(text: str) -> State:
    states: dict[str, State] = {
        "intent": "intent",
        "rollback": "rollback",
        "committed": "committed",
        "done": "done",
    }
    return states[text]


def load_commit(files: Files, target: Path, record: CommitFile) -> Commit:
    """Read a record. FileNotFoundError: it has another state by now."""
    path = commits_dir(target) / record.name
    fields = _load_json(files, path)
    try:
        version = fields.pop("record")
        if version != _VERSION:
            raise _bad(path, f"it has version {version}, which this program does not know")
        txn = fields.pop("txn")
        commit = Commit(
            **{**fields, "parts": tuple(fields["parts"]), "replaces": tuple(fields["replaces"])},
            txn=None if txn is None else Txn(**txn),
        )
    except (KeyError, TypeError) as error:
        raise _bad(path, f"it is not a commit record ({error})") from None
    # Parts are moved and removed by these names, so a damaged one must not lead elsewhere.
    for name in (*commit.parts, *commit.replaces):
        if not isinstance(name, str) or not name or os.sep in name or is_reserved(name):
            raise _bad(path, f"{name!r} cannot be a stream of this target")
    return commit


def last_version(files: Files, target: Path, app: str) -> int | None:
    """Return the last version that an application committed, for all that is `done`."""
    path = txn_path(target, app)
    try:
        fields = _load_json(files, path)
    except FileNotFoundError:
        return None
    version = fields.get("version")
    if fields.get("app") != app or not isinstance(version, int):
        raise _bad(path, f"it does not say which version {app!r} committed last")
    return version


def encode_txn(txn: Txn) -> bytes:
    """Return the bytes of the file at `txn_path`."""
    return json.dumps(asdict(txn), ensure_ascii=False).encode() + b"\n"


def txn_path(target: Path, app: str) -> Path:
    """Return the file with an application's last version; any text can be an app's name."""
    digest = hashlib.sha256(app.encode()).hexdigest()[:40]
    return commits_dir(target) / TXN / f"{digest}.json"


def visible_names(target: str | Path, files: Files | None = None) -> list[str]:
    """Return the names in a target that a reader may open, as of one moment.

    A directory that the sink never wrote to is listed as it is. Names of the sink itself
    and names that start with a dot are left out; whether the others are logs is for the
    caller to see.
    """
    files = files or Files()
    target = Path(target)
    for _ in range(_LISTINGS_MAX):
        before = list_records(files, target)
        try:
            hidden = _hidden(files, target, before)
        except FileNotFoundError:
            continue
        names = files.names(target)
        if list_records(files, target) == before:
            return [name for name in names if name not in hidden and not is_reserved(name)]
    raise Error(
        f"{target} cannot be listed: something was committed to it during each of "
        f"{_LISTINGS_MAX} attempts; try again when less is written"
    )


def _hidden(files: Files, target: Path, records: list[CommitFile]) -> set[str]:
    hidden: set[str] = set()
    for record in records:
        if record.state == "done":
            continue
        commit = load_commit(files, target, record)
        hidden.update(commit.replaces if record.state == "committed" else commit.parts)
    return hidden


def _load_json(files: Files, path: Path) -> dict[str, Any]:
    data = files.read(path)
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise _bad(path, f"it is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise _bad(path, "it is not a JSON object")
    return fields


def _bad(path: Path, reason: str) -> BadCommitRecord:
    return BadCommitRecord(
        f"{path} is damaged: {reason}; nothing is published to this target until the file is "
        "restored or, if what it names is not wanted, removed",
        path=str(path),
    )
