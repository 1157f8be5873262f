//! Errors of the storage at every call: a typed error, nothing acknowledged lost,
//! reads go on.

use std::sync::Arc;

use fastrand::Rng;

use super::driver::{Driver, config, open};
use crate::error::{AofError, BackpressureKind};
use crate::format::{SegmentFormat, SegmentId};
use crate::io::Storage;
use crate::io::sim::{CrashOptions, Fault, Op, SimStorage};
use crate::read::Source;
use crate::read::{Scan, ScanOptions};
use crate::store::Change;
use crate::write::retention::RetentionPolicy;
use crate::write::{AppendOptions, Stream};

/// A history with one failing call: whatever the call, the log either goes on or
/// refuses clearly, and after reopening every promise holds, on this machine and
/// after a power cut.
pub(super) fn survive_one_fault(seed: u64) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let mut driver = Driver::new(seed, SegmentFormat::Full);
    let fault = match rng.u64(..3) {
        0 => Fault::Os(5),
        1 => Fault::Os(28),
        _ => Fault::Short,
    };
    driver.sim.fail_at(30 + rng.u64(..300), fault);
    let outcome = driver.run(120);
    if let Err(message) = &outcome {
        let typed = ["failed (", "refused until", "injected", "No space", "os error"];
        if !typed.iter().any(|t| message.contains(t)) {
            return Err(format!("unexpected: {message}"));
        }
    }
    driver.sim.clear_faults();
    let image = driver.sim.image();
    let model = driver.model.clone();
    drop(driver);
    // The process restarts, then the power goes.
    let mut restarted =
        Driver::resume(image.after_kill(), model.clone(), seed, SegmentFormat::Full);
    restarted.open_and_check().map_err(|e| format!("after restart: {e}"))?;
    let promised = restarted.model.clone();
    let cut = restarted.sim.image();
    drop(restarted);
    for choice in 0..6 {
        let sim = cut.materialize(choice, &CrashOptions::default());
        let mut after = Driver::resume(sim, promised.clone(), seed, SegmentFormat::Full);
        after.open_and_check().map_err(|e| format!("after restart and cut {choice}: {e}"))?;
    }
    Ok(())
}

#[test]
fn one_failing_call_anywhere_loses_nothing_acknowledged() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let first = setting("AOF2_CRASH_SEED").unwrap_or(0);
    for seed in first..first + setting("AOF2_FAULT_RUNS").unwrap_or(400) {
        survive_one_fault(seed).map_err(|e| format!("seed {seed}: {e}")).unwrap();
    }
}

/// A failed sync must poison: the next one may claim success without having written.
pub(super) fn failed_sync_poisons() -> Result<(), String> {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).map_err(|e| e.to_string())?;
    let append = |payload: &[u8]| stream.append_now(payload, &AppendOptions::default());
    append(b"durable").map_err(|e| e.to_string())?;
    stream.flush_until(stream.appended.position(), None).map_err(|e| e.to_string())?;
    append(b"lost").map_err(|e| e.to_string())?;
    sim.fail_when(|call| (call.op == Op::MapSync).then_some(Fault::Os(5)));
    let flushed = stream.flush_until(stream.appended.position(), None);
    if !matches!(flushed, Err(AofError::Poisoned { .. })) {
        return Err(format!("flush said {flushed:?}"));
    }
    sim.clear_faults();
    for again in [
        stream.flush_until(stream.appended.position(), None).err(),
        append(b"more").err(),
        stream.flush_in_background().err(),
    ] {
        if !matches!(again, Some(AofError::Poisoned { .. })) {
            return Err(format!("a poisoned log answered {again:?}"));
        }
    }
    let scan = Scan::new(Arc::clone(&stream) as Arc<dyn Source>, ScanOptions::default());
    let read = scan.map_err(|e| e.to_string())?.count();
    if read != 1 {
        return Err(format!("a poisoned log shows {read} durable records"));
    }
    Ok(())
}

#[test]
fn a_failed_sync_refuses_everything_but_reads() {
    failed_sync_poisons().unwrap();
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_written_again_by_reopening() {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).unwrap();
    stream.append_now(b"in the cache only", &AppendOptions::default()).unwrap();
    sim.fail_when(|call| (call.op == Op::MapSync).then_some(Fault::Os(5)));
    stream.flush_until(stream.appended.position(), None).unwrap_err();
    sim.clear_faults();
    drop(stream);
    let sim = sim.image().after_kill();
    let reopened = open(&sim, SegmentFormat::Full).unwrap();
    let promised = reopened.durable.count();
    drop(reopened);
    let sim = sim.image().materialize(0, &CrashOptions::default());
    let after_cut = open(&sim, SegmentFormat::Full).unwrap();
    assert!(after_cut.durable.count() >= promised, "{promised} records were called durable");
}

#[test]
fn a_full_disk_refuses_the_append_and_freeing_space_heals_it() {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).unwrap();
    sim.set_capacity_len(Some(sim.used_len() + 8192));
    let payload = vec![9u8; 20_000];
    let mut appended = 0u64;
    let error = loop {
        match stream.append_now(&payload, &AppendOptions::default()) {
            Ok(_) => appended += 1,
            Err(AofError::WouldBlock(_)) => {
                let _ = stream.prepare_step();
                let _ = stream.finalize_step();
            }
            Err(e) => break e,
        }
        assert!(appended < 100, "the disk never got full");
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(appended > 0);
    stream.flush_until(stream.appended.position(), None).unwrap();
    sim.set_capacity_len(None);
    let more = loop {
        match stream.append_now(&payload, &AppendOptions::default()) {
            Err(AofError::WouldBlock(_)) => {
                stream.finalize_step().unwrap();
                stream.prepare_step().unwrap();
            }
            other => break other.unwrap(),
        }
    };
    assert_eq!(more.offset, appended);
}

#[test]
fn too_much_unflushed_data_blocks_until_a_flush_and_a_huge_record_still_passes() {
    let sim = SimStorage::new();
    let mut config = config(SegmentFormat::Full).segment_bytes(1 << 20);
    config.flush.max_unflushed_bytes = 40_000;
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let stream = Stream::open(config, storage, Arc::new(sim.clock().clone())).unwrap();
    let append = |len: usize| stream.append_now(&vec![1; len], &AppendOptions::default());
    append(30_000).unwrap();
    let refused = append(30_000);
    assert!(matches!(refused, Err(AofError::WouldBlock(BackpressureKind::Flush))), "{refused:?}");
    assert_eq!(stream.appended.count(), 1);
    stream.flush_in_background().unwrap();
    append(200_000).unwrap();
    append(10).unwrap_err();
}

#[test]
fn a_second_writer_is_refused_with_the_holder() {
    let sim = SimStorage::new();
    let first = open(&sim, SegmentFormat::Full).unwrap();
    assert!(matches!(open(&sim, SegmentFormat::Full), Err(AofError::Locked { pid: 1, .. })));
    first.close().unwrap();
    drop(first);
    open(&sim, SegmentFormat::Full).unwrap();
}

/// A compressed file could not be opened once, so its segment was known by its other copy
/// only. When that segment was dropped, the file stayed, and the next opening took it for the
/// segment and all those behind it for missing.
#[test]
fn a_copy_that_could_not_be_opened_goes_with_its_segment() {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).unwrap();
    for payload in [b"first", b"later", b"newer"] {
        stream.append_now(payload, &AppendOptions::default()).unwrap();
        stream.start_seal(false).unwrap();
        stream.prepare_step().unwrap();
        stream.finalize_step().unwrap();
    }
    stream.store().apply(&Change::Compress(SegmentId::from_u64(0))).unwrap();
    stream.close().unwrap();
    let is_compressed = |path: &std::path::Path| path.extension().is_some_and(|e| e == "zst");
    sim.fail_when(move |call| {
        (call.op == Op::Open && is_compressed(call.path)).then_some(Fault::Os(5))
    });
    let stream = open(&sim, SegmentFormat::Full).unwrap();
    sim.clear_faults();
    let policy = RetentionPolicy { before_offset: Some(2), ..Default::default() };
    assert_eq!(stream.apply_retention(&policy).unwrap().segments.len(), 2);
    stream.close().unwrap();
    assert!(!sim.files().iter().any(|path| is_compressed(path)), "{:?}", sim.files());
    let stream = open(&sim, SegmentFormat::Full).unwrap();
    assert_eq!(stream.store().table().earliest(), 2);
    assert!(stream.store().table().snapshot().iter().all(|entry| entry.damage.is_none()));
}
