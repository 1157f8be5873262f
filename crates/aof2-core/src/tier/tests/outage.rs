//! An object store that comes and goes, in simulated time: it is asked little while it is
//! away, and every log goes on as soon as it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cold_plan::Machine;
use crate::object::sim::BucketFault;
use crate::object::{ColdConfig, ObjectErrorKind, ObjectOp};
use crate::tier::activation::Priority;
use crate::tier::config::TierConfig;
use crate::tier::task::{Lane, Task};

const LOGS: [&str; 4] = ["a", "b", "c", "d"];
const PROBE_MS: u64 = 1_000;

/// The store and its limits as they are by default, but for pauses within one operation,
/// which pass in real time.
fn defaults(config: &mut TierConfig) {
    let cold = ColdConfig::new("s3://bucket/logs");
    assert_eq!(cold.probe_ms, PROBE_MS);
    config.cold = Some(ColdConfig { backoff_ms: 1, backoff_ms_max: 1, ..cold });
    config.retry_ms = TierConfig::default().retry_ms;
    config.retry_ms_max = TierConfig::default().retry_ms_max;
}

/// The same with pauses after a failure that nobody would live to see the end of.
fn no_second_try(config: &mut TierConfig) {
    defaults(config);
    config.retry_ms = 3_600_000;
    config.retry_ms_max = 3_600_000;
}

fn go_away(machine: &Machine) {
    machine.bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
}

/// Does for so long what a manager's task for the object store does.
fn live(machine: &Machine, ms: u64) {
    let coordinator = &machine.coordinator;
    let end_ms = coordinator.now_ms() + ms;
    loop {
        let due = coordinator.due(Lane::Cold);
        let left_ms = end_ms.saturating_sub(coordinator.now_ms());
        if due.jobs.is_empty() && left_ms == 0 {
            return;
        }
        if due.jobs.is_empty() {
            let pause_ms = due.pause.map_or(left_ms, |pause| pause.as_millis() as u64);
            machine.sim.clock().advance_ms(pause_ms.min(left_ms));
        }
        due.jobs.into_iter().take(coordinator.at_once(Lane::Cold)).for_each(|job| job.run());
    }
}

/// Segments of each log in the bucket.
fn stored(machine: &Machine) -> [usize; 4] {
    [0, 1, 2, 3].map(|at| machine.stored(at))
}

#[test]
fn a_store_that_is_back_gets_the_segments_of_every_log_at_once() {
    let machine = Machine::new(&LOGS, no_second_try);
    live(&machine, 1_000);
    machine.seal_segments(3);
    go_away(&machine);
    let before = machine.bucket.calls();
    let away_ms = 5 * 60_000;
    live(&machine, away_ms);
    let asked = machine.bucket.calls() - before;
    assert!(asked <= 20 + away_ms / PROBE_MS, "{asked} requests to a store that is down");
    assert_eq!(stored(&machine), [0; 4]);
    machine.bucket.clear_faults();
    live(&machine, PROBE_MS);
    assert_eq!(stored(&machine), [3; 4]);
}

/// Four busy logs, and a store that is away for one to four of every ten seconds.
#[test]
fn archiving_keeps_up_though_the_store_comes_and_goes() {
    let machine = Machine::new(&LOGS, no_second_try);
    let mut sealed = 0;
    for second in 0..200_u64 {
        let (round, moment) = (second / 10, second % 10);
        let away = 3..4 + round % 4;
        if moment == away.start {
            go_away(&machine);
        }
        if moment == away.end {
            machine.bucket.clear_faults();
        }
        machine.seal_segments(1);
        sealed += 1;
        live(&machine, 1_000);
        if !away.contains(&moment) {
            assert_eq!(stored(&machine), [sealed; 4], "after second {second}");
        }
    }
}

/// A refusal of one log's objects, and a store that fails with another's, are not held
/// against the other logs, and are tried less and less often.
#[test]
fn what_concerns_an_object_has_pauses_of_its_own() {
    let machine = Machine::new(&LOGS, defaults);
    live(&machine, 1_000);
    machine.seal_segments(2);
    let ids = [0, 1].map(|at| machine.streams[at].0.store().stream_id().to_string());
    let tries = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
    let counted = tries.clone();
    machine.bucket.fail_when(move |call| {
        let at = ids.iter().position(|id| call.key.contains(id))?;
        if call.op != ObjectOp::Put || !call.key.ends_with(".zst") {
            return None;
        }
        counted[at].fetch_add(1, Ordering::Relaxed);
        let kinds = [ObjectErrorKind::Denied, ObjectErrorKind::Unavailable];
        Some(BucketFault::Before(kinds[at]))
    });
    live(&machine, 0);
    assert_eq!(stored(&machine), [0, 0, 2, 2]);
    live(&machine, 5 * 60_000);
    let [refused, failed] = tries.map(|tries| tries.load(Ordering::Relaxed));
    // Pauses that double from half a second to a minute, or to ten seconds where nobody
    // else writes and the store may be to blame, which is tried six times each time.
    assert!((5..=13).contains(&refused) && (30..=240).contains(&failed), "{refused}, {failed}");
    let error = |at: usize| machine.streams[at].1.status().cold.unwrap().error;
    assert!(error(0).is_some_and(|told| told.contains("access denied")));
    assert!(error(1).is_some_and(|told| told.contains("the store is unavailable")));
    assert_eq!((error(2), machine.coordinator.cold().unwrap().outage()), (None, None));
    machine.bucket.clear_faults();
    live(&machine, TierConfig::default().retry_ms_max);
    assert_eq!(stored(&machine), [2; 4]);
}

/// A store that answers and cannot write, as some do while they start.
#[test]
fn a_store_that_can_write_again_is_written_to_soon() {
    let machine = Machine::new(&LOGS, no_second_try);
    live(&machine, 1_000);
    machine.seal_segments(2);
    machine.bucket.fail_when(|call| {
        let fault = BucketFault::Before(ObjectErrorKind::Unavailable);
        (call.op == ObjectOp::Put).then_some(fault)
    });
    live(&machine, 10 * 60_000);
    assert_eq!(stored(&machine), [0; 4]);
    machine.bucket.clear_faults();
    live(&machine, 10_000);
    assert_eq!(stored(&machine), [2; 4]);
}

#[test]
fn an_outage_is_told_by_every_log_until_it_is_over() {
    let machine = Machine::new(&LOGS, defaults);
    live(&machine, 1_000);
    let since_ms = machine.coordinator.now_ms();
    go_away(&machine);
    // One log has something to archive, another one nothing.
    machine.seal_one(0);
    machine.coordinator.run_until_idle();
    live(&machine, 90_000);
    let cold = |at: usize| machine.streams[at].1.status().cold.unwrap();
    for status in [cold(0), cold(3)] {
        let error = status.error.unwrap();
        for part in ["has not answered for 90 s", "every 1000 ms", "put of \"logs/"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(status.requests.down_since_ms, Some(since_ms));
        assert_eq!(status.requests.outages, 1);
    }
    let text = machine.streams[3].1.status().to_prometheus("d");
    assert!(text.contains("aof2_tier_object_breaker_open{stream=\"d\"} 1\n"), "{text}");
    assert_eq!(machine.streams[0].1.status().metrics.cold_failures, 0);
    machine.bucket.clear_faults();
    live(&machine, PROBE_MS);
    let status = cold(3);
    assert_eq!((status.error, status.requests.down_since_ms), (None, None));
    assert_eq!(cold(0).error, None);
}

/// Nobody needs it: nobody asks whether it is back.
#[test]
fn a_store_that_is_down_and_not_needed_is_not_asked() {
    let machine = Machine::new(&LOGS, defaults);
    live(&machine, 1_000);
    go_away(&machine);
    assert!(machine.coordinator.cold().unwrap().len_of("logs/x").is_err());
    let before = machine.bucket.calls();
    live(&machine, 3_600_000);
    assert_eq!(machine.bucket.calls(), before);
}

/// A segment that could not be fetched during an outage comes back when it is asked for
/// after it.
#[test]
fn what_could_not_be_fetched_is_fetched_when_the_store_is_back() {
    let machine = Machine::new(&["a"], |config| {
        no_second_try(config);
        config.warm_bytes = Some(1);
    });
    live(&machine, 1_000);
    machine.seal_segments(1);
    live(&machine, 1_000);
    let (stream, tiers) = &machine.streams[0];
    let id = stream.store().table().first().unwrap().meta.segment_id;
    tiers.run_now(stream, Task::Evict(id)).unwrap();
    let entry = stream.store().table().first().unwrap();
    assert!(!entry.is_hot() && entry.copies().warm.is_none());
    go_away(&machine);
    for _ in 0..8 {
        tiers.ask(id, Priority::Wanted).unwrap();
        machine.coordinator.run_until_idle();
    }
    machine.bucket.clear_faults();
    machine.sim.clock().advance_ms(PROBE_MS);
    tiers.ask(id, Priority::Wanted).unwrap();
    machine.coordinator.run_until_idle();
    assert!(stream.store().table().first().unwrap().is_hot());
}
