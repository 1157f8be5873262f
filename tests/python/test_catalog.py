"""A catalog: deciding, reading, earlier states, the change feed, other processes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import aof2
import pyarrow as pa
import pytest
from aof2 import catalog as values
from aof2.catalog import ChunkFields, DeltaFields, ObjectName, SegmentRef
from support import DEADLINE_S, run_program, start_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def catalog(root: Path) -> Iterator[aof2.Catalog]:
    with aof2.Catalog.open(root, actor="alice") as catalog:
        yield catalog


ROW_TYPES = {
    "db": values.Database,
    "wal_state": values.WalState,
    "chunk_catalog": values.Chunk,
    "chunk_delta_index": values.Delta,
    "remote_namespace": values.Namespace,
    "snapshot_index": values.Snapshot,
    "wal_manifest": values.WalChunk,
    "job_queue": values.Job,
    "metrics": values.Figure,
    "generation_watermarks": values.Component,
    "intents": values.Intent,
    "migrations": values.Migration,
}


def chunk(chunk_id: int, **fields: Any) -> ChunkFields:
    return ChunkFields(chunk_id, **{"size_bytes": 4096, "crc64": 7, "page_count": 16, **fields})


def fill(catalog: aof2.Catalog) -> None:
    """Put a row into every table that a caller can write."""
    catalog.register_db("app", "pages").wait()
    catalog.append_wal_chunk("app", chunk(1, page_count=0, lsn_end=10)).wait()
    delta = DeltaFields(2, 1, dirty_pages=b"\x03", size_bytes=64, crc64=2**64 - 1)
    catalog.checkpoint_apply("app", 1, [chunk(2)], applied_lsn=10).wait()
    catalog.checkpoint_apply("app", 2, [delta], applied_lsn=10).wait()
    catalog.publish_snapshot("app", "monday", generation=2).wait()
    bucket = catalog.add_namespace("s3://bucket/prefix").wait().value
    name = ObjectName(origin_db=1, chunk_id=2, generation=1)
    stored = SegmentRef(segment_id=2, crc64=7, bytes=4096, epoch=1)
    catalog.begin_upload("app", bucket, name, str(name), stored).wait()
    catalog.enqueue_job("app", "compact", payload=b"\x00\xff").wait()
    catalog.record_metric(1, 7, 250).wait()
    catalog.advance_component("search", 1).wait()


def test_what_was_decided_is_durable_and_shown(root: Path) -> None:
    with aof2.Catalog.open(root, actor="alice") as catalog:
        committed = catalog.register_db("app", "pages", config_hash=2**64 - 1).wait()
        assert committed.generation == committed.operation_id.generation
        view = catalog.view()
        assert view.generation >= committed.generation
        app = view.database("app")
        assert app == view.database(committed.value)
        assert app is not None
        assert (app.db_id, app.kind, app.status) == (committed.value, "pages", "active")
        assert app.config_hash == 2**64 - 1
        assert app.created.tzinfo is datetime.UTC
        assert view.database("other") is None
        assert view.database(99) is None
    with aof2.Catalog.open(root) as again:
        assert again.view().database("app") == app
        assert again.recovery.source == "tables"


def test_rows_have_the_columns_of_their_tables(catalog: aof2.Catalog) -> None:
    fill(catalog)
    view = catalog.view()
    for table, row_type in ROW_TYPES.items():
        names = [field.name for field in dataclasses.fields(row_type)]
        assert names == view.table(table).columns, table
        assert view.rows(table), table
        assert list(view.rows(table)[0]) == names
    reads: dict[str, list[Any]] = {
        "db": view.databases(),
        "wal_state": [view.wal_state("app")],
        "chunk_catalog": view.chunks("app"),
        "chunk_delta_index": view.deltas("app", 2),
        "remote_namespace": view.namespaces(),
        "snapshot_index": view.snapshots("app"),
        "wal_manifest": view.wal_chunks("app"),
        "job_queue": view.jobs(),
        "metrics": view.metrics(),
        "generation_watermarks": view.components(),
        "intents": view.open_intents(),
        "migrations": view.migrations(),
    }
    for table, rows in reads.items():
        assert [dataclasses.asdict(row) for row in rows] == view.rows(table), table
    assert view.tables() == {table: len(view.rows(table)) for table in view.tables()}
    assert catalog.verify() == []


def test_tables_are_arrow_data(catalog: aof2.Catalog) -> None:
    fill(catalog)
    view = catalog.view()
    for name, count in view.tables().items():
        table = view.table(name)
        arrow = pa.table(table)
        assert arrow.num_rows == table.num_rows == len(table) == count
        assert arrow.column_names == table.columns
        assert arrow.schema == pa.schema(table)
        assert pa.table(table) == arrow  # as often as asked for
        for found, expected in zip(arrow.to_pylist(), view.rows(name), strict=True):
            for column, value in expected.items():
                is_hash = pa.types.is_string(arrow.schema.field(column).type)
                if is_hash and isinstance(value, int):
                    assert found[column] == f"{value:016x}"
                else:
                    assert found[column] == value, (name, column)
    empty = pa.table(catalog.view(at=0).table("db"))
    assert empty.num_rows == 0
    assert empty.schema == pa.schema(view.table("db"))


def test_an_unknown_table_is_named_with_those_that_there_are(catalog: aof2.Catalog) -> None:
    view = catalog.view()
    for call in (view.table, view.rows, lambda name: view.changes_to(view, name)):
        with pytest.raises(ValueError, match=r'no table "dbs"; there are db, wal_state, .*job_q'):
            call("dbs")
        with pytest.raises(TypeError, match="name must be a str, not int"):
            call(7)  # type: ignore[arg-type]


def test_an_earlier_state_is_what_it_was(catalog: aof2.Catalog) -> None:
    seen: dict[int, list[str]] = {}
    for name in ("a", "b", "c"):
        generation = catalog.register_db(name, "pages").wait().generation
        seen[generation] = [db.name for db in catalog.view().databases()]
        catalog.checkpoint()
    late = catalog.view()
    for generation, names in seen.items():
        assert [db.name for db in catalog.view(at=generation).databases()] == names
        assert catalog.view(at=generation).generation == generation
        arrow = pa.table(late.table("db", at=generation))
        assert arrow.column("name").to_pylist() == names
    first, last = min(seen), max(seen)
    changes = catalog.view(at=first).changes_to(catalog.view(at=last), "db")
    assert [(c.before, c.after and c.after["name"]) for c in changes] == [(None, "b"), (None, "c")]
    back = catalog.view(at=last).changes_to(catalog.view(at=first), "db")
    assert [(c.before and c.before["name"], c.after) for c in back] == [("b", None), ("c", None)]


def test_a_state_that_is_not_there_says_which_are(root: Path) -> None:
    with aof2.Catalog.open(root, segment_bytes=64 << 10) as catalog:
        for _ in range(4):
            for _ in range(40):
                job = catalog.enqueue_job(0, "gc", payload=bytes(3000)).wait().value
                leased = catalog.view().job(job)
                assert leased is not None
                catalog.complete_job(leased, "done").wait()
            catalog.checkpoint()
        first, end = catalog.generations()
        assert first > 0
        with pytest.raises(aof2.Trimmed, match="state after generation 0 is not kept") as trimmed:
            catalog.view(at=0)
        earliest = trimmed.value.earliest
        assert catalog.view(at=earliest).generation == earliest
        with pytest.raises(aof2.Trimmed):
            catalog.view().table("db", at=earliest - 1)
        with pytest.raises(aof2.PastEnd, match=f"no generation {end} yet") as past:
            catalog.view(at=end)
        assert past.value.end == end
        with pytest.raises(aof2.Trimmed, match="operations of generation 0") as gone:
            catalog.operations(0)
        assert gone.value.earliest == first
        assert next(catalog.audit()).id.generation == first
        with pytest.raises(aof2.FeedReset) as reset:
            next(catalog.changes(start=0, timeout=0))
        assert (reset.value.next, reset.value.earliest) == (0, first)
        with catalog.changes(start=reset.value.earliest, timeout=0) as feed:
            assert next(feed).generation == first


def test_a_view_stays_as_it_is(catalog: aof2.Catalog, root: Path) -> None:
    reader = aof2.Catalog.read(root)
    views = [catalog.view(), reader.view()]
    generation = catalog.register_db("app", "pages").wait().generation
    assert reader.refresh() == generation
    for view in views:
        assert view.databases() == []
        assert view.generation < generation
    assert [db.name for db in reader.view().databases()] == ["app"]


def test_refusals_are_errors_that_say_what(catalog: aof2.Catalog) -> None:
    app = catalog.register_db("app", "pages").wait().value
    with pytest.raises(aof2.NameTaken) as taken:
        catalog.register_db("app", "pages").wait()
    assert taken.value.name == "app"
    with pytest.raises(aof2.NoSuchDatabase, match="no database nothing") as missing:
        catalog.publish_snapshot("nothing", "monday")
    assert missing.value.db == "nothing"
    with pytest.raises(aof2.NoSuchDatabase):
        catalog.update_db_status(99, "dropped").wait()
    with pytest.raises(aof2.NoSuchDatabase):
        catalog.view().snapshots(99)
    with pytest.raises(aof2.NoSuchSnapshot) as snapshot:
        catalog.drop_snapshot("app", "monday")
    assert snapshot.value.name == "monday"
    with pytest.raises(aof2.NoSuchSnapshot):
        catalog.drop_snapshot(app, 7).wait()
    job = catalog.enqueue_job("app", "merge").wait().value
    with pytest.raises(aof2.JobPending) as pending:
        catalog.enqueue_job("app", "merge").wait()
    assert pending.value.job_id == job
    with pytest.raises(aof2.Refused):
        catalog.remove_db("app").wait()
    with pytest.raises(aof2.Refused, match="without a name"):
        catalog.changes(timeout=0).acknowledge(0)
    for error in (taken.value, missing.value, snapshot.value, pending.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_names_of_what_is_taken_may_be_used_again(catalog: aof2.Catalog) -> None:
    app = catalog.register_db("app", "pages").wait().value
    catalog.publish_snapshot("app", "monday").wait()
    catalog.fork_db("trial", "app").wait()
    catalog.update_db_status(app, "dropped").wait()
    assert catalog.view().database("app") is None
    again = catalog.register_db("app", "pages").wait().value
    assert again != app
    held = {row.name: row.fork_db for row in catalog.view().snapshots(app)}
    trial = catalog.view().database("trial")
    assert trial is not None
    assert held == {"monday": None, "trial": trial.db_id}
    assert trial.origin_db == app


def test_wrong_arguments_are_refused_by_name(catalog: aof2.Catalog) -> None:
    anything: Any = catalog
    catalog.register_db("app", "pages").wait()
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (TypeError, "name must be a str", lambda: anything.register_db(7, "pages")),
        (ValueError, 'kind must be "log" or "pages"', lambda: anything.register_db("x", "tree")),
        (TypeError, "db must be an int", lambda: anything.remove_db(None)),
        (TypeError, "db must be an int", lambda: anything.remove_db(True)),
        (ValueError, "db must be from 0", lambda: anything.remove_db(-1)),
        (
            TypeError,
            "chunk must be aof2.catalog.ChunkFields",
            lambda: anything.append_wal_chunk("app", {"chunk_id": 1}),
        ),
        (
            ValueError,
            "chunk.compression must be",
            lambda: anything.append_wal_chunk("app", chunk(1, compression="lz4")),
        ),
        (
            ValueError,
            "chunk must be a chunk that supersedes none",
            lambda: anything.append_wal_chunk("app", chunk(1, supersedes=2)),
        ),
        (
            TypeError,
            r"mutations\[1\] must be",
            lambda: anything.checkpoint_apply("app", 1, [chunk(1), 7]),
        ),
        (
            TypeError,
            "mutations must be an iterable",
            lambda: anything.checkpoint_apply("app", 1, 7),
        ),
        (
            ValueError,
            "variant must be",
            lambda: anything.set_residency("app", ObjectName(1, 1, "delta-1"), "local"),
        ),
        (ValueError, "intent must be", lambda: anything.end_intent("twelve", "done")),
        (ValueError, "phase must be", lambda: anything.end_intent("12.0", "perhaps")),
        (
            TypeError,
            "expires must be",
            lambda: anything.publish_snapshot("app", "monday", expires="tomorrow"),
        ),
        (
            ValueError,
            "aware datetime",
            lambda: anything.publish_snapshot(
                "app",
                "monday",
                expires=datetime.datetime(2026, 1, 1),
            ),
        ),
        (
            TypeError,
            "payload must be bytes",
            lambda: anything.enqueue_job("app", "gc", payload="text"),
        ),
        (ValueError, "seconds must be at least 0", lambda: anything.lease_job("w", seconds=-1)),
        (TypeError, "job must be aof2.catalog.Job", lambda: anything.complete_job(1, "done")),
        (TypeError, "host must be Tiers", lambda: anything.roll_forward(7)),
        (ValueError, "host must be Tiers with cold", lambda: anything.roll_forward(aof2.Tiers())),
        (TypeError, "at must be an int", lambda: anything.view(at="now")),
        (ValueError, "timeout must be at least 0", lambda: anything.feed("x", timeout=-1)),
        (TypeError, "actor must be a str", lambda: anything.acting_as(None)),
    ]
    for kind, message, call in cases:
        with pytest.raises(kind, match=message):
            call()
    with pytest.raises(TypeError, match=r"root must be str or os\.PathLike"):
        aof2.Catalog.open(7)  # type: ignore[arg-type]
    with pytest.raises(aof2.InvalidConfig) as invalid:
        aof2.Catalog.open(Path(catalog.root) / "other", batch_bytes=1)
    assert invalid.value.field == "batch_bytes"
    with pytest.raises(TypeError):
        aof2.Catalog()
    assert catalog.verify() == []


def test_a_job_is_leased_kept_completed_and_tried_again(catalog: aof2.Catalog) -> None:
    number = catalog.reserve_job_id().wait().value
    assert catalog.enqueue_job(0, "gc", job_id=number, attempts_max=2).wait().value == number
    assert catalog.lease_job("worker", seconds=60, kinds=["merge"]) is None
    job = catalog.lease_job("worker", seconds=60, kinds=["gc", "merge"])
    assert job is not None
    assert (job.job_id, job.state, job.owner, job.runs) == (number, "leased", "worker", 1)
    assert catalog.lease_job("another", seconds=60) is None
    catalog.heartbeat_job(job, seconds=600).wait()
    kept = catalog.view().job(number)
    assert kept is not None
    assert kept.leased_until is not None
    assert job.leased_until is not None
    assert kept.leased_until > job.leased_until
    assert kept.heartbeats == 1
    catalog.complete_job(job, "failed", "no space").wait()
    failed = catalog.view().pending_job(0, "gc")
    assert failed is not None
    assert (failed.state, failed.failures, failed.message) == ("pending", 1, "no space")
    assert failed.not_before is not None
    # Completing a run twice is the same as once.
    catalog.complete_job(job, "done").wait()
    assert catalog.view().pending_job(0, "gc") == failed


def test_an_ended_lease_lets_another_worker_in(catalog: aof2.Catalog) -> None:
    catalog.enqueue_job(0, "gc").wait()
    first = catalog.lease_job("worker", seconds=0)
    second = catalog.lease_job("worker", seconds=60)
    assert second is not None
    if first is not None:
        assert second.runs == first.runs + 1
        for late in (catalog.heartbeat_job(first, seconds=60), catalog.complete_job(first, "done")):
            with pytest.raises(aof2.Refused):
                late.wait()
    assert catalog.view().job(second.job_id) == second


def test_intents_are_ended_by_their_caller_or_at_the_start(catalog: aof2.Catalog) -> None:
    catalog.register_db("app", "pages").wait()
    catalog.checkpoint_apply("app", 1, [chunk(1), chunk(2), chunk(3)]).wait()
    bucket = catalog.add_namespace("s3://bucket/prefix").wait().value

    def begin(chunk_id: int) -> values.OperationId:
        name = ObjectName(origin_db=1, chunk_id=chunk_id, generation=1)
        stored = SegmentRef(segment_id=chunk_id, crc64=7, bytes=4096, epoch=1)
        intent = catalog.begin_upload("app", bucket, name, str(name), stored).wait().value
        assert isinstance(intent, values.OperationId)
        return intent

    done, there, absent = begin(1), begin(2), begin(3)
    catalog.end_intent(done, "done").wait()
    ended = catalog.view().chunk("app", 1)
    assert ended is not None
    assert ended.residency == "local_and_remote"
    assert ended.remote_object == str(ObjectName(1, 1, "base", 1))

    class Bucket:
        asked: ClassVar[list[tuple[Any, ...]]] = []

        def holds(self, *arguments: Any) -> bool:
            self.asked.append(arguments)
            if arguments[1].startswith("00000001/00000003"):
                raise OSError("the bucket does not answer")
            return True

        def delete(self, url: str, key: str) -> None:
            raise AssertionError((url, key))

    report = catalog.roll_forward(Bucket())
    assert report.done == [there]
    ((failed, why),) = report.failed
    assert failed == absent
    assert "does not answer" in why
    assert Bucket.asked[0] == ("s3://bucket/prefix", "00000001/00000002/base:00000001", 4096, 7)
    assert [intent.operation for intent in catalog.view().open_intents()] == [str(absent)]


def test_waiting_has_a_deadline_and_can_be_awaited(catalog: aof2.Catalog) -> None:
    pending = catalog.register_db("app", "pages")
    committed = pending.wait(timeout=DEADLINE_S)
    assert pending.wait() == committed
    assert pending.is_finished
    assert "register_db" in repr(pending)

    async def both() -> list[values.Committed]:
        waiting = [catalog.record_metric(1, 1, value) for value in range(20)]
        return [await each for each in waiting]

    generations = [each.generation for each in asyncio.run(both())]
    assert generations == sorted(generations)
    assert catalog.wait_generation(generations[-1], timeout=DEADLINE_S)
    assert not catalog.wait_generation(generations[-1] + 1000, timeout=0)

    async def refused() -> None:
        await catalog.register_db("app", "pages")

    with pytest.raises(aof2.NameTaken):
        asyncio.run(refused())


def test_threads_share_a_catalog(catalog: aof2.Catalog) -> None:
    def count() -> None:
        for _ in range(50):
            catalog.record_metric(1, 1, 1).wait()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figure = catalog.view().metric(1, 1)
    assert figure is not None
    assert figure.count == 200
    assert catalog.metrics()["operations"] >= 200
    assert f'root="{catalog.root}"' in catalog.metrics_text()


def test_the_feed_gives_every_batch_once_and_again_what_was_not_acknowledged(
    catalog: aof2.Catalog,
) -> None:
    for name in ("a", "b"):
        catalog.register_db(name, "pages").wait()
    with catalog.feed("search", timeout=0) as feed:
        batches = list(feed)
        assert [batch.generation for batch in batches] == [0, 1, 2]
        with pytest.raises(aof2.Locked):
            catalog.feed("search")
        with pytest.raises(aof2.Refused, match="not given out yet"):
            feed.acknowledge(3)
        feed.acknowledge(batches[1].generation)
    with catalog.feed("search", timeout=0) as feed:
        assert feed.next_generation == 2
        (last,) = feed
        assert [(op.type, op.actor) for op in last.operations] == [("RegisterDb", "alice")]
        assert last.operations[0].fields["name"] == "b"
        feed.acknowledge()
    with catalog.feed("search", timeout=0) as feed:
        assert list(feed) == []
        assert feed.next_batch(timeout=0) is None
        catalog.register_db("c", "pages").wait()
        batch = feed.next_batch(timeout=DEADLINE_S)
        assert batch is not None
        assert batch.generation == 3
    with pytest.raises(aof2.Closed):
        feed.next_batch()
    catalog.feed("search").forget()
    assert catalog.feed("search").next_generation == 0


def test_a_feed_that_waits_ends_when_the_catalog_is_closed(root: Path) -> None:
    catalog = aof2.Catalog.open(root)
    feed = catalog.changes()
    seen: list[values.OperationBatch] = []
    thread = threading.Thread(target=lambda: seen.extend(feed))
    thread.start()
    catalog.close()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert [batch.generation for batch in seen] == [0]


def test_operations_are_read_one_by_one_or_as_arrow_data(catalog: aof2.Catalog) -> None:
    fill(catalog)
    catalog.acting_as("bob").record_metric(1, 7, 250).wait()
    operations = list(catalog.operations())
    assert {operation.actor for operation in operations} == {"catalog", "alice", "bob"}
    assert operations[-1].actor == "bob"
    intent = next(operation for operation in operations if operation.phase == "intent")
    assert intent.segments == (SegmentRef(segment_id=2, crc64=7, bytes=4096, epoch=1),)
    table = pa.table(catalog.operations())
    assert table.num_rows == len(operations)
    assert table.column("type").to_pylist() == [operation.type for operation in operations]
    assert table.column("timestamp").to_pylist() == [op.timestamp for op in operations]
    checkpoint = operations[[op.type for op in operations].index("CheckpointApply") + 1]
    delta = checkpoint.fields["mutations"][0]["delta"]
    assert (delta["dirty_pages"], delta["crc64"]) == (b"\x03", 2**64 - 1)
    start = operations[3].id.generation
    part = list(catalog.operations(start, start + 2))
    assert part == [op for op in operations if start <= op.id.generation < start + 2]
    assert list(catalog.operations(10_000)) == []
    once = catalog.operations()
    pa.table(once)
    assert list(once) == []
    with pytest.raises(RuntimeError, match="read already"):
        pa.table(once)
    report = catalog.verify_operations()
    assert report.operations == len(operations)
    assert (report.earliest_generation, report.next_generation) == catalog.generations()


def test_logs_are_adopted_and_nothing_is_written_into_them(root: Path) -> None:
    with aof2.Aof.open(root / "events") as log:
        log.append(b"x")
        with aof2.Catalog.open(root) as catalog:
            assert catalog.adopt_logs().logs == ["events"]
            assert catalog.adopt_logs().logs == []
            events = catalog.view().database("events")
            assert events is not None
            assert (events.kind, events.stream_id) == ("log", log.stream_id)
            catalog.publish_snapshot("events", "held", offset=5).wait()
            with pytest.raises(aof2.Error, match="held"):
                catalog.trim("events", 10).wait()


def test_a_catalog_whose_operation_log_is_gone_is_rebuilt(root: Path) -> None:
    with aof2.Aof.open(root / "events") as log:
        log.append(b"x")
    with aof2.Catalog.open(root) as catalog:
        catalog.register_db("app", "pages").wait()
        catalog.checkpoint()
    with pytest.raises(aof2.Refused, match="operation log is there"):
        aof2.Catalog.rebuild(root)
    shutil.rmtree(root / ".aof2" / "segment_store.log")
    with pytest.raises(aof2.NotALog, match="rebuild"):
        aof2.Catalog.open(root)
    catalog, report = aof2.Catalog.rebuild(root, actor="alice")
    with catalog:
        assert report.adopted.logs == ["events"]
        assert any(name.endswith(".lost") for name in report.set_aside)
        assert "snapshots and forks" in report.lost
        assert [db.name for db in catalog.view().databases()] == ["events"]


# ---- handles ----


def test_a_second_writer_is_told_who_has_it(catalog: aof2.Catalog, root: Path) -> None:
    with pytest.raises(aof2.Locked) as locked:
        aof2.Catalog.open(root)
    assert locked.value.pid == os.getpid()
    told = run_program(
        """
        import sys
        import aof2
        try:
            aof2.Catalog.open(sys.argv[1])
        except aof2.Locked as error:
            print(error.pid)
        """,
        root,
    )
    assert told == [str(os.getpid())]


def test_a_closed_handle_refuses(root: Path) -> None:
    catalog = aof2.Catalog.open(root)
    view, feed = catalog.view(), catalog.changes(timeout=0)
    other = catalog.acting_as("bob")
    reader = aof2.Catalog.read(root)
    catalog.close()
    catalog.close()
    reader.close()
    assert catalog.closed
    assert other.closed
    assert reader.closed
    assert "closed" in repr(catalog)
    calls: list[Callable[[], object]] = [
        lambda: catalog.register_db("app", "pages"),
        lambda: other.register_db("app", "pages"),
        catalog.view,
        catalog.verify,
        catalog.operations,
        catalog.audit,
        catalog.changes,
        catalog.metrics,
        catalog.checkpoint,
        catalog.generations,
        catalog.__enter__,
        lambda: catalog.feed("x"),
        lambda: catalog.wait_generation(0),
        lambda: catalog.recovery,
        reader.view,
        reader.refresh,
        reader.__enter__,
    ]
    for call in calls:
        with pytest.raises(aof2.Closed):
            call()
    # A view reads what it has in memory, or is closed, too.
    with contextlib.suppress(aof2.Closed):
        assert view.databases() == []
    feed.close()
    with aof2.Catalog.open(root) as again:
        assert again.view().generation == 0


def test_an_error_in_the_block_is_the_one_that_is_raised(root: Path) -> None:
    with pytest.raises(KeyError), aof2.Catalog.open(root) as catalog:
        raise KeyError("mine")
    assert catalog.closed


def test_a_reader_pickles_by_its_root(catalog: aof2.Catalog, root: Path) -> None:
    catalog.register_db("app", "pages").wait()
    reader = pickle.loads(pickle.dumps(aof2.Catalog.read(root)))
    assert reader.root == str(root)
    assert reader.view().database("app").name == "app"


def test_a_directory_without_a_catalog_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(aof2.NotALog):
        aof2.Catalog.read(tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---- other processes ----

WRITER = """
    import sys
    import aof2
    catalog = aof2.Catalog.open(sys.argv[1], actor="writer")
    print("open", flush=True)
    for line in sys.stdin:
        committed = catalog.register_db(line.strip(), "pages").wait()
        print(committed.generation, flush=True)
"""


def test_a_reader_beside_a_writer_and_after_it_was_killed(root: Path) -> None:
    with start_program(WRITER, root) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdin is not None
            assert writer.stdout.readline() == "open\n"
            reader = aof2.Catalog.read(root)
            for name in ("a", "b"):
                print(name, file=writer.stdin, flush=True)
                generation = int(writer.stdout.readline())
                assert reader.refresh() >= generation
                assert reader.view().database(name) is not None
        finally:
            writer.kill()
    for again in (reader, aof2.Catalog.read(root)):
        again.refresh()
        assert [db.name for db in again.view().databases()] == ["a", "b"]
        assert again.verify() == []
        assert [op.actor for op in again.audit()] == ["catalog", "writer", "writer"]
    with aof2.Catalog.open(root) as catalog:
        assert [db.name for db in catalog.view().databases()] == ["a", "b"]
        catalog.register_db("c", "pages").wait()
        reader.refresh()
        assert reader.view().database("c") is not None


def test_a_feed_in_another_process_goes_on_where_it_stopped(
    catalog: aof2.Catalog, root: Path
) -> None:
    catalog.register_db("app", "pages").wait()
    read_one = """
        import sys
        import aof2
        with aof2.Catalog.read(sys.argv[1]).feed("search") as feed:
            batch = feed.next_batch()
            print(batch.generation, batch.operations[0].type)
            feed.acknowledge(batch.generation)
        """
    assert run_program(read_one, root) == ["0 Migrate"]
    assert run_program(read_one, root) == ["1 RegisterDb"]


def test_a_read_only_directory_is_read(root: Path) -> None:
    with aof2.Catalog.open(root) as catalog:
        catalog.register_db("app", "pages").wait()
        catalog.checkpoint()
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    directories = [root, *(path for path in root.rglob("*") if path.is_dir())]
    try:
        for path in root.rglob("*"):
            path.chmod(0o444 if path.is_file() else 0o555)
        root.chmod(0o555)
        with aof2.Catalog.read(root) as reader:
            assert reader.view().database("app") is not None
            assert reader.view(at=0).databases() == []
            assert len(list(reader.operations())) == 2
            assert reader.verify() == []
        if os.geteuid() != 0:  # root may write everywhere
            with pytest.raises(aof2.IoError):
                aof2.Catalog.open(root)
    finally:
        for path in directories:
            path.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_forked_child_refuses_and_hurts_nobody(root: Path) -> None:
    told = run_program(
        """
        import gc, os, sys
        import aof2

        catalog = aof2.Catalog.open(sys.argv[1])
        catalog.register_db("app", "pages").wait()
        reader = aof2.Catalog.read(sys.argv[1])
        view, feed = catalog.view(), catalog.feed("search")
        pending = catalog.record_metric(1, 1, 1)
        operations = catalog.operations()

        def child():
            for call in (catalog.view, reader.view, reader.refresh, catalog.checkpoint,
                         catalog.operations, catalog.__enter__, view.databases,
                         lambda: view.table("db"), lambda: next(feed), lambda: next(operations),
                         lambda: catalog.register_db("b", "pages"), lambda: pending.wait(),
                         lambda: feed.acknowledge(0), lambda: catalog.feed("x")):
                try:
                    call()
                except aof2.ForkedHandle as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError(call)
            assert catalog.closed and "fork" in repr(catalog)
            catalog.close(), reader.close(), feed.close()
            # Its own reader works: the parent has the lock.
            with aof2.Catalog.read(sys.argv[1]) as own:
                assert own.view().database("app").name == "app"

        pid = os.fork()
        if pid == 0:
            try:
                child()
                global_names = ("catalog", "reader", "view", "feed", "pending", "operations")
                for name in global_names:
                    globals().pop(name)
                gc.collect()
                print("child", flush=True)
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert status == 0
        pending.wait()
        catalog.register_db("b", "pages").wait()
        print(len(catalog.view().databases()))
        catalog.close()
        """,
        root,
    )
    assert told == ["child", "2"]


def test_a_newer_version_is_refused_clearly(root: Path) -> None:
    with aof2.Catalog.open(root) as catalog:
        catalog.register_db("app", "pages").wait()
        generation = catalog.checkpoint()
    (file,) = (root / ".aof2" / "checkpoints").glob(f"*{generation}.ckpt")
    data = bytearray(file.read_bytes())
    version = data.index(b"\x01\x00", 8)
    data[version] = 9
    file.write_bytes(data)
    (root / ".aof2" / "tables.redb").unlink()
    for call in (aof2.Catalog.read, aof2.Catalog.open):
        with pytest.raises(aof2.NewerVersion, match="use a newer aof2") as newer:
            call(root)
        assert newer.value.found > newer.value.known
    assert file.read_bytes() == bytes(data)
