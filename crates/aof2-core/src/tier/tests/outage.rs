//! An object store that comes and goes, in simulated time: it is asked little while it is
//! away, and every log goes on as soon as it is back.


use super::cold_plan::Machine;
use crate::io::object::{ColdConfig, ObjectErrorKind};
use crate::io::sim::BucketFault;
use crate::tier::{Lane, TierConfig};

const LOGS: [&str; 4] = ["a", "b", "c", "d"];

/// The store and its limits as they are by default, but for pauses within one operation,
/// which pass in real time.
fn defaults(config: &mut TierConfig) {
    let cold = ColdConfig::new("s3://bucket/logs");
    config.cold = Some(ColdConfig { backoff_ms: 1, backoff_ms_max: 1, ..cold });
    config.retry_ms = TierConfig::default().retry_ms;
    config.retry_ms_max = TierConfig::default().retry_ms_max;
}

fn go_away(machine: &Machine) {
    machine.bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
}

/// Does for so long what a manager's task for the object store does.
fn live(machine: &Machine, ms: u64) {
    let coordinator = &machine.coordinator;
    let end_ms = coordinator.now_ms() + ms;
    loop {
        let look = coordinator.look(Lane::Cold);
        let left_ms = end_ms.saturating_sub(coordinator.now_ms());
        if look.jobs.is_empty() {
            let pause_ms = look.pause.map_or(left_ms, |pause| pause.as_millis() as u64);
            if left_ms == 0 {
                return;
            }
            machine.sim.clock().advance_ms(pause_ms.min(left_ms));
            continue;
        }
        look.jobs.into_iter().take(coordinator.at_once(Lane::Cold)).for_each(|work| work.run());
    }
}

fn stored(machine: &Machine) -> Vec<usize> {
    (0..machine.streams.len()).map(|at| machine.stored(at)).collect()
}

#[test]
fn a_store_that_is_back_gets_the_segments_of_every_log_at_once() {
    let machine = Machine::new(&LOGS, defaults);
    live(&machine, 1_000);
    machine.seal_segments(3);
    go_away(&machine);
    let before = machine.bucket.calls();
    let (minutes, probe_ms) = (5, 1_000);
    live(&machine, minutes * 60_000);
    let asked = machine.bucket.calls() - before;
    assert!(asked <= 20 + minutes * 60_000 / probe_ms, "{asked} requests to a store that is down");
    assert_eq!(stored(&machine), [0; 4]);
    machine.bucket.clear_faults();
    live(&machine, probe_ms);
    assert_eq!(stored(&machine), [3; 4]);
}
