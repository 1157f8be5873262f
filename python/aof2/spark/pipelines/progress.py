"""How far a job is, told while it runs.

Spark knows which tasks are done; a classic session is asked for it now and then, Spark
Connect tells it. What cannot be told is left out: the last call always says that all is
done, whatever came before it.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aof2.spark.connect import is_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    #: How many are done, or None if that cannot be told now.
    Look: TypeAlias = Callable[[], int | None]

_LOOK_SECONDS = 0.2
_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step of a pipeline is."""

    step: str
    """What is being done: "export", "verify", "copy", "compare" or "profile"."""
    done: int
    """How many are done."""
    total: int
    """How many there are."""
    unit: Literal["tasks", "records"] = "tasks"
    """What is counted."""


ProgressCallback: TypeAlias = "Callable[[Progress], object]"


@contextlib.contextmanager
def watching_tasks(
    spark: SparkSession, step: str, total: int, progress: ProgressCallback | None
) -> Iterator[None]:
    """Tell how many tasks are done of the jobs that this thread runs inside."""
    if progress is None:
        yield
        return
    teller = _Teller(progress, Progress(step, 0, total))
    if is_connect(spark):
        with _told_by_connect(spark, teller), teller.telling(None):
            yield
        return
    with _own_jobs(spark) as look, teller.telling(look):
        yield


@contextlib.contextmanager
def watching(state: Progress, progress: ProgressCallback | None, look: Look) -> Iterator[None]:
    """Tell what `look` finds."""
    if progress is None:
        yield
        return
    with _Teller(progress, state).telling(look):
        yield


class _Teller:
    """Calls the callback when there is news, never twice with the same and never back."""

    def __init__(self, progress: ProgressCallback, state: Progress) -> None:
        self._progress = progress
        self._state = state
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    def tell(self, done: int | None) -> None:
        with self._lock:
            before = self._state
            if self._failure is not None or done is None:
                return
            done = min(done, before.total)
            if done > before.done:
                self._state = Progress(before.step, done, before.total, before.unit)
                self._call()

    def _call(self) -> None:
        try:
            self._progress(self._state)
        except BaseException as error:
            # The job is not the callback's to end; its caller hears of it afterwards.
            self._failure = error

    @contextlib.contextmanager
    def telling(self, look: Look | None) -> Iterator[None]:
        self._call()
        over = threading.Event()
        thread = None
        if look is not None:
            thread = threading.Thread(
                target=self._watch, args=(look, over), name="aof2-progress", daemon=True
            )
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread is not None:
                thread.join()
        self.tell(self._state.total)
        if self._failure is not None:
            raise self._failure

    def _watch(self, look: Look, over: threading.Event) -> None:
        while not over.wait(_LOOK_SECONDS):
            try:
                self.tell(look())
            except Exception:
                # A session that is being stopped; nobody needs to know.
                return


@contextlib.contextmanager
def _own_jobs(spark: SparkSession) -> Iterator[Look]:
    """Give a function that counts finished tasks of the jobs started inside.

    They are known by their group: the one this thread has, or one made for them.
    """
    context = spark.sparkContext
    tracker = context.statusTracker()
    group = context.getLocalProperty(_GROUP)
    is_ours = group is None
    if group is None:
        group = f"aof2-{uuid.uuid4().hex}"
        context.setLocalProperty(_GROUP, group)
    before = set(tracker.getJobIdsForGroup(group))

    def look() -> int:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = {s for job in jobs if job and job.jobId not in before for s in job.stageIds}
        infos = [tracker.getStageInfo(stage) for stage in stages]
        return sum(info.numCompletedTasks for info in infos if info)

    try:
        yield look
    finally:
        if is_ours:
            context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]


@contextlib.contextmanager
def _told_by_connect(spark: SparkSession, teller: _Teller) -> Iterator[None]:
    def handler(stages: Any, **_others: Any) -> None:
        teller.tell(sum(stage.num_completed_tasks for stage in stages or ()))

    spark.registerProgressHandler(handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)  # type: ignore[arg-type]
