//! Catalogs of older and newer versions, and steps between them.

use std::sync::Arc;

use super::driver::{ROOT, config, dump, lived, one, open};
use crate::catalog::engine::Engine;
use crate::catalog::layout::CatalogLayout;
use crate::catalog::migrate::{self, STEPS, Step};
use crate::catalog::open::open_engine_with;
use crate::catalog::reader::CatalogReader;
use crate::error::{AofError, Result};
use crate::format::operation::OperationBody as B;
use crate::io::Storage;
use crate::io::sim::{CrashOptions, SimStorage};

const LATER: &[Step] = &[STEPS[0], (2, "a later table"), (3, "an even later one")];

fn open_later(sim: &SimStorage) -> Result<Engine> {
    let clock = Arc::new(sim.clock().clone());
    open_engine_with(config(), sim.share(), clock, LATER).map(|(engine, _)| engine)
}

#[test]
fn an_older_catalog_is_brought_up_step_by_step_once() {
    let (sim, engine) = lived(1, 20);
    let before = dump(&engine.core.tables.view().unwrap()).len();
    drop(engine);
    for _ in 0..2 {
        let engine = open_later(&sim).unwrap();
        let view = engine.core.tables.view().unwrap();
        let versions: Vec<u32> = view.migrations().unwrap().iter().map(|(v, _)| *v).collect();
        assert_eq!(versions, [1, 2, 3]);
        assert_eq!(dump(&view).len(), before + 2, "a step was made twice");
    }
}

#[test]
fn steps_may_be_cut_anywhere_and_run_again() {
    for cut in 0..60 {
        let (sim, engine) = lived(2, 3);
        drop(engine);
        sim.crash_after(sim.calls() + cut * 2);
        drop(open_later(&sim));
        let image = sim.take_crash().unwrap_or_else(|| sim.image());
        let sim = image.materialize(cut, &CrashOptions::default());
        let engine = open_later(&sim).unwrap();
        assert_eq!(engine.core.tables.view().unwrap().tables_version().unwrap(), 3, "{cut}");
        super::driver::check(&engine).unwrap();
    }
}

#[test]
fn a_newer_catalog_is_refused_clearly_by_writers_and_readers() {
    let (sim, engine) = lived(3, 5);
    drop(engine);
    // A newer program: it does not refuse its own version.
    let mut engine = open(&sim).unwrap().0;
    one(&mut engine, B::Migrate { version: 2, name: "later".into() }).unwrap();
    drop(engine);
    let refused = open(&sim).map(drop);
    let is_clear =
        |error: &AofError| matches!(error, AofError::NewerVersion { found: 2, known: 1, .. });
    assert!(refused.as_ref().is_err_and(is_clear), "{refused:?}");
    let refused = CatalogReader::open_on(ROOT, sim.share(), Arc::new(sim.clock().clone()));
    assert!(refused.as_ref().is_err_and(is_clear), "{refused:?}");
}

#[test]
fn an_operation_of_an_unknown_type_stops_the_replay_clearly() {
    let (sim, engine) = lived(4, 5);
    let log = engine.core.log.clone();
    // As a newer program would write it.
    let batch = crate::format::operation::OperationBatch {
        generation: engine.applied.next_generation(),
        previous_crc64: engine.applied.batch_crc64,
        operations: vec![crate::format::operation::arbitrary::operation(
            6,
            &mut fastrand::Rng::with_seed(1),
        )],
    };
    let mut batch = batch;
    batch.operations[0].id =
        crate::format::operation::OperationId { generation: batch.generation, index: 0 };
    let (mut bytes, _) = batch.encode();
    bytes[48 + 6] = 99;
    let reseal = |bytes: &mut [u8], start: usize, header: usize| {
        let mut rest = bytes[start..start + header - 8].to_vec();
        rest.extend_from_slice(&bytes[start + header..]);
        let crc = crate::format::crc64(&rest).to_le_bytes();
        bytes[start + header - 8..start + header].copy_from_slice(&crc);
    };
    reseal(&mut bytes, 48, 88);
    reseal(&mut bytes, 0, 48);
    let id = log.append(&bytes).unwrap();
    log.flush_until(id, None).unwrap();
    drop((engine, log));
    let refused = open(&sim).map(drop);
    assert!(matches!(refused, Err(AofError::NewerVersion { found: 99, .. })), "{refused:?}");
}

#[test]
fn a_newer_checkpoint_is_refused_and_not_passed_over() {
    let (sim, mut engine) = lived(5, 5);
    let generation = engine.checkpoint_now().unwrap();
    drop(engine);
    let layout = CatalogLayout::new(std::path::Path::new(ROOT));
    sim.remove(&layout.tables()).unwrap();
    let path = layout.checkpoint(generation);
    let mut bytes = sim.read_file(&path).unwrap();
    bytes[8] = 2;
    sim.write_file(&path, &bytes).unwrap();
    let refused = open(&sim).map(drop);
    assert!(matches!(refused, Err(AofError::NewerVersion { .. })), "{refused:?}");
}

/// A version that is left out is refused.
pub(super) fn versions_are_not_skipped() -> std::result::Result<(), String> {
    let sim = SimStorage::new();
    let (mut engine, _) = open(&sim).unwrap();
    match one(&mut engine, B::Migrate { version: 3, name: "too far".into() }) {
        Err(AofError::Refused { .. }) => Ok(()),
        other => Err(format!("a version was left out: {other:?}")),
    }
}

#[test]
fn a_version_that_leaves_another_out_is_refused() {
    versions_are_not_skipped().unwrap();
    let missing = migrate::STEPS.windows(2).any(|pair| pair[1].0 != pair[0].0 + 1);
    assert!(!missing && STEPS.last().unwrap().0 == migrate::TABLES_VERSION);
}
