//! One row of the table: a unit, a goal, and the contestants side by side.

mod list;

pub use list::all;

use std::rc::Rc;

use crate::bounds::bound_for;
use crate::engine::{Engine, Plan, Support};
use crate::measure::{Contestant, Sample, interleave};
use crate::payload::Payloads;
use crate::scratch::Scratch;
use crate::work::{Job, subject};

/// How a cell is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    MillionRecordsPerSecond,
    ThousandRecordsPerSecond,
    GigabytesPerSecond,
    Milliseconds,
}

impl Unit {
    pub fn label(self) -> &'static str {
        match self {
            Unit::MillionRecordsPerSecond => "M records/s",
            Unit::ThousandRecordsPerSecond => "k records/s",
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Milliseconds => "ms",
        }
    }

    pub fn value(self, sample: &Sample) -> f64 {
        match self {
            Unit::MillionRecordsPerSecond => sample.record_count as f64 / sample.seconds() / 1e6,
            Unit::ThousandRecordsPerSecond => sample.record_count as f64 / sample.seconds() / 1e3,
            Unit::GigabytesPerSecond => sample.payload_bytes as f64 / sample.seconds() / 1e9,
            Unit::Milliseconds => sample.seconds() * 1e3,
        }
    }
}

/// What ours has to reach.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub bound_ratio_min: f64,
    pub peer_ratio_min: Option<f64>,
    /// p99.9 of one append as a multiple of its p50.
    pub tail_ratio_max: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub goal: Goal,
    pub plan: Plan,
    pub warmup_count: usize,
    pub round_count: usize,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub is_quick: bool,
    pub round_count: Option<usize>,
    pub sustained_bytes: Option<u64>,
}

impl Effort {
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.is_quick { quick } else { full }
    }
}

/// One measured column of a row.
pub struct Column {
    pub name: &'static str,
    pub samples: Vec<Sample>,
    pub support: Support,
    pub failure: Option<String>,
}

/// A measured row.
pub struct Outcome {
    pub row: Row,
    pub bound_about: &'static str,
    pub bound: Column,
    pub ours: Option<Column>,
    pub peers: Vec<Column>,
}

impl Row {
    /// Measures the bound, ours and the peers side by side.
    pub fn run(
        &self,
        ours: Option<&Rc<dyn Engine>>,
        peers: &[Rc<dyn Engine>],
        scratch: &Rc<Scratch>,
    ) -> Outcome {
        let (bound_about, bound) = bound_for(&self.plan, scratch);
        let mut contestants = vec![Contestant::new("bound", bound)];
        let payloads = Rc::new(Payloads::new(self.plan.payload_len));
        for (engine, with_latency) in
            ours.into_iter().map(|e| (e, true)).chain(peers.iter().map(|e| (e, false)))
        {
            let job = Job {
                engine: engine.clone(),
                plan: self.plan,
                scratch: scratch.clone(),
                payloads: payloads.clone(),
                with_latency,
            };
            if !matches!(engine.support(self.plan.kind), Support::No(_)) {
                contestants.push(Contestant::new(engine.name(), subject(job)));
            }
        }
        interleave(self.name, &mut contestants, self.warmup_count, self.round_count);

        let mut column = |engine: &Rc<dyn Engine>| {
            take(&mut contestants, engine.name(), engine.support(self.plan.kind))
        };
        let peers = peers.iter().map(&mut column).collect();
        let ours = ours.map(&mut column);
        let bound = take(&mut contestants, "bound", Support::Full);
        drop(contestants);
        if let Err(error) = scratch.sweep() {
            eprintln!("{}: cannot clean up: {error}", self.name);
        }
        Outcome { row: *self, bound_about, bound, ours, peers }
    }
}

fn take(contestants: &mut [Contestant], name: &'static str, support: Support) -> Column {
    match contestants.iter_mut().find(|contestant| contestant.name == name) {
        Some(contestant) => Column {
            name,
            samples: std::mem::take(&mut contestant.samples),
            support,
            failure: contestant.failure.take(),
        },
        None => Column { name, samples: Vec::new(), support, failure: None },
    }
}
