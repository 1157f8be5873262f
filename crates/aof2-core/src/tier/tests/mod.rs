//! Budgets over a long simulated load: whatever is written, read, pinned and asked for,
//! the hot tiers are within their limits after every step, and everything is readable.

mod archive;
mod cold_plan;
mod meanwhile;
mod outage;
#[cfg(feature = "planted-bugs")]
mod planted;
mod scrub;
mod world;
mod writers;

use std::sync::Arc;

use fastrand::Rng;

use super::activation::Priority;
use super::config::{AdmissionPolicy, TierConfig};
use super::coordinator::Coordinator;
use super::stream::StreamTiers;
use super::task::{Job, Lane};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::write::{AofConfig, Stream};
use crate::write::{AppendOptions, FlushConfig};

const SEGMENT: u64 = 64 << 10;
const HOT_BYTES: u64 = 10 * SEGMENT;
const OWN_BYTES: u64 = 4 * SEGMENT;

impl Coordinator {
    /// What is due between the local tiers, most urgent first.
    fn plan(&self) -> Vec<Job> {
        self.due(Lane::Moves).jobs
    }

    /// What is due with the object store, most urgent first.
    fn plan_cold(&self) -> Vec<Job> {
        self.due(Lane::Cold).jobs
    }

    /// Everything that is due between the local tiers, on this thread, until nothing is.
    fn run_until_idle(&self) {
        self.run_lane_until_idle(Lane::Moves);
    }

    /// The same with the object store.
    fn run_cold_until_idle(&self) {
        self.run_lane_until_idle(Lane::Cold);
    }

    fn run_lane_until_idle(&self, lane: Lane) {
        for _ in 0..10_000 {
            let jobs = self.due(lane).jobs;
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(Job::run);
        }
        panic!("{lane:?} is never done");
    }
}

struct Load {
    stream: Arc<Stream>,
    tiers: Arc<StreamTiers>,
    own_limit: Option<u64>,
    payloads: Vec<Vec<u8>>,
}

impl Load {
    fn open(
        sim: &SimStorage,
        coordinator: &Arc<Coordinator>,
        name: &str,
        own: Option<u64>,
    ) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let mut config = AofConfig::new(format!("/data/{name}")).segment_bytes(SEGMENT);
        config.preallocate_segments = 0;
        config.hot_bytes = own;
        config.flush = FlushConfig { flush_bytes: 32 << 10, ..FlushConfig::default() };
        let clock = Arc::new(sim.clock().clone());
        let (stream, tiers) = StreamTiers::open(coordinator, config, storage, clock).unwrap();
        Self { stream, tiers, own_limit: own, payloads: Vec::new() }
    }

    fn append(&mut self, rng: &mut Rng) -> bool {
        let payload = vec![self.payloads.len() as u8; 200 + rng.usize(..9_000)];
        match self.stream.append_now(&payload, &AppendOptions::default()) {
            Ok(_) => self.payloads.push(payload),
            Err(AofError::WouldBlock(_)) => {
                // What the background does about it.
                self.stream.prepare_step().unwrap();
                self.stream.finalize_step().unwrap();
                return false;
            }
            Err(error) => panic!("{error}"),
        }
        true
    }

    fn some_segment(&self, rng: &mut Rng) -> Option<SegmentId> {
        let sealed = self.stream.store().table().snapshot().into_iter();
        let ids: Vec<_> =
            sealed.filter(|e| e.sealed_info().is_some()).map(|e| e.meta.segment_id).collect();
        (!ids.is_empty()).then(|| ids[rng.usize(..ids.len())])
    }

    fn check_record(&self, rng: &mut Rng) {
        let durable = self.stream.durable().count();
        if durable == 0 {
            return;
        }
        let offset = rng.u64(..durable);
        let source = Arc::clone(&self.stream) as Arc<dyn crate::read::Source>;
        let visibility = crate::read::Visibility::Durable;
        let record = crate::read::Cursor::read_offset(&source, offset, visibility).unwrap();
        assert_eq!(&*record.payload, &self.payloads[offset as usize][..]);
    }
}

#[test]
fn budgets_hold_at_every_step_of_a_long_day() {
    let sim = SimStorage::new();
    sim.clock().set_step_ns(1_000);
    let config = TierConfig {
        hot_bytes: HOT_BYTES,
        admission: AdmissionPolicy::Strict,
        compression_level: 1,
        frame_bytes: 8 << 10,
        ..TierConfig::default()
    };
    let coordinator = Coordinator::new(config, Arc::new(sim.clock().clone())).unwrap();
    let mut loads = [
        Load::open(&sim, &coordinator, "plain", None),
        Load::open(&sim, &coordinator, "limited", Some(OWN_BYTES)),
        Load::open(&sim, &coordinator, "quiet", None),
    ];
    let mut rng = Rng::with_seed(7);
    let mut refusals = 0;
    for step in 0..4_000 {
        let which = [0, 0, 0, 1, 1, 2][rng.usize(..6)];
        let load = &mut loads[which];
        match rng.u64(..20) {
            0..13 => refusals += u64::from(!load.append(&mut rng)),
            13 => load.stream.flush_in_background().unwrap(),
            14 => drop(load.stream.finalize_step().unwrap()),
            15 => load.check_record(&mut rng),
            16 => {
                if let Some(id) = load.some_segment(&mut rng) {
                    load.tiers.ask(id, Priority::Wanted).unwrap();
                }
            }
            17 => sim.clock().advance_ms(20_000),
            _ => coordinator.run_until_idle(),
        }
        let mut total = 0;
        for load in &loads {
            let used = load.stream.store().hot_usage().total();
            assert!(load.own_limit.is_none_or(|limit| used <= limit), "{used} at step {step}");
            total += used;
        }
        assert!(total <= HOT_BYTES, "{total} bytes of {HOT_BYTES} after step {step}");
    }
    assert!(refusals > 0, "the limits were never in the way");
    for load in &loads {
        let status = load.tiers.status();
        assert_eq!(status.metrics.failures, 0);
    }
    let evictions = loads.iter().map(|load| load.tiers.status().metrics.evictions).sum::<u64>();
    let hydrations = loads.iter().map(|load| load.tiers.status().metrics.hydrations).sum::<u64>();
    assert!(evictions > 100 && hydrations > 20, "{evictions} evictions, {hydrations} hydrations");
}
