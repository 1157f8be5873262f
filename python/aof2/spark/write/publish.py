"""Publishing: staged logs become part of a target, all at once and once.

Tasks wrote logs of their own below ``_aof2_staging``; they are closed and durable. The
driver makes one commit of them. Its steps, under the target's lock, and what a crash
behind each of them leaves (the files are described in `commits`):

| step | left behind | what readers see | the next publisher |
|---|---|---|---|
| finish what an earlier crash left | | | |
| recognise a replay: its version is not above the app's last | staged logs | unchanged | |
| 1 write `intent`, sync, rename, sync | an intent | unchanged | rolls back |
| 2 move every part into the target, sync | an intent, some parts moved in | unchanged: parts of an intent are hidden | rolls back: moves them out |
| 3 **rename `intent` to `committed`**, sync | the commit | everything of it, nothing of what it replaces | rolls forward |
| 4 note the app's version, sync | the same | the same | notes it again |
| 5 move what it replaces into the staging area, sync | the same | the same | moves the rest |
| 6 rename `committed` to `done` | the same, or `done` | the same | nothing, or steps 4 to 6 again |
| 7 remove what was moved out, and staging that is too old | leftovers below `_aof2_staging` | the same | removes them |

So a commit happens at step 3 or not at all. Rolling back takes the intent away first
(rename to `rollback`), then the parts, then the record; a publisher that lost its lock
and wakes up finds no intent to commit. Every step is durable before one that relies on
it: a power cut leaves nothing else than a crash does.

An error before step 3 rolls back and is raised. An error behind it is only logged: the
commit stands, and the next publisher tidies up. Only a failed sync of step 3 is raised,
since then nobody knows what a power cut would leave; a replay finds out.

Nothing that is published is ever removed but by an overwrite. `abort` in particular
removes nothing: a straggler may still be writing, and the commit that failed may have
happened. Staging is collected by age.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import aof2
from aof2 import Error, NotALog
from aof2.spark.commits import (
    TXN,
    Commit,
    CommitFile,
    State,
    Txn,
    commits_dir,
    encode_txn,
    last_version,
    list_records,
    load_commit,
    staging_dir,
    txn_path,
    visible_names,
)
from aof2.spark.files import Files, make_directories
from aof2.spark.streams import find_streams, is_log
from aof2.spark.write.publish_lock import PublishLocked, publish_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LOG = logging.getLogger("aof2.spark")

#: Records of commits that are done; kept for people.
DONE_KEPT = 1_000
#: Streams that were published once and no longer are, on their way out.
_DISCARDED = "discarded-"
#: Half a file, left by a crash.
_TEMPORARY = ".tmp"

Outcome = Literal["published", "replayed", "ignored"]
IfExists = Literal["append", "error", "ignore"]


class PublishFailed(Error, RuntimeError):
    """The write did not become part of the target."""


class TargetExists(Error, FileExistsError):
    """The target holds streams already, and ``ifExists`` is ``error``."""


@dataclass(frozen=True)
class StagedLog:
    """A closed and durable log that a task wrote."""

    #: Its directory, below the staging directory.
    path: Path
    rows: int
    payload_bytes: int

    @property
    def name(self) -> str:
        """What it will be called in the target."""
        return self.path.name


@dataclass(frozen=True)
class Publisher:
    """Publishes to one target. Cheap to make; holds nothing between calls."""

    target: Path
    lock_timeout_s: float = 120.0
    staging_max_age_s: float = 7 * 86_400.0
    files: Files = field(default_factory=Files)
    clock: Callable[[], float] = time.time

    def publish(
        self,
        staged: Sequence[StagedLog],
        *,
        txn: Txn | None = None,
        overwrite: bool = False,
        if_exists: IfExists = "append",
    ) -> Outcome:
        """Make all staged logs part of the target, or none."""
        self._prepare()
        with publish_lock(self.target, self.lock_timeout_s):
            self._recover()
            outcome = self._publish(staged, txn, overwrite, if_exists)
            self._tidy(staged)
        return outcome

    def collect(self) -> None:
        """Remove staging that is too old, unless somebody is publishing right now."""
        if not self.files.exists(commits_dir(self.target)):
            return
        try:
            with publish_lock(self.target, 0.0):
                self._collect_staging()
        except PublishLocked:
            return

    def is_replay(self, txn: Txn) -> bool:
        """Return whether a version was committed, without waiting for the lock.

        True is certain. False is not: whoever publishes looks again.
        """
        last = last_version(self.files, self.target, txn.app)
        return last is not None and last >= txn.version

    def has_streams(self) -> bool:
        """Return whether the target holds anything that is not the sink's own."""
        return bool(visible_names(self.target, self.files))

    # ---- before the commit ----

    def _prepare(self) -> None:
        refuse_log(self.target)
        if self.files.exists(commits_dir(self.target) / TXN):
            return
        make_directories(self.files, staging_dir(self.target))
        make_directories(self.files, commits_dir(self.target))
        # A task may have made any of these and died before their names were durable.
        self.files.sync_directory(self.target)
        self.files.sync_directory(self.target.parent)
        make_directories(self.files, commits_dir(self.target) / TXN)

    def _publish(
        self, staged: Sequence[StagedLog], txn: Txn | None, overwrite: bool, if_exists: IfExists
    ) -> Outcome:
        if txn is not None and self.is_replay(txn):
            _LOG.info(
                "%s: version %d of %s was committed before", self.target, txn.version, txn.app
            )
            return "replayed"
        if if_exists != "append" and self.has_streams():
            if if_exists == "ignore":
                return "ignored"
            raise target_exists(self.target)
        self._check(staged)
        commit = Commit(
            number=self._next_number(),
            id=uuid.uuid4().hex[:8],
            parts=tuple(log.name for log in staged),
            replaces=self._replaced() if overwrite else (),
            txn=txn,
            rows=sum(log.rows for log in staged),
            payload_bytes=sum(log.payload_bytes for log in staged),
            created_at_ms=int(self.clock() * 1000),
        )
        if commit.parts or commit.replaces or txn is not None:
            self._commit(commit, staged)
        return "published"

    def _check(self, staged: Sequence[StagedLog]) -> None:
        """Refuse what would make the commit fail half way."""
        for log in staged:
            if not self.files.exists(log.path):
                raise PublishFailed(
                    f"the staged log {log.path} is gone, so nothing was published; "
                    "if the job took longer than stagingMaxAge, raise it and run the job again"
                )
            if self.files.exists(self._stream(log.name)):
                raise PublishFailed(f"{self._stream(log.name)} is there already")

    def _replaced(self) -> tuple[str, ...]:
        try:
            streams = find_streams([str(self.target)])
        except NotALog:
            return ()
        for stream in streams:
            if not stream.key.startswith("part-"):
                refuse_live_writer(stream.path)
        return tuple(sorted({Path(stream.key).parts[0] for stream in streams}))

    def _next_number(self) -> int:
        records = list_records(self.files, self.target)
        return records[-1].number + 1 if records else 0

    # ---- the commit ----

    def _commit(self, commit: Commit, staged: Iterable[StagedLog]) -> None:
        try:
            self._write_durable(self._record(commit, "intent"), commit.encode())
            for log in staged:
                self.files.rename(log.path, self._stream(log.name))
            self.files.sync_directory(self.target)
            self._advance(commit, "intent", "committed")
        except Exception as error:
            # A shared filesystem may report a rename as failed that it did.
            if not self.files.exists(self._record(commit, "committed")):
                self._undo(commit)
                raise PublishFailed(
                    f"nothing was published to {self.target}: {error}; the job can be run again"
                ) from error
        self._sync_commit(commit)
        try:
            self._finish(commit)
        except OSError as error:
            _LOG.warning(
                "commit %d to %s happened, but tidying up failed and is left to the next one: %s",
                commit.number,
                self.target,
                error,
            )

    def _sync_commit(self, commit: Commit) -> None:
        try:
            self.files.sync_directory(commits_dir(self.target))
        except OSError as error:
            raise PublishFailed(
                f"commit {commit.number} to {self.target} happened, but a power cut may undo it: "
                f"{error}; run the job again, with the same txnAppId and txnVersion if it has some"
            ) from error

    def _undo(self, commit: Commit) -> None:
        try:
            if self.files.exists(self._record(commit, "intent")):
                self._roll_back(commit, "intent")
            else:
                # Somebody else rolled back, perhaps before the last part moved in.
                self._move_out(commit.parts)
        except Exception as error:
            _LOG.warning(
                "commit %d to %s failed and is rolled back by the next one, since: %s",
                commit.number,
                self.target,
                error,
            )

    # ---- finishing commits, one's own and those that a crash left ----

    def _recover(self) -> None:
        for name in self.files.names(commits_dir(self.target)):
            if name.endswith(_TEMPORARY):
                self.files.remove(commits_dir(self.target) / name)
        for record in list_records(self.files, self.target):
            match record.state:
                case "intent" | "rollback":
                    self._roll_back(load_commit(self.files, self.target, record), record.state)
                case "committed":
                    # What is seen may not be durable yet.
                    self.files.sync_directory(commits_dir(self.target))
                    self._finish(load_commit(self.files, self.target, record))

    def _roll_back(self, commit: Commit, state: State) -> None:
        if state == "intent":
            self._advance(commit, "intent", "rollback")
        self._move_out(commit.parts)
        self.files.remove(self._record(commit, "rollback"))

    def _finish(self, commit: Commit) -> None:
        if commit.txn is not None:
            self._note_version(commit.txn)
        if commit.replaces:
            self._move_out(commit.replaces)
        self._advance(commit, "committed", "done")

    def _note_version(self, txn: Txn) -> None:
        if not self.is_replay(txn):
            self._write_durable(txn_path(self.target, txn.app), encode_txn(txn))

    def _move_out(self, names: Iterable[str]) -> None:
        """Take streams out of the target. They stay readable for who has them open."""
        for name in names:
            if self.files.exists(self._stream(name)):
                discarded = staging_dir(self.target) / f"{_DISCARDED}{uuid.uuid4().hex}"
                self.files.rename(self._stream(name), discarded)
        # Also if nothing moved now: a crash may have come between the move and this.
        self.files.sync_directory(self.target)

    def _advance(self, commit: Commit, old: State, new: State) -> None:
        self.files.rename(self._record(commit, old), self._record(commit, new))

    def _write_durable(self, path: Path, data: bytes) -> None:
        """Put a whole file in its place; a crash leaves the old one, or the new one."""
        temporary = commits_dir(self.target) / f"{path.name}{_TEMPORARY}"
        self.files.write(temporary, data)
        self.files.rename(temporary, path)
        self.files.sync_directory(path.parent)

    # ---- leftovers ----

    def _tidy(self, staged: Iterable[StagedLog]) -> None:
        """Remove what nobody needs now; what fails is left to the next time."""
        try:
            for attempt in sorted({log.path.parent for log in staged}):
                self.files.remove_tree(attempt)
            for record in list_records(self.files, self.target)[:-DONE_KEPT]:
                if record.state == "done":
                    self.files.remove(commits_dir(self.target) / record.name)
            self._collect_staging()
        except OSError as error:
            _LOG.warning("leftovers in %s could not be removed: %s", self.target, error)

    def _collect_staging(self) -> None:
        oldest_s = self.clock() - self.staging_max_age_s
        for name in self.files.names(staging_dir(self.target)):
            path = staging_dir(self.target) / name
            if name.startswith(_DISCARDED) or self.files.last_change_s(path) < oldest_s:
                self.files.remove_tree(path)

    def _stream(self, name: str) -> Path:
        return self.target / name

    def _record(self, commit: Commit, state: State) -> Path:
        return commits_dir(self.target) / CommitFile(commit.number, commit.id, state).name


def refuse_log(target: Path) -> None:
    """Refuse a target that is itself a log."""
    if is_log(target):
        raise PublishFailed(
            f"{target} is a log, and a log has one writer; the sink needs a directory of its own, "
            "where every task adds a log"
        )


def refuse_live_writer(path: str) -> None:
    """Refuse to overwrite a log that the sink did not write and that somebody may write to."""
    with aof2.open(path) as log:
        if log.closed_cleanly is False:
            raise PublishFailed(
                f"{path} cannot be overwritten: its writer, process {log.writer_pid}, has not "
                "closed it; close it there (or, if that process died, open and close the log "
                "once), or append instead"
            )


def target_exists(target: Path) -> TargetExists:
    """Say that there is something, and what would have been right."""
    error = TargetExists(
        f"{target} holds streams already; ifExists=append adds to them, "
        'ifExists=ignore leaves them, and mode("overwrite") replaces them'
    )
    error.filename = str(target)
    return error
