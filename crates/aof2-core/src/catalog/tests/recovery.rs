//! Losing parts of a catalog, and what comes back from the others.

use super::driver::{ROOT, check, config, decide, draw, dump, lived, open, open_with};
use crate::catalog::layout::CatalogLayout;
use crate::catalog::recover::TablesFrom;
use crate::error::AofError;
use crate::io::sim::{Op, SimStorage};
use crate::io::{OpenMode, Storage};
use fastrand::Rng;
use std::path::Path;

fn layout() -> CatalogLayout {
    CatalogLayout::new(Path::new(ROOT))
}

/// A catalog with two checkpoints and something behind them, closed.
fn checkpointed(seed: u64) -> (SimStorage, super::driver::Rows) {
    let (sim, mut engine) = lived(seed, 30);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..2 {
        engine.checkpoint_now().unwrap();
        for _ in 0..10 {
            let request = draw(&mut rng, &engine.core.tables.view().unwrap());
            let _ = decide(&mut engine, vec![request]);
        }
    }
    let rows = dump(&engine.core.tables.view().unwrap());
    (sim, rows)
}

#[test]
fn deleted_tables_come_back_from_the_newest_checkpoint_and_the_log() {
    let (sim, rows) = checkpointed(1);
    sim.remove(&layout().tables()).unwrap();
    let (engine, recovery) = open(&sim).unwrap();
    assert!(matches!(recovery.from, TablesFrom::Checkpoint(_)), "{recovery:?}");
    assert!(recovery.batches_applied > 0);
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
    check(&engine).unwrap();
}

#[test]
fn tables_that_are_there_are_used_as_they_are() {
    let (sim, rows) = checkpointed(2);
    let (engine, recovery) = open(&sim).unwrap();
    assert_eq!((&recovery.from, &recovery.discarded), (&TablesFrom::Tables, &None));
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn damaged_tables_are_made_again() {
    let (sim, rows) = checkpointed(3);
    let path = layout().tables();
    let len = sim.open(&path, OpenMode::Read).unwrap().len().unwrap();
    let mut rng = Rng::with_seed(3);
    let mut remade = 0;
    for _ in 0..20 {
        for _ in 0..50 {
            sim.flip_bit(&path, rng.u64(..len * 8)).unwrap();
        }
        let (engine, recovery) = open(&sim).unwrap();
        assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
        remade += u32::from(recovery.discarded.is_some());
    }
    assert!(remade > 0, "no damage was noticed");
    sim.write_file(&path, b"not a database at all").unwrap();
    let (engine, recovery) = open(&sim).unwrap();
    assert!(recovery.discarded.is_some());
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn without_checkpoints_and_tables_the_log_is_enough() {
    let (sim, rows) = checkpointed(4);
    for file in sim.files() {
        if file.extension().is_some_and(|e| e == "ckpt" || e == "redb") {
            sim.remove(&file).unwrap();
        }
    }
    let (engine, recovery) = open(&sim).unwrap();
    assert_eq!(recovery.from, TablesFrom::Log);
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let (sim, rows) = checkpointed(5);
    sim.remove(&layout().tables()).unwrap();
    let newest = sim.files().into_iter().filter(|f| f.extension().is_some_and(|e| e == "ckpt"));
    let newest = newest.max().unwrap();
    let len = sim.read_file(&newest).unwrap().len() as u64;
    sim.flip_bit(&newest, len * 4).unwrap();
    let (engine, recovery) = open(&sim).unwrap();
    assert_eq!(recovery.skipped_checkpoints.len(), 1);
    assert!(matches!(recovery.from, TablesFrom::Checkpoint(_)));
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_checkpoint_is_noticed() {
    let (sim, mut engine) = lived(6, 12);
    let generation = engine.checkpoint_now().unwrap();
    let path = layout().checkpoint(generation);
    let bytes = sim.read_file(&path).unwrap();
    let read = || crate::catalog::checkpoint::read(&sim, &path, &mut |_, _, _| Ok(()));
    read().unwrap();
    for bit in 0..bytes.len() * 8 {
        sim.flip_bit(&path, bit as u64).unwrap();
        assert!(read().is_err(), "bit {bit}");
        sim.flip_bit(&path, bit as u64).unwrap();
    }
    for len in (0..bytes.len()).step_by(7) {
        sim.write_file(&path, &bytes[..len]).unwrap();
        assert!(read().is_err(), "cut at {len}");
    }
}

#[test]
fn tables_ahead_of_the_log_are_made_again() {
    let (sim, mut engine) = lived(7, 20);
    engine.checkpoint_now().unwrap();
    let log = layout().log();
    let before: Vec<_> = sim
        .files()
        .into_iter()
        .filter(|f| f.starts_with(&log))
        .map(|f| (f.clone(), sim.read_file(&f).unwrap()))
        .collect();
    let expected = dump(&engine.core.tables.view().unwrap());
    let metric =
        crate::format::operation::OperationBody::RecordMetric { scope: 9, metric: 9, value: 9 };
    super::driver::one(&mut engine, metric).unwrap();
    engine.core.tables.persist().unwrap();
    drop(engine);
    // The log as it was before the last batch: from a backup, say.
    for file in sim.files().into_iter().filter(|f| f.starts_with(&log)) {
        sim.remove(&file).unwrap();
    }
    for (file, bytes) in before {
        sim.write_file(&file, &bytes).unwrap();
    }
    let (engine, recovery) = open(&sim).unwrap();
    assert!(recovery.discarded.is_some(), "{recovery:?}");
    assert_eq!(dump(&engine.core.tables.view().unwrap()), expected);
}

/// The files of the operation log.
fn log_files(sim: &SimStorage) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = sim.files().into_iter().filter(|f| f.starts_with(layout().log()));
    files.map(|f| (f.clone(), sim.read_file(&f).unwrap())).collect()
}

/// More than a segment of the operation log.
fn fill(engine: &mut crate::catalog::engine::Engine, value: u8) {
    for _ in 0..40 {
        let body = crate::format::operation::OperationBody::RecordMetric {
            scope: 1,
            metric: 1,
            value: u64::from(value),
        };
        let requests = (0..40).map(|_| crate::catalog::Request::new(body.clone())).collect();
        decide(engine, requests).unwrap();
    }
}

#[test]
fn checkpoints_ahead_of_a_restored_log_are_set_aside_and_do_not_push_out_those_that_fit() {
    let (sim, mut engine) = lived(17, 20);
    engine.checkpoint_now().unwrap();
    drop(engine);
    let backup = log_files(&sim);
    let (mut engine, _) = open(&sim).unwrap();
    fill(&mut engine, 1);
    let later = engine.checkpoint_now().unwrap();
    drop(engine);
    for (file, _) in log_files(&sim) {
        sim.remove(&file).unwrap();
    }
    for (file, bytes) in backup {
        sim.write_file(&file, &bytes).unwrap();
    }
    let (mut engine, recovery) = open(&sim).unwrap();
    assert!(recovery.discarded.is_some(), "{recovery:?}");
    assert!(engine.applied.generation.unwrap() < later);
    let kept = crate::catalog::checkpoint::list(&sim, &layout()).unwrap();
    assert!(!kept.contains(&later), "it is ahead of the log");
    assert!(sim.files().contains(&layout().unfit_checkpoint(later)));
    // Other batches take the places of those that are gone.
    fill(&mut engine, 3);
    let first = engine.checkpoint_now().unwrap();
    fill(&mut engine, 4);
    let second = engine.checkpoint_now().unwrap();
    let kept = crate::catalog::checkpoint::list(&sim, &layout()).unwrap();
    assert_eq!(kept, [second, first]);
    let rows = dump(&engine.core.tables.view().unwrap());
    drop(engine);
    sim.remove(&layout().tables()).unwrap();
    let (engine, _) = open(&sim).unwrap();
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn one_checkpoint_alone_trims_nothing() {
    let (sim, mut engine) = lived(18, 5);
    fill(&mut engine, 1);
    engine.checkpoint_now().unwrap();
    assert_eq!(engine.core.log.earliest_offset(), 0);
    fill(&mut engine, 2);
    // Nor does a second one beside one that can not be read any more.
    let first = crate::catalog::checkpoint::list(&sim, &layout()).unwrap()[0];
    sim.flip_bit(layout().checkpoint(first), 8 * 90).unwrap();
    engine.checkpoint_now().unwrap();
    assert_eq!(engine.core.log.earliest_offset(), 0);
    fill(&mut engine, 3);
    engine.checkpoint_now().unwrap();
    assert!(engine.core.log.earliest_offset() > 0);
}

#[test]
fn tables_whose_rows_cannot_be_read_are_made_again() {
    let (sim, rows) = checkpointed(19);
    let (engine, _) = open(&sim).unwrap();
    // As damage that redb does not notice: a row that is none.
    let applied = engine.core.tables.view().unwrap().applied();
    let key = crate::catalog::tables::counter(crate::catalog::tables::Counter::Job);
    let place = (crate::catalog::tables::Table::Counters, key);
    engine.core.tables.write(&[(place, Some(vec![1, 0]))].into(), &applied).unwrap();
    engine.core.tables.persist().unwrap();
    drop(engine);
    let (engine, recovery) = open(&sim).unwrap();
    assert!(recovery.discarded.is_some(), "{recovery:?}");
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn tables_that_do_not_agree_are_not_made_a_checkpoint_of() {
    let (sim, rows) = checkpointed(21);
    let (mut engine, _) = open(&sim).unwrap();
    let before = crate::catalog::checkpoint::list(&sim, &layout()).unwrap();
    // As a damaged page would have it: a name of no database.
    let applied = engine.core.tables.view().unwrap().applied();
    let place = (crate::catalog::tables::Table::DbNames, b"nobody".to_vec());
    let number = rows.iter().find(|((t, _), _)| *t == crate::catalog::tables::Table::Counters);
    let number = number.unwrap().1.clone();
    engine.core.tables.write(&[(place, Some(number))].into(), &applied).unwrap();
    assert!(matches!(engine.checkpoint_now(), Err(AofError::Corrupt(_))));
    assert_eq!(crate::catalog::checkpoint::list(&sim, &layout()).unwrap(), before);
    drop(engine);
    sim.remove(&layout().tables()).unwrap();
    let (mut engine, _) = open(&sim).unwrap();
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
    engine.checkpoint_now().unwrap();
}

#[test]
fn a_disk_that_does_not_answer_costs_no_tables() {
    let (sim, rows) = checkpointed(20);
    let tables = sim.read_file(layout().tables()).unwrap();
    let path = layout().tables();
    sim.fail_when(move |call| {
        (call.op == Op::Open && call.path == path)
            .then_some(crate::io::sim::Fault::Error(std::io::ErrorKind::Other))
    });
    let failed = open(&sim).map(drop);
    assert!(matches!(failed, Err(AofError::Io { .. })), "{failed:?}");
    sim.clear_faults();
    assert!(sim.read_file(layout().tables()).unwrap() == tables);
    let (engine, recovery) = open(&sim).unwrap();
    assert_eq!(recovery.from, TablesFrom::Tables);
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn tables_of_another_log_are_not_taken_for_this_one() {
    let (sim, _) = checkpointed(8);
    let foreign = sim.read_file(layout().tables()).unwrap();
    let (other, rows) = checkpointed(9);
    other.write_file(layout().tables(), &foreign).unwrap();
    let (engine, recovery) = open(&other).unwrap();
    assert!(recovery.discarded.is_some());
    assert_eq!(dump(&engine.core.tables.view().unwrap()), rows);
}

#[test]
fn a_catalog_whose_log_is_gone_is_refused_and_nothing_is_created() {
    let (sim, _) = checkpointed(10);
    let log = layout().log();
    for file in sim.files().into_iter().filter(|f| f.starts_with(&log)) {
        sim.remove(&file).unwrap();
    }
    let files = sim.files();
    let refused = open(&sim).map(drop);
    assert!(matches!(refused, Err(AofError::NotALog { .. })), "{refused:?}");
    assert_eq!(sim.files(), files);
}

#[test]
fn a_catalog_whose_log_is_gone_is_rebuilt_from_the_logs_and_says_what_is_lost() {
    let (sim, _) = checkpointed(13);
    let manager = crate::manager::AofManager::on(
        crate::manager::ManagerConfig::for_one_stream(),
        sim.share(),
        std::sync::Arc::new(sim.clock().clone()),
    )
    .unwrap();
    let events = manager.open(crate::write::AofConfig::new("/data/events")).unwrap();
    events.append(b"record").unwrap();
    events.flush().unwrap();
    let clock = std::sync::Arc::new(sim.clock().clone());
    let rebuild = || crate::catalog::Catalog::rebuild_on(config(), sim.share(), clock.clone());
    assert!(matches!(rebuild(), Err(AofError::Refused { .. })), "the log is there");
    let log = layout().log();
    for file in sim.files().into_iter().filter(|f| f.starts_with(&log)) {
        sim.remove(&file).unwrap();
    }
    let files_of_events = || -> Vec<_> {
        sim.files().into_iter().filter(|f| f.starts_with("/data/events")).collect()
    };
    let before = files_of_events();
    let (catalog, rebuilt) = rebuild().unwrap();
    assert_eq!(rebuilt.adopted.logs, ["events"]);
    assert_eq!(rebuilt.set_aside.len(), 3, "tables and two checkpoints: {rebuilt:?}");
    assert!(rebuilt.lost.contains(&"the audit"));
    let (_, row) = catalog.view().unwrap().database_named("events").unwrap().unwrap();
    assert_eq!(row.stream_id, events.stream_id().as_u64());
    assert_eq!(files_of_events(), before, "adopting wrote into the log");
    drop(catalog);
    open(&sim).unwrap();
}

#[test]
fn two_writers_of_one_root_are_refused() {
    let sim = SimStorage::new();
    let (engine, _) = open(&sim).unwrap();
    assert!(matches!(open(&sim).map(drop), Err(AofError::Locked { .. })));
    drop(engine);
    open(&sim).unwrap();
}

/// A batch that cannot be synced is not told, not shown, and the next ones are refused.
pub(super) fn a_failed_sync_is_not_shown() -> Result<(), String> {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    sim.fail_when(|call| {
        (call.op == Op::MapSync).then_some(crate::io::sim::Fault::Error(std::io::ErrorKind::Other))
    });
    let metric =
        crate::format::operation::OperationBody::RecordMetric { scope: 1, metric: 1, value: 1 };
    if super::driver::one(&mut engine, metric.clone()).is_ok() {
        return Err("told before it was durable".into());
    }
    if engine.core.tables.view().unwrap().metric(1, 1).unwrap().is_some() {
        return Err("shown before it was durable".into());
    }
    sim.clear_faults();
    match super::driver::one(&mut engine, metric) {
        Err(AofError::Poisoned { .. }) => Ok(()),
        other => Err(format!("after a failed sync: {other:?}")),
    }
}

#[test]
fn a_batch_that_cannot_be_synced_is_neither_told_nor_shown() {
    a_failed_sync_is_not_shown().unwrap();
}

/// A disk that loses bits while checkpoints are written.
pub(super) fn a_bad_checkpoint_trims_nothing() -> Result<(), String> {
    let (sim, mut engine) = lived(11, 30);
    let machine = sim.clone();
    let calls = std::sync::atomic::AtomicU32::new(0);
    sim.on_call(move |call| {
        let is_written = call.op == Op::Sync && call.path.to_string_lossy().ends_with(".ckpt.tmp");
        // It is called before the sync and after it.
        let is_over = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2 == 1;
        if is_written && is_over() {
            let _ = machine.flip_bit(call.path, 8 * 70);
        }
    });
    let mut payload = vec![0; 3_000];
    for round in 0..4 {
        // More than a segment, so that there is something to trim.
        for _ in 0..40 {
            payload[0] += 1;
            let body = crate::format::operation::OperationBody::EnqueueJob {
                job_id: 0,
                db_id: 0,
                kind: crate::format::operation::JobKind::Gc,
                payload: payload.clone(),
                not_before_ms: 0,
                attempts_max: 1,
            };
            if let Ok(crate::format::operation::OperationBody::EnqueueJob { job_id, .. }) =
                super::driver::one(&mut engine, body)
            {
                let done = crate::format::operation::OperationBody::CompleteJob {
                    job_id,
                    run: 0,
                    outcome: crate::format::operation::JobOutcome::Done,
                    message: String::new(),
                    retry_at_ms: 0,
                };
                super::driver::one(&mut engine, done).map_err(|e| format!("round {round}: {e}"))?;
            }
        }
        let _ = engine.checkpoint_now();
    }
    let rows = dump(&engine.core.tables.view().unwrap());
    drop(engine);
    sim.on_call(|_| {});
    sim.remove(&layout().tables()).unwrap();
    let (engine, _) = open(&sim).map_err(|e| format!("opening: {e}"))?;
    match dump(&engine.core.tables.view().unwrap()) == rows {
        true => Ok(()),
        false => Err("something is lost".into()),
    }
}

#[test]
fn a_checkpoint_that_cannot_be_read_back_trims_nothing() {
    a_bad_checkpoint_trims_nothing().unwrap();
}

#[test]
fn a_closed_catalog_refuses_and_lets_the_next_writer_in() {
    let (sim, _) = checkpointed(12);
    let clock = std::sync::Arc::new(sim.clock().clone());
    let catalog = crate::catalog::Catalog::open_on(config(), sim.share(), clock.clone()).unwrap();
    let view = catalog.view().unwrap();
    catalog.record_metric(1, 1, 1).unwrap().wait().unwrap();
    catalog.close().unwrap();
    catalog.close().unwrap();
    assert!(matches!(catalog.view(), Err(AofError::Closed)));
    let late = catalog.record_metric(1, 1, 1).and_then(crate::catalog::Guard::wait);
    assert!(matches!(late, Err(AofError::Closed)), "{late:?}");
    let (engine, recovery) = open_with(&sim, config()).unwrap();
    assert_eq!(recovery.from, TablesFrom::Tables);
    assert!(engine.core.tables.view().unwrap().metric(1, 1).unwrap().is_some());
    // A view of the old handle reads what it has in memory or gets an error, never what the
    // next writer makes of the file.
    let _ = view.databases();
}
