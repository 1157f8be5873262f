//! Errors of the storage at every call: a typed error, nothing committed lost.

use fastrand::Rng;

use super::driver::{Driver, OPENING_CALLS, config, open_with, reader, record_one};
use crate::error::AofError;
use crate::io::sim::{CrashOptions, Fault, Op, SimStorage};
use crate::manifest::ManifestConfig;

/// A history with one failing call: whatever the call, the manifest either goes on or
/// refuses clearly, and after reopening every promise holds, on this machine and after a
/// power cut.
pub(super) fn survive_one_fault(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut driver = Driver::new(seed);
    let fault = match rng.u64(..3) {
        0 => Fault::Os(5),
        1 => Fault::Os(28),
        _ => Fault::Short,
    };
    driver.may_have_strays = true;
    driver.open_and_check()?;
    driver.sim.fail_at(driver.sim.calls() + rng.u64(..400), fault);
    for _ in 0..120 {
        // An operation may fail; the next one finds a manifest that goes on, or one that
        // was opened again.
        if let Err(message) = driver.run(1) {
            let typed = ["failed (", "refused until", "injected", "No space", "os error"];
            if !typed.iter().any(|t| message.contains(t)) {
                return Err(format!("unexpected: {message}"));
            }
        }
    }
    driver.sim.clear_faults();
    let image = driver.sim.image();
    driver.manifest = None;
    // The process restarts, then the power goes.
    let mut restarted = driver.resume(image.after_kill(), driver.model.clone(), seed);
    restarted.open_and_check().map_err(|e| format!("after restart: {e}"))?;
    let promised = restarted.model.clone();
    let cut = restarted.sim.image();
    restarted.manifest = None;
    for choice in 0..6 {
        let sim = cut.materialize(choice, &CrashOptions::default());
        let mut after = driver.resume(sim, promised.clone(), seed);
        after.open_and_check().map_err(|e| format!("after restart and cut {choice}: {e}"))?;
    }
    Ok(())
}

#[test]
fn one_failing_call_anywhere_loses_nothing_committed() {
    let runs = std::env::var("AOF2_FAULT_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    for seed in 0..runs {
        survive_one_fault(seed).map_err(|e| format!("seed {seed}: {e}")).unwrap();
    }
}

#[test]
fn a_failing_call_while_it_is_created_is_an_error_and_the_next_try_succeeds() {
    for call in 0.. {
        let sim = SimStorage::new();
        sim.fail_at(call, Fault::Os(5));
        match open_with(&sim, config(0)) {
            Ok(_) if sim.calls() <= call => break,
            Ok(_) => {}
            Err(error) => assert!(matches!(error, AofError::Io { .. }), "call {call}: {error}"),
        }
        sim.clear_faults();
        let manifest = open_with(&sim, config(0)).unwrap();
        record_one(&manifest).unwrap();
        manifest.commit().unwrap();
        assert_eq!(manifest.committed(), 1);
    }
}

/// A failed sync must poison: the next one may claim success without having written.
pub(super) fn failed_sync_poisons() -> Result<(), String> {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, ManifestConfig::local()).map_err(|e| e.to_string())?;
    let one = |manifest| record_one(manifest).map_err(|e| e.to_string());
    one(&manifest)?;
    manifest.commit().map_err(|e| e.to_string())?;
    one(&manifest)?;
    sim.fail_when(|call| (call.op == Op::Sync).then_some(Fault::Os(5)));
    let committed = manifest.commit();
    if !matches!(committed, Err(AofError::Poisoned { .. })) {
        return Err(format!("commit said {committed:?}"));
    }
    sim.clear_faults();
    for again in [
        manifest.commit(),
        record_one(&manifest),
        manifest.maintain().map(drop),
        manifest.rotate(),
        manifest.snapshot().map(drop),
        manifest.wait_committed(1, None),
        manifest.close(),
    ] {
        if !matches!(again, Err(AofError::Poisoned { .. })) {
            return Err(format!("a poisoned manifest answered {again:?}"));
        }
    }
    if manifest.committed() != 1 || !manifest.metrics().poisoned {
        return Err("a poisoned manifest does not look like one".into());
    }
    // Who owns it may go on without it, and look at what it knew.
    if manifest.with_index(|index| index.next_record()) != 2 {
        return Err("the index of a poisoned manifest is gone".into());
    }
    Ok(())
}

#[test]
fn a_failed_sync_refuses_everything_but_looking() {
    failed_sync_poisons().unwrap();
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_written_again_by_reopening() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, ManifestConfig::local()).unwrap();
    record_one(&manifest).unwrap();
    manifest.commit().unwrap();
    record_one(&manifest).unwrap();
    // The header is written and its sync fails: visible, and not on disk.
    let last = sim.calls() + OPENING_CALLS + 4;
    sim.fail_at(last, Fault::Os(5));
    manifest.commit().unwrap_err();
    sim.clear_faults();
    drop(manifest);
    let sim = sim.image().after_kill();
    let promised = open_with(&sim, ManifestConfig::local()).unwrap().committed();
    assert_eq!(promised, 2, "the page cache shows it");
    let sim = sim.image().materialize(0, &CrashOptions::default());
    assert_eq!(open_with(&sim, ManifestConfig::local()).unwrap().committed(), promised);
}

#[test]
fn a_full_disk_keeps_the_records_and_freeing_space_heals_it() {
    let sim = SimStorage::new();
    let config = ManifestConfig { chunk_bytes: 16 << 10, ..ManifestConfig::local() };
    let manifest = open_with(&sim, config.clone()).unwrap();
    record_one(&manifest).unwrap();
    manifest.commit().unwrap();
    sim.set_capacity_len(Some(sim.used_len()));
    let mut recorded = 1;
    let error = loop {
        for _ in 0..50 {
            record_one(&manifest).unwrap();
            recorded += 1;
        }
        match manifest.commit() {
            Ok(()) => assert!(recorded < 10_000, "the disk never got full"),
            Err(error) => break error,
        }
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(manifest.poison().is_none());
    assert!(manifest.committed() > 1, "what fitted is committed");
    sim.set_capacity_len(None);
    manifest.commit().unwrap();
    assert_eq!(manifest.committed(), recorded);
    drop(manifest);
    assert_eq!(open_with(&sim, config).unwrap().committed(), recorded);
    let mut cursor = reader(&sim).cursor().unwrap();
    let mut ordinals = Vec::new();
    while let Some(placed) = cursor.next_record().unwrap() {
        ordinals.push(placed.ordinal);
    }
    assert!(ordinals.iter().copied().eq(0..recorded));
}

#[test]
fn a_second_writer_is_refused_with_the_holder() {
    let sim = SimStorage::new();
    let first = open_with(&sim, config(0)).unwrap();
    assert!(matches!(open_with(&sim, config(0)), Err(AofError::Locked { pid: 1, .. })));
    first.close().unwrap();
    drop(first);
    open_with(&sim, config(0)).unwrap();
}
