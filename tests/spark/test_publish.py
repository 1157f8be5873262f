"""Publishing: all of a commit or nothing, once."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark.commits import BadCommitRecord, Txn, visible_names
from aof2.spark.write.publish import DONE_KEPT, Publisher, PublishFailed, TargetExists
from sink_support import (
    Crash,
    SteppedFiles,
    Template,
    assert_once,
    fail_at,
    published_logs,
    record_states,
    stage,
    staged_names,
    visible_rows,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Template]:
    directory = tmp_path_factory.mktemp("templates")
    return [Template.make(directory, [b"a%d" % i, b"b%d" % i]) for i in range(3)]


def rows(*templates: Template) -> list[bytes]:
    return [row for template in templates for row in template.rows]


def test_staged_logs_are_invisible_until_they_are_published(tmp_path: Path) -> None:
    target = tmp_path / "t"
    staged = [*stage(target, [b"1", b"2"]), *stage(target, [b"3"], partition=1)]
    assert visible_rows(target) == []
    assert Publisher(target).publish(staged) == "published"
    assert_once(target, [b"1", b"2", b"3"])
    assert staged_names(target) == []
    assert record_states(target) == ["done"]


def test_published_logs_are_sealed_and_healthy(tmp_path: Path) -> None:
    target = tmp_path / "t"
    Publisher(target).publish(stage(target, [b"x" * 1000] * 200))
    (log,) = published_logs(target)
    report = aof2.verify(log)
    assert report.is_healthy
    assert report.record_count == 200
    with aof2.open(log) as reader:
        assert all(segment.is_sealed for segment in reader.segments())
        assert reader.closed_cleanly


def test_a_version_that_is_not_above_the_last_one_is_a_replay(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    publisher = Publisher(target)
    for version, expected in ((3, "published"), (3, "replayed"), (2, "replayed")):
        outcome = publisher.publish([parts[0].stage(target)], txn=Txn("app", version))
        assert outcome == expected
        assert_once(target, rows(parts[0]))
    assert publisher.publish([parts[1].stage(target)], txn=Txn("app", 4)) == "published"
    assert publisher.publish([parts[2].stage(target)], txn=Txn("other", 0)) == "published"
    assert_once(target, rows(*parts))
    assert staged_names(target) == []


def test_any_text_names_an_application(tmp_path: Path, parts: list[Template]) -> None:
    target = tmp_path / "t"
    publisher = Publisher(target)
    for app in ("../../etc", "ünï/cödé", "x" * 1000):
        publisher.publish([parts[0].stage(target)], txn=Txn(app, 0))
        assert publisher.is_replay(Txn(app, 0))
        assert not publisher.is_replay(Txn(app, 1))


def test_overwrite_replaces_everything_that_a_reader_sees(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([part.stage(target) for part in parts])
    with aof2.Aof.open(target / "by-hand", segment_bytes=64 << 10) as log:
        log.append(b"by hand")
        log.flush()
    with aof2.Aof.open(target / "2026" / "01" / "nested", segment_bytes=64 << 10) as log:
        log.append(b"nested")
        log.flush()
    assert_once(target, [*rows(*parts), b"by hand", b"nested"])
    Publisher(target).publish([parts[1].stage(target)], overwrite=True)
    assert_once(target, rows(parts[1]))
    assert len(published_logs(target)) == 1
    assert staged_names(target) == []


def test_overwrite_with_nothing_leaves_nothing(tmp_path: Path, parts: list[Template]) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)])
    Publisher(target).publish([], overwrite=True)
    assert visible_rows(target) == []
    Publisher(tmp_path / "new").publish([], overwrite=True)
    assert visible_names(tmp_path / "new") == []


def test_overwrite_refuses_a_log_that_somebody_writes(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    staged = parts[0].stage(target)
    with aof2.Aof.open(target / "live", segment_bytes=64 << 10) as log:
        log.append(b"live")
        log.flush()
        with pytest.raises(
            PublishFailed, match=r"live cannot be overwritten: its writer, process \d+"
        ):
            Publisher(target).publish([staged], overwrite=True)
    assert_once(target, [b"live"])


def test_overwrite_leaves_files_that_are_not_logs(tmp_path: Path, parts: list[Template]) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)])
    (target / "README").write_text("notes")
    Publisher(target).publish([parts[1].stage(target)], overwrite=True)
    assert (target / "README").read_text() == "notes"
    assert_once(target, rows(parts[1]))


def test_what_exists_can_be_an_error_or_a_reason_to_do_nothing(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    publisher = Publisher(target)
    assert publisher.publish([parts[0].stage(target)], if_exists="error") == "published"
    with pytest.raises(TargetExists, match="holds streams already"):
        publisher.publish([parts[1].stage(target)], if_exists="error")
    assert publisher.publish([parts[1].stage(target)], if_exists="ignore") == "ignored"
    assert_once(target, rows(parts[0]))


def test_a_target_that_is_a_log_is_refused(tmp_path: Path, parts: list[Template]) -> None:
    with aof2.Aof.open(tmp_path / "log", segment_bytes=64 << 10) as log:
        log.append(b"x")
    with pytest.raises(PublishFailed, match="is a log, and a log has one writer"):
        Publisher(tmp_path / "log").publish([])
    with pytest.raises(PublishFailed, match="is a log"):
        stage(tmp_path / "log", [b"y"])


def test_a_staged_log_that_is_gone_publishes_nothing(tmp_path: Path, parts: list[Template]) -> None:
    target = tmp_path / "t"
    staged = [part.stage(target) for part in parts]
    SteppedFiles().remove_tree(staged[2].path.parent)
    with pytest.raises(PublishFailed, match=r"is gone.*stagingMaxAge"):
        Publisher(target).publish(staged)
    assert visible_rows(target) == []
    assert published_logs(target) == []


def test_every_failing_step_publishes_all_or_says_that_it_published_nothing(
    tmp_path: Path, parts: list[Template]
) -> None:
    """A full disk, a lost permission: whichever call fails, retrying gives each row once."""
    for step in range(1000):
        target = tmp_path / str(step)
        Publisher(target).publish([parts[0].stage(target)], txn=Txn("app", 0))
        files = fail_at(step, OSError(errno.ENOSPC, "No space left on device"))
        publisher = Publisher(target, files=files)
        staged = [parts[1].stage(target), parts[2].stage(target)]
        failed = None
        try:
            publisher.publish(staged, txn=Txn("app", 1), overwrite=True)
        except PublishFailed as error:
            failed = str(error)
        seen = visible_rows(target)
        if failed is None or "happened" in failed:
            assert seen == sorted(rows(parts[1], parts[2])), files.steps
        else:
            assert seen == sorted(rows(parts[0])), files.steps
            assert published_logs(target), "what was published before is still there"
        publisher.collect()
        again = [parts[1].stage(target), parts[2].stage(target)]
        Publisher(target).publish(again, txn=Txn("app", 1), overwrite=True)
        assert_once(target, rows(parts[1], parts[2]))
        assert record_states(target) == ["done", "done"]
        if step >= len(files.steps):
            assert failed is None
            return
    raise AssertionError("publishing never ended")


def test_a_failed_sync_of_the_commit_is_not_reported_as_success(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)])
    committed = False

    def before(step: int, what: str) -> None:
        nonlocal committed
        if committed and what == "sync _aof2_commits":
            committed = False
            raise OSError(errno.EIO, "Input/output error")
        committed = committed or what.endswith(".committed")

    with pytest.raises(PublishFailed, match="a power cut may undo it"):
        Publisher(target, files=SteppedFiles(before)).publish(
            [parts[1].stage(target)], txn=Txn("app", 0)
        )
    again = [parts[1].stage(target)]
    assert Publisher(target).publish(again, txn=Txn("app", 0)) == "replayed"
    assert_once(target, rows(parts[0], parts[1]))


def test_a_publisher_that_lost_its_lock_cannot_commit_what_was_rolled_back(
    tmp_path: Path, parts: list[Template]
) -> None:
    """A machine freezes between two renames; another driver takes over; the first wakes up."""
    for moved_in in (0, 1, 2):
        target = tmp_path / str(moved_in)
        renames = 0

        def before(step: int, what: str, target: Path = target, stop: int = moved_in) -> None:
            nonlocal renames
            renames += what.startswith("rename part-")
            if what.startswith(("rename part-", "sync t")) and renames == stop + 1:
                renames += 1
                (target / "_aof2_commits" / "lock").unlink()
                Publisher(target).publish([parts[2].stage(target)], txn=Txn("app", 1))

        staged = [parts[0].stage(target), parts[1].stage(target), parts[0].stage(target)]
        with pytest.raises(PublishFailed, match="nothing was published"):
            Publisher(target, files=SteppedFiles(before)).publish(staged, txn=Txn("app", 1))
        assert_once(target, rows(parts[2]))
        assert len(published_logs(target)) == 1


def test_of_a_late_commit_and_its_rollback_one_wins(tmp_path: Path, parts: list[Template]) -> None:
    """The first driver wakes up at its last step, while the second one rolls it back."""
    for step in range(1000):
        target = tmp_path / str(step)

        def dies_at_the_commit(at: int, what: str) -> None:
            if what.endswith(".committed"):
                raise Crash

        with pytest.raises(Crash):
            Publisher(target, files=SteppedFiles(dies_at_the_commit)).publish(
                [parts[0].stage(target), parts[1].stage(target)], txn=Txn("first", 0)
            )
        (intent,) = (target / "_aof2_commits").glob("*.intent")

        def wakes_up(at: int, what: str, step: int = step, intent: Path = intent) -> None:
            if at == step:
                with contextlib.suppress(FileNotFoundError):
                    intent.rename(intent.with_suffix(".committed"))

        files = SteppedFiles(wakes_up)
        with contextlib.suppress(FileNotFoundError):
            Publisher(target, files=files).publish([parts[2].stage(target)], txn=Txn("second", 0))
        first, second = sorted(rows(parts[0], parts[1])), rows(parts[2])
        assert visible_rows(target) in ([], first, sorted(second), sorted([*first, *second]))
        for app, own in (("second", parts[2:]), ("first", parts[:2])):
            staged = [part.stage(target) for part in own]
            Publisher(target).publish(staged, txn=Txn(app, 0))
        assert_once(target, [*first, *second])
        if step >= len(files.steps):
            return


def test_damaged_records_stop_publishing_and_name_the_file(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)], txn=Txn("app", 0))
    commits = target / "_aof2_commits"
    record = commits / f"{1:020}-00000000.intent"
    good = next(commits.glob("*.done")).read_text()
    hostile = good.replace(published_logs(target)[0].name, "../outside")
    for text in ("", "[]", "{}", '{"record": 2}', hostile):
        record.write_text(text)
        with pytest.raises(BadCommitRecord, match=str(record)):
            Publisher(target).publish([parts[1].stage(target)])
        with pytest.raises(BadCommitRecord):
            visible_names(target)
    record.unlink()
    (txn,) = (commits / "txn").iterdir()
    txn.write_text("{}")
    with pytest.raises(BadCommitRecord, match="which version"):
        Publisher(target).publish([parts[1].stage(target)], txn=Txn("app", 1))
    assert_once(target, rows(parts[0]))


def test_old_records_are_not_kept_for_ever(tmp_path: Path, parts: list[Template]) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)], txn=Txn("app", 0))
    commits = target / "_aof2_commits"
    (first,) = commits.glob("*.done")
    for number in range(1, DONE_KEPT + 5):
        (commits / f"{number:020}-00000000.done").write_bytes(first.read_bytes())
    Publisher(target).publish([parts[1].stage(target)], txn=Txn("app", 1))
    assert len(list(commits.glob("*.done"))) == DONE_KEPT
    assert Publisher(target).is_replay(Txn("app", 0))
    assert_once(target, rows(parts[0], parts[1]))


def test_a_reader_that_lists_during_a_commit_sees_it_whole_or_not_at_all(
    tmp_path: Path, parts: list[Template]
) -> None:
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)])
    old, new = sorted(rows(parts[0])), sorted(rows(parts[1], parts[2]))
    seen: list[list[bytes]] = []

    def before(step: int, what: str) -> None:
        seen.append(visible_rows(target))

    files = SteppedFiles(before)
    staged = [parts[1].stage(target), parts[2].stage(target)]
    Publisher(target, files=files).publish(staged, overwrite=True)
    switch = seen.index(new)
    assert seen == [old] * switch + [new] * (len(seen) - switch)
    assert "intent" in files.steps[switch - 1]
    assert files.steps[switch - 1].endswith(".committed")


def test_a_listing_that_a_commit_ran_through_is_repeated(
    tmp_path: Path, parts: list[Template]
) -> None:
    """Listing between two moves and looking for records after the last would show half."""
    target = tmp_path / "t"
    Publisher(target).publish([parts[0].stage(target)])
    before = set(visible_names(target))
    staged = [parts[1].stage(target), parts[2].stage(target)]

    class Interrupted(SteppedFiles):
        interrupted = False

        def names(self, directory: Path) -> list[str]:
            names = super().names(directory)
            if directory == target and not self.interrupted:
                self.interrupted = True
                names.append(staged[0].name)
                Publisher(target).publish(staged)
            return names

    seen = set(visible_names(target, Interrupted()))
    assert seen == before | {log.name for log in staged}
