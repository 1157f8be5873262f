//! The rows as an engine sees them: prepare, start the clock, work, stop it,
//! check that all of the work was done.

mod append;
mod open;
mod read;

use std::rc::Rc;

use crate::engine::{Engine, Kind, Plan, Result, Tally};
use crate::measure::Subject;
use crate::payload::Payloads;
use crate::scratch::Scratch;

/// Who does the work, and where.
#[derive(Clone)]
pub struct Job {
    pub engine: Rc<dyn Engine>,
    pub plan: Plan,
    pub scratch: Rc<Scratch>,
    pub payloads: Rc<Payloads>,
    /// Sustained rows run a second, untimed pass that times each append.
    pub with_latency: bool,
}

impl Job {
    /// One word that names this engine's directories.
    fn label(&self) -> String {
        self.engine.name().replace(' ', "-")
    }
}

/// The work of a row as something that can be run round after round.
pub fn subject(job: Job) -> Box<dyn Subject> {
    match job.plan.kind {
        Kind::Append | Kind::Sustained => Box::new(append::AppendWork { job }),
        Kind::Durable => Box::new(append::DurableWork { job }),
        Kind::Scan => Box::new(read::ScanWork::new(job)),
        Kind::RandomRead => Box::new(read::RandomReadWork::new(job)),
        Kind::Open => Box::new(open::OpenWork::new(job)),
        Kind::Recovery => Box::new(open::RecoveryWork::new(job)),
    }
}

/// A pass that skipped records would look fast.
fn check(found: Tally, plan: &Plan) -> Result<()> {
    if found.record_count == plan.record_count && found.payload_bytes == plan.payload_bytes() {
        return Ok(());
    }
    Err(format!(
        "found {} records of {} bytes in all, expected {} of {}",
        found.record_count,
        found.payload_bytes,
        plan.record_count,
        plan.payload_bytes()
    )
    .into())
}
