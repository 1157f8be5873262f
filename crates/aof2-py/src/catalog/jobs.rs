//! Jobs: enqueueing, leasing, completing.

use aof2_core::catalog::{JobKind, JobSpec};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::inputs;
use super::pending::Pending;
use super::writer::Catalog;
use crate::args::{self, Maybe, unsigned_if, wrong_type};
use crate::error::to_py;
use crate::report::Built;

fn payload_of(given: &Maybe<'_>) -> PyResult<Vec<u8>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let bytes = given.cast::<PyBytes>().map_err(|_| wrong_type("payload", "bytes", given))?;
    Ok(bytes.as_bytes().to_vec())
}

#[pymethods]
impl Catalog {
    /// Takes a number for a job, which is the value.
    ///
    /// >>> catalog.reserve_job_id().wait().value
    /// 1
    fn reserve_job_id(slf: &Bound<'_, Self>) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let guard = slf.py().detach(|| catalog.reserve_job_id());
        Ok(Pending::new("reserve_job_id", guard.map_err(to_py)?))
    }

    /// Enqueues a job of a kind ("upload", "delete", "checkpoint", "merge", "detach",
    /// "compact", "gc") for a database; 0 stands for the whole catalog. Its number is the
    /// value; `wait` raises `JobPending` if an unfinished job does the same. `job_id` is a
    /// number that `reserve_job_id` gave.
    ///
    /// >>> catalog.enqueue_job("app", "gc", payload=b"all of it").wait().value
    /// 1
    #[pyo3(
        signature = (db, kind, *, payload = None, not_before = None, attempts_max = None,
            job_id = None),
        text_signature = "($self, db, kind, *, payload=b'', not_before=None, attempts_max=10, job_id=None)"
    )]
    fn enqueue_job(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        kind: &Bound<'_, PyAny>,
        payload: Maybe<'_>,
        not_before: Maybe<'_>,
        attempts_max: Maybe<'_>,
        job_id: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let kind = inputs::job_kind("kind", kind)?;
        let mut job = JobSpec::new(inputs::db(slf.py(), &catalog, db)?, kind);
        job.payload = payload_of(&payload)?;
        job.not_before_ms = inputs::moment("not_before", &not_before)?.unwrap_or(0);
        if let Some(attempts_max) = unsigned_if("attempts_max", &attempts_max)? {
            job.attempts_max = attempts_max;
        }
        let number = unsigned_if("job_id", &job_id)?.unwrap_or(0);
        let guard = slf.py().detach(|| catalog.enqueue_job_as(number, job));
        Ok(Pending::new("enqueue_job", guard.map_err(to_py)?))
    }

    /// Takes a job that is due, of one of these kinds (by default of any), for `seconds`.
    /// Returns the `Job`, or None if there is none. When the time is over and nobody said
    /// `heartbeat_job`, another worker may take it: do it in a way that may be done twice.
    ///
    /// >>> pending = catalog.enqueue_job("app", "gc").wait()
    /// >>> job = catalog.lease_job("worker", seconds=60)
    /// >>> committed = catalog.complete_job(job, "done").wait()
    /// >>> catalog.lease_job("worker", seconds=60) is None
    /// True
    #[pyo3(
        signature = (owner, *, seconds, kinds = None),
        text_signature = "($self, owner, *, seconds, kinds=None)"
    )]
    fn lease_job<'py>(
        slf: &Bound<'py, Self>,
        owner: &Bound<'py, PyAny>,
        seconds: &Bound<'py, PyAny>,
        kinds: Maybe<'py>,
    ) -> Built<'py> {
        let (py, catalog) = (slf.py(), Self::core(slf)?);
        let owner = args::text("owner", "a str", owner)?;
        let lease = inputs::seconds("seconds", seconds)?;
        let kinds = match kinds {
            Some(kinds) => inputs::several("kinds", &kinds, inputs::job_kind)?,
            None => JobKind::ALL.to_vec(),
        };
        let leased = py.detach(|| catalog.lease_job(&owner, &kinds, lease)).map_err(to_py)?;
        match leased {
            Some((job_id, _)) => slf.call_method0("view")?.call_method1("job", (job_id,)),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Keeps a job that was leased for more `seconds`. `wait` raises `Refused` if another run
    /// of it began since.
    ///
    /// >>> pending = catalog.enqueue_job("app", "gc").wait()
    /// >>> job = catalog.lease_job("worker", seconds=60)
    /// >>> committed = catalog.heartbeat_job(job, seconds=60).wait()
    /// >>> catalog.view().job(job.job_id).heartbeats
    /// 1
    #[pyo3(signature = (job, *, seconds), text_signature = "($self, job, *, seconds)")]
    fn heartbeat_job(
        slf: &Bound<'_, Self>,
        job: &Bound<'_, PyAny>,
        seconds: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let (job_id, run) = inputs::job("job", job)?;
        let owner = job.getattr("owner")?;
        let owner = args::text("job.owner", "a str: of a job that was leased", &owner)?;
        let lease = inputs::seconds("seconds", seconds)?;
        let guard = slf.py().detach(|| catalog.heartbeat_job(job_id, run, &owner, lease));
        Ok(Pending::new("heartbeat_job", guard.map_err(to_py)?))
    }

    /// Ends the run of a job as it was leased, or a job that nobody leased: "done" or
    /// "failed". One that failed runs again, after a time that doubles with each failure, until
    /// its attempts are used up. `wait` raises `Refused` if another run began since.
    ///
    /// >>> pending = catalog.enqueue_job("app", "gc").wait()
    /// >>> job = catalog.lease_job("worker", seconds=60)
    /// >>> committed = catalog.complete_job(job, "failed", "no space").wait()
    /// >>> catalog.view().job(job.job_id).state
    /// 'pending'
    #[pyo3(
        signature = (job, outcome, message = None),
        text_signature = "($self, job, outcome, message='')"
    )]
    fn complete_job(
        slf: &Bound<'_, Self>,
        job: &Bound<'_, PyAny>,
        outcome: &Bound<'_, PyAny>,
        message: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let (job_id, run) = inputs::job("job", job)?;
        let outcome = inputs::job_outcome("outcome", outcome)?;
        let message = args::text_if("message", "a str", &message)?.unwrap_or_default();
        let guard = slf.py().detach(|| catalog.complete_job(job_id, run, outcome, &message));
        Ok(Pending::new("complete_job", guard.map_err(to_py)?))
    }
}
