//! Power cuts at any call: what was acknowledged is there afterwards, nothing is half done,
//! and the tables are what the log adds up to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::driver::{ROOT, Rows, batches, check, config, decide, draw, dump, open_with};
use crate::catalog::config::CatalogConfig;
use crate::catalog::cursors::{self, CursorHandle};
use crate::catalog::engine::{Engine, Request};
use crate::catalog::layout::CatalogLayout;
use crate::catalog::reader::CatalogReader;
use crate::catalog::state::ReadRows;
use crate::catalog::tables::Counter;
use crate::error::AofError;
use crate::format::CursorFile;
use crate::format::operation::{JobKind, JobOutcome, Operation, OperationBatch, OperationBody};
use crate::io::Storage;
use crate::io::sim::{CrashOptions, Fault, SimStorage};

/// Checkpoints often.
fn busy() -> CatalogConfig {
    CatalogConfig { checkpoint_operations: 7, ..config() }
}

/// What was acknowledged, and the tables after each of it.
#[derive(Default)]
struct History {
    acknowledged: Vec<Arc<[Operation]>>,
    tables: BTreeMap<u64, Rows>,
}

impl History {
    fn note(&mut self, operations: Arc<[Operation]>, engine: &Engine) {
        // It is durable also if the tables could not be written.
        if let Ok(view) = engine.core.tables.view() {
            self.tables.insert(view.generation(), dump(&view));
        }
        self.acknowledged.push(operations);
    }

    fn check(&self, engine: &Engine) -> Result<(), String> {
        let view = engine.core.tables.view().map_err(|e| e.to_string())?;
        let found = view.generation();
        let last = self.acknowledged.last().map_or(0, |operations| operations[0].id.generation);
        if found < last {
            return Err(format!("batch {last} was acknowledged, and {found} is the last"));
        }
        if self.tables.get(&found).is_some_and(|rows| *rows != dump(&view)) {
            return Err(format!("the tables of batch {found} are others"));
        }
        let earliest = engine.core.log.earliest_offset();
        let batches = batches(engine);
        for operations in &self.acknowledged {
            let id = operations[0].id;
            let batch = batches.iter().find(|batch| batch.generation == id.generation);
            let is_there = |batch: &OperationBatch| {
                operations.iter().all(|operation| batch.operations.contains(operation))
            };
            if id.generation >= earliest && !batch.is_some_and(is_there) {
                return Err(format!("operation {id} was acknowledged and is another one"));
            }
        }
        Ok(())
    }
}

/// A job that is done at once, and takes space in the log.
fn long_job(engine: &mut Engine, rng: &mut Rng) -> Result<Arc<[Operation]>, AofError> {
    let job_id = engine.core.tables.view()?.next(Counter::Job)?;
    let enqueue = OperationBody::EnqueueJob {
        job_id,
        db_id: 0,
        kind: JobKind::Detach,
        payload: vec![rng.u8(..); 9_000],
        not_before_ms: 0,
        attempts_max: 1,
    };
    let complete = OperationBody::CompleteJob {
        job_id,
        run: 0,
        outcome: JobOutcome::Done,
        message: String::new(),
        retry_at_ms: 0,
    };
    let reserve = OperationBody::ReserveJobId { job_id };
    decide(engine, [reserve, enqueue, complete].map(Request::new).to_vec())
}

/// Runs until the power is cut.
fn run(engine: &mut Engine, rng: &mut Rng, steps: usize, history: &mut History) {
    for _ in 0..steps {
        let Ok(view) = engine.core.tables.view() else { break };
        let requests = (0..1 + rng.u32(..3)).map(|_| draw(rng, &view)).collect();
        drop(view);
        let decided = match rng.u32(..4) {
            0 => long_job(engine, rng),
            _ => decide(engine, requests),
        };
        if let Ok(operations) = decided {
            history.note(operations, engine);
        }
        if engine.is_checkpoint_due() {
            let _ = engine.checkpoint_now();
        }
    }
}

pub(super) fn explore(seeds: std::ops::Range<u64>) -> Result<(), String> {
    for seed in seeds {
        explore_one(seed).map_err(|e| format!("seed {seed}: {e}"))?;
    }
    Ok(())
}

fn explore_one(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let sim = SimStorage::new();
    sim.seed_random(seed);
    let mut history = History::default();
    if let Ok((mut engine, _)) = open_with(&sim, busy()) {
        run(&mut engine, &mut rng, 40, &mut history);
        let cut = sim.calls() + rng.u64(..600);
        match rng.bool() {
            true => sim.crash_at(cut),
            false => sim.crash_after(cut),
        }
        run(&mut engine, &mut rng, 40, &mut history);
    }
    let image = sim.take_crash().unwrap_or_else(|| sim.image());
    for outcome in 0..3 {
        let sim = image.materialize(outcome, &CrashOptions::default());
        check_reader(&sim)?;
        let sim = crash_recovery(sim, &mut rng);
        let (mut engine, _) = open_with(&sim, busy()).map_err(|e| format!("opening: {e}"))?;
        check(&engine)?;
        history.check(&engine)?;
        let mut more = History::default();
        run(&mut engine, &mut rng, 5, &mut more);
        check(&engine)?;
        more.check(&engine)?;
    }
    Ok(())
}

/// Whatever a reader sees, it sees whole.
fn check_reader(sim: &SimStorage) -> Result<(), String> {
    let storage = Arc::new(sim.clone());
    let Ok(reader) = CatalogReader::open_on(ROOT, storage, Arc::new(sim.clock().clone())) else {
        // Nothing was durable yet.
        return Ok(());
    };
    let problems = reader.verify().map_err(|e| format!("reading: {e}"))?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!("a reader sees {problems:?}")),
    }
}

/// Cuts the power while the catalog is opened.
fn crash_recovery(sim: SimStorage, rng: &mut Rng) -> SimStorage {
    if rng.bool() {
        return sim;
    }
    sim.crash_at(sim.calls() + rng.u64(..200));
    let opened = open_with(&sim, busy());
    drop(opened);
    let image = sim.take_crash().unwrap_or_else(|| sim.image());
    image.materialize(rng.u64(..1000), &CrashOptions::default())
}

#[test]
fn acknowledged_operations_survive_any_cut_and_nothing_is_half_done() {
    let count = std::env::var("AOF2_CATALOG_CRASHES").ok().and_then(|n| n.parse().ok());
    explore(0..count.unwrap_or(40)).unwrap();
}

/// One call fails in a random history; then the machine goes on, and is restarted.
fn survive_one_fault(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed ^ 0xFA17);
    let sim = SimStorage::new();
    sim.seed_random(seed);
    let mut history = History::default();
    let (mut engine, _) = open_with(&sim, busy()).map_err(|e| e.to_string())?;
    run(&mut engine, &mut rng, 20, &mut history);
    let fault = match rng.bool() {
        true => Fault::Error(std::io::ErrorKind::StorageFull),
        false => Fault::Error(std::io::ErrorKind::Other),
    };
    sim.fail_at(sim.calls() + rng.u64(..300), fault);
    run(&mut engine, &mut rng, 40, &mut history);
    sim.clear_faults();
    drop(engine);
    let sim = match rng.bool() {
        true => sim.image().materialize(rng.u64(..1000), &CrashOptions::default()),
        false => sim.image().after_kill(),
    };
    let (engine, _) = open_with(&sim, busy()).map_err(|e| format!("opening: {e}"))?;
    check(&engine)?;
    history.check(&engine)
}

#[test]
fn one_failing_call_costs_nothing_that_was_acknowledged() {
    for seed in 0..40 {
        survive_one_fault(seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn an_acknowledged_place_in_the_feed_survives_any_cut() {
    let layout = CatalogLayout::new(Path::new(ROOT));
    for cut in 0..40 {
        let sim = SimStorage::new();
        sim.create_dir_all(&layout.directory()).unwrap();
        sim.sync_dir(Path::new("/")).unwrap();
        sim.sync_dir(Path::new(ROOT)).unwrap();
        sim.crash_at(sim.calls() + cut);
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let mut acknowledged = None;
        let mut tried = None;
        if let Ok(cursor) = CursorHandle::take(&storage, &layout, "search") {
            for next_generation in 1..4 {
                tried = Some(next_generation);
                let file =
                    CursorFile { stream_id: 1, next_generation, seen_generation: 0, updated_ms: 7 };
                match cursor.write(&file) {
                    Ok(()) => acknowledged = tried,
                    Err(_) => break,
                }
            }
        }
        let image = sim.take_crash().unwrap_or_else(|| sim.image());
        for outcome in 0..8 {
            let sim = image.materialize(outcome, &CrashOptions::default());
            let found = cursors::read(&sim, &layout.cursor("search")).unwrap();
            let found = found.map(|file| file.next_generation);
            assert!(found >= acknowledged && found <= tried, "cut {cut}: {found:?}");
        }
    }
}

#[test]
fn a_catalog_that_was_cut_while_it_was_created_opens() {
    for cut in 0..150 {
        let sim = SimStorage::new();
        match cut % 2 {
            0 => sim.crash_at(cut),
            _ => sim.crash_after(cut),
        }
        let opened = open_with(&sim, busy());
        drop(opened);
        let image = sim.take_crash().unwrap_or_else(|| sim.image());
        for outcome in 0..4 {
            let sim = image.materialize(outcome, &CrashOptions::default());
            let (mut engine, _) =
                open_with(&sim, busy()).unwrap_or_else(|e| panic!("cut {cut}, {outcome}: {e}"));
            let mut history = History::default();
            run(&mut engine, &mut Rng::with_seed(cut), 2, &mut history);
            check(&engine).unwrap();
        }
    }
}
