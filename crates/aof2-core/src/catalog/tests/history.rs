//! Rows as plain values, earlier states, and what differs between two.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::driver::{ROOT, Rows, batches, dump, fold, lived, one, open};
use crate::catalog::database::Applied;
use crate::catalog::engine::Engine;
use crate::catalog::history::ColumnKind;
use crate::catalog::reader::CatalogReader;
use crate::catalog::tables::Table;
use crate::catalog::view::View;
use crate::error::AofError;
use crate::format::operation::{JobKind, JobOutcome, OperationBody as B, Value};
use crate::io::sim::SimStorage;

fn reader(sim: &SimStorage) -> CatalogReader {
    let clock = Arc::new(sim.clock().clone());
    CatalogReader::open_on(ROOT, Arc::new(sim.clone()), clock).unwrap()
}

fn rows(view: &View, table: Table) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    view.each_row(table, |row| {
        rows.push(row);
        Ok(true)
    })
    .unwrap();
    rows
}

fn fits(value: &Value, kind: ColumnKind) -> bool {
    match kind {
        ColumnKind::Number | ColumnKind::Time => matches!(value, Value::Number(_)),
        ColumnKind::Hash => matches!(value, Value::Hash(_)),
        ColumnKind::Text | ColumnKind::Json => matches!(value, Value::Text(_)),
        ColumnKind::Bytes => matches!(value, Value::Bytes(_)),
        ColumnKind::Numbers => {
            matches!(value, Value::List(items) if items.iter().all(|i| fits(i, ColumnKind::Number)))
        }
    }
}

#[test]
fn every_row_of_every_table_has_a_value_of_its_kind_for_each_column() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let (_sim, engine) = lived(seed, 60);
        let view = engine.core.tables.view().unwrap();
        for table in Table::ALL {
            let columns = table.columns();
            for row in rows(&view, table) {
                assert_eq!(row.len(), columns.len(), "{}", table.name());
                for (value, column) in row.iter().zip(columns) {
                    let is_null = column.is_nullable && *value == Value::None;
                    let name = (table.name(), column.name);
                    assert!(is_null || fits(value, column.kind), "{name:?}: {value:?}");
                }
                seen.insert(table);
            }
        }
    }
    assert_eq!(seen.len(), Table::ALL.len(), "only rows of {seen:?} were seen");
}

#[test]
fn the_state_after_any_batch_is_what_the_batches_up_to_it_add_up_to() {
    for seed in 0..6 {
        let (sim, mut engine) = lived(seed, 40);
        let middle = engine.checkpoint_now().unwrap();
        one(&mut engine, B::RecordMetric { scope: 1, metric: 1, value: 1 }).unwrap();
        let reader = reader(&sim);
        let mut expected = Rows::new();
        let mut applied = Applied::nothing(engine.core.log.stream_id().as_u64());
        for batch in batches(&engine) {
            let generation = batch.generation;
            fold(&mut expected, &mut applied, &[batch]);
            let view = reader.view_at(generation).unwrap();
            assert_eq!(view.generation(), generation, "seed {seed}, checkpoint {middle}");
            assert_eq!(dump(&view), expected, "seed {seed}, generation {generation}");
        }
        let end = applied.generation.unwrap() + 1;
        let past = reader.view_at(end).unwrap_err();
        assert!(matches!(past, AofError::PastEnd { end: e, .. } if e == end), "{past:?}");
    }
}

/// More than a segment of the operation log.
fn fill(engine: &mut Engine) {
    for _ in 0..30 {
        let body = B::EnqueueJob {
            job_id: 0,
            db_id: 0,
            kind: JobKind::Gc,
            payload: vec![7; 3_000],
            not_before_ms: 0,
            attempts_max: 1,
        };
        let B::EnqueueJob { job_id, .. } = one(engine, body).unwrap() else { panic!("a job") };
        let message = String::new();
        let (run, outcome, retry_at_ms) = (0, JobOutcome::Done, 0);
        one(engine, B::CompleteJob { job_id, run, outcome, message, retry_at_ms }).unwrap();
    }
}

#[test]
fn a_state_that_was_trimmed_is_refused_with_the_first_one_that_is_there() {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    for _ in 0..4 {
        fill(&mut engine);
        engine.checkpoint_now().unwrap();
    }
    assert!(engine.core.log.earliest_offset() > 0, "nothing was trimmed");
    let reader = reader(&sim);
    let AofError::Trimmed { earliest } = reader.view_at(0).unwrap_err() else { panic!("trimmed") };
    assert_eq!(reader.view_at(earliest).unwrap().generation(), earliest);
    let before = reader.view_at(earliest - 1).unwrap_err();
    assert!(matches!(before, AofError::Trimmed { earliest: e } if e == earliest), "{before:?}");
}

#[test]
fn a_view_of_a_reader_stays_when_a_refresh_takes_other_tables() {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    let reader = reader(&sim);
    let old = reader.view().unwrap();
    let before = dump(&old);
    for _ in 0..4 {
        fill(&mut engine);
        engine.checkpoint_now().unwrap();
    }
    assert!(engine.core.log.earliest_offset() > old.generation() + 1, "it has to start again");
    reader.refresh().unwrap();
    assert_eq!(dump(&old), before);
    assert_ne!(dump(&reader.view().unwrap()), before);
}

#[test]
fn the_changes_between_two_states_turn_one_into_the_other() {
    let (sim, engine) = lived(3, 40);
    let reader = reader(&sim);
    let last = engine.applied.generation.unwrap();
    let states = [0, last / 3, last / 2, last].map(|at| reader.view_at(at).unwrap());
    for earlier in &states {
        for later in &states {
            for table in Table::ALL {
                let mut turned = rows(earlier, table);
                for change in earlier.changes_to(later, table).unwrap() {
                    assert_ne!(change.before, change.after);
                    if let Some(before) = change.before {
                        let at = turned.iter().position(|row| *row == before).unwrap();
                        turned.remove(at);
                    }
                    turned.extend(change.after);
                }
                let mut expected = rows(later, table);
                for rows in [&mut turned, &mut expected] {
                    rows.sort_by_key(|row| format!("{row:?}"));
                }
                assert_eq!(turned, expected, "{}", table.name());
            }
        }
    }
}

#[test]
fn an_operation_log_is_one_history_from_its_first_batch_or_from_where_it_was_trimmed() {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    fill(&mut engine);
    let whole = reader(&sim).verify_operations().unwrap();
    assert_eq!(whole.earliest_generation, 0);
    assert_eq!(whole.next_generation, engine.applied.generation.unwrap() + 1);
    assert!(whole.operations >= whole.next_generation && whole.bytes > 0, "{whole:?}");
    for _ in 0..3 {
        engine.checkpoint_now().unwrap();
        fill(&mut engine);
    }
    let trimmed = reader(&sim).verify_operations().unwrap();
    assert!(trimmed.earliest_generation > 0, "{trimmed:?}");
    assert_eq!(trimmed.next_generation, engine.applied.generation.unwrap() + 1);
}

#[test]
fn a_key_finds_its_rows_and_no_others() {
    let (_sim, engine) = lived(5, 60);
    let view = engine.core.tables.view().unwrap();
    let number = |value: &Value| match value {
        Value::Number(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    for (table, len) in [
        (Table::Db, 1),
        (Table::ChunkCatalog, 2),
        (Table::SnapshotIndex, 2),
        (Table::WalState, 2),
        (Table::JobQueue, 1),
        (Table::Metrics, 2),
    ] {
        let all = rows(&view, table);
        assert!(!all.is_empty(), "{}", table.name());
        for row in &all {
            let key: Vec<u64> = row[..len].iter().map(number).collect();
            assert_eq!(view.rows_with_key(table, &key).unwrap(), std::slice::from_ref(row));
            let of_first: Vec<_> = all.iter().filter(|r| r[0] == row[0]).cloned().collect();
            assert_eq!(view.rows_with_key(table, &key[..1]).unwrap(), of_first);
        }
    }
    assert!(view.rows_with_key(Table::Db, &[1 << 32]).unwrap().is_empty());
    let wrong = view.rows_with_key(Table::Db, &[1, 2]).unwrap_err();
    assert!(matches!(wrong, AofError::Refused { .. }), "{wrong:?}");
}
