//! Random histories beside a plain model: what was taken is there, what was refused left no
//! trace, and every derived row can be derived again.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::driver::{check, decide, draw, dump, open};
use crate::catalog::view::View;
use crate::format::operation::{DbStatus, JobKind, JobOutcome, Operation, OperationBody as B};
use crate::io::sim::SimStorage;

/// What a reader of the operations would expect, by the simplest means.
#[derive(Default)]
struct Model {
    names: BTreeMap<String, u32>,
    snapshots: BTreeSet<(u32, String)>,
    metrics: BTreeMap<(u32, u32), (u64, u64)>,
    components: BTreeMap<String, u64>,
    unfinished: BTreeMap<u64, (u32, JobKind, u32)>,
    /// The last run of each job that has ended.
    ended: BTreeMap<u64, u32>,
}

impl Model {
    fn take(&mut self, operation: &Operation, before: &View) {
        match &operation.body {
            B::RegisterDb { db_id, name, .. }
            | B::CreateStream { db_id, name, .. }
            | B::ForkDb { db_id, name, .. } => {
                assert!(self.names.insert(name.clone(), *db_id).is_none(), "{name} was taken");
            }
            B::UpdateDbStatus { db_id, status: DbStatus::Dropped } => {
                self.names.retain(|_, id| id != db_id);
            }
            B::RemoveDb { db_id, .. } => {
                self.unfinished.retain(|_, (db, ..)| db != db_id);
            }
            B::PublishSnapshot { db_id, name, .. } => {
                assert!(self.snapshots.insert((*db_id, name.clone())), "{name} was taken");
            }
            B::DropSnapshot { db_id, snapshot_id, .. } => {
                let rows = before.snapshots(*db_id).unwrap();
                let (_, row) = rows.iter().find(|(id, _)| id == snapshot_id).unwrap();
                assert!(self.snapshots.remove(&(*db_id, row.name.clone())));
            }
            B::RecordMetric { scope, metric, value } => {
                let (count, sum) = self.metrics.entry((*scope, *metric)).or_default();
                (*count, *sum) = (*count + 1, *sum + value);
            }
            B::AdvanceComponent { name, generation, .. } => {
                let before = self.components.insert(name.clone(), *generation);
                assert!(before.is_none_or(|before| before <= *generation));
            }
            B::EnqueueJob { job_id, db_id, kind, attempts_max, .. } => {
                let same = |(db, k, _): &(u32, JobKind, u32)| (db, k) == (db_id, kind);
                assert!(!self.unfinished.values().any(same), "two unfinished jobs of a kind");
                self.unfinished.insert(*job_id, (*db_id, *kind, *attempts_max));
            }
            B::CompleteJob { job_id, run, outcome, .. } => {
                // A run ends once.
                if *run > 0 && self.ended.insert(*job_id, *run) == Some(*run) {
                    return;
                }
                let Some((_, _, left)) = self.unfinished.get_mut(job_id) else { return };
                *left -= 1;
                if *outcome == JobOutcome::Done || *left == 0 {
                    self.unfinished.remove(job_id);
                }
            }
            _ => {}
        }
    }

    fn check(&self, view: &View) {
        for (name, id) in &self.names {
            let (found, row) = view.database_named(name).unwrap().unwrap();
            assert_eq!((found, &row.name), (*id, name));
        }
        assert_eq!(view.live_databases().unwrap().len(), self.names.len());
        for (db_id, name) in &self.snapshots {
            view.snapshot_named(*db_id, name).unwrap();
        }
        for ((scope, metric), expected) in &self.metrics {
            let row = view.metric(*scope, *metric).unwrap().unwrap();
            assert_eq!((row.count, row.sum), *expected);
            assert_eq!(row.buckets.iter().sum::<u64>(), row.count);
        }
        for (name, generation) in &self.components {
            assert_eq!(view.component(name).unwrap().unwrap().generation, *generation);
        }
        for (job_id, (db_id, kind, _)) in &self.unfinished {
            let (found, _) = view.pending_job(*db_id, *kind).unwrap().unwrap();
            assert_eq!(found, *job_id);
        }
    }
}

fn one_history(seed: u64, steps: usize) {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    let mut rng = Rng::with_seed(seed);
    let mut model = Model::default();
    let mut taken_count = 0;
    for step in 0..steps {
        let before = engine.core.tables.view().unwrap();
        let requests: Vec<_> = (0..1 + rng.u32(..2)).map(|_| draw(&mut rng, &before)).collect();
        match decide(&mut engine, requests) {
            Ok(operations) => {
                taken_count += 1;
                // The second of a group sees what the first one did.
                operations.iter().take(1).for_each(|operation| model.take(operation, &before));
                let between = engine.core.tables.view().unwrap();
                operations.iter().skip(1).for_each(|operation| match operation.body {
                    B::DropSnapshot { .. } => model.take(operation, &before),
                    _ => model.take(operation, &between),
                });
            }
            Err(error) => {
                let after = engine.core.tables.view().unwrap();
                assert_eq!(dump(&before), dump(&after), "step {step}: {error}");
            }
        }
        let view = engine.core.tables.view().unwrap();
        model.check(&view);
        if step % 50 == 0 {
            check(&engine).unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
        }
    }
    check(&engine).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!(taken_count > steps / 5, "only {taken_count} of {steps} were taken");
}

#[test]
fn what_is_taken_is_there_and_what_is_refused_leaves_no_trace() {
    for seed in 0..8 {
        one_history(seed, 300);
    }
}
