//! Applying the log gives the same tables from anywhere, as often as one likes, and on any
//! machine.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use proptest::prelude::*;

use super::driver::{Rows, batches, dump, fold, lived};
use crate::catalog::checkpoint;
use crate::catalog::database::{Applied, Tables};
use crate::catalog::layout::CatalogLayout;
use crate::catalog::replay::apply_batch;
use crate::catalog::state::State;
use crate::io::sim::SimStorage;

fn tables_of(rows: &Rows, applied: &Applied) -> Tables {
    let tables = Tables::in_memory(applied.stream_id).unwrap();
    let rows: Vec<_> =
        rows.iter().map(|((table, key), value)| (*table, key.clone(), value.clone())).collect();
    tables.load(&rows).unwrap();
    tables.note(applied).unwrap();
    tables
}

/// From an empty catalog, from a checkpoint after any batch, and twice: equal tables.
pub(super) fn equal_from_anywhere(seed: u64) -> Result<(), String> {
    let (_sim, engine) = lived(seed, 60);
    let batches = batches(&engine);
    let stream_id = engine.core.log.stream_id().as_u64();
    let mut rng = Rng::with_seed(seed);
    let prefix = 1 + rng.usize(..batches.len());
    let start = rng.usize(..prefix);

    let (mut whole, mut applied) = (Rows::new(), Applied::nothing(stream_id));
    fold(&mut whole, &mut applied, &batches[..prefix]);

    let (mut part, mut part_applied) = (Rows::new(), Applied::nothing(stream_id));
    fold(&mut part, &mut part_applied, &batches[..start]);
    let tables = tables_of(&part, &part_applied);
    let sim: Arc<dyn crate::io::Storage> = Arc::new(SimStorage::new());
    let layout = CatalogLayout::new(Path::new("/elsewhere"));
    if start > 0 {
        let view = tables.view().unwrap();
        checkpoint::write(&*sim, &layout, &view).unwrap();
        let again = Tables::in_memory(stream_id).unwrap();
        let path = layout.checkpoint(start as u64 - 1);
        checkpoint::load(&*sim, &path, &again).unwrap();
        if dump(&again.view().unwrap()) != part {
            return Err("a checkpoint came back as something else".into());
        }
    }
    let mut part = dump(&tables.view().unwrap());
    fold(&mut part, &mut part_applied, &batches[start..prefix]);
    if (&part, part_applied) != (&whole, applied) {
        return Err(format!("tables differ after {prefix} batches from batch {start}"));
    }
    if prefix == batches.len() && whole != dump(&engine.core.tables.view().unwrap()) {
        return Err("what was decided is not what the log adds up to".into());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn replay_from_any_checkpoint_of_any_prefix_gives_equal_tables(seed in any::<u64>()) {
        prop_assert_eq!(equal_from_anywhere(seed), Ok(()));
    }
}

#[test]
fn a_batch_is_applied_once_and_only_behind_the_one_before() {
    let (_sim, engine) = lived(3, 60);
    let batches = batches(&engine);
    let stream_id = engine.core.log.stream_id().as_u64();
    let (mut rows, mut applied) = (Rows::new(), Applied::nothing(stream_id));
    fold(&mut rows, &mut applied, &batches[..5]);
    for batch in [&batches[4], &batches[6]] {
        let refused = apply_batch(&mut State::new(&rows), &applied, batch, Path::new("/"));
        assert!(refused.is_err(), "batch {} behind 4", batch.generation);
    }
    // The right number of another history.
    let mut foreign = batches[5].clone();
    foreign.previous_crc64 ^= 1;
    assert!(apply_batch(&mut State::new(&rows), &applied, &foreign, Path::new("/")).is_err());
}
