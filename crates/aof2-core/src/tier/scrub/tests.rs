//! Power cuts while a segment is healed: whatever was on disk when the power went, the
//! next writer reads every record, and its own scrub leaves nothing to heal.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::options::ScrubOptions;
use super::pace::Pace;
use super::progress::Telling;
use super::report::ScrubReport;
use super::run::Scrub;
use crate::error::Result;
use crate::format::SegmentId;
use crate::io::Storage;
use crate::io::object::ColdConfig;
use crate::io::sim::{CrashOptions, SimBucket, SimStorage};
use crate::log::{AofConfig, Residency, Source, Stream};
use crate::manifest::ManifestMode;
use crate::tier::{Coordinator, ReachStore, StreamTiers, TierConfig};
use crate::{AppendOptions, Visibility};

const SEGMENT: u64 = 64 << 10;
const RECORDS: u64 = 90;
const ROOT: &str = "/data/log";

fn payload(i: u64) -> Vec<u8> {
    (0..1_900).map(|j| (i * 31 + j / 3) as u8).collect()
}

struct Machine {
    sim: SimStorage,
    coordinator: Arc<Coordinator>,
    stream: Arc<Stream>,
    tiers: Arc<StreamTiers>,
}

impl Machine {
    fn open(sim: SimStorage, bucket: &SimBucket) -> Result<Self> {
        let config = TierConfig {
            compression_level: 1,
            frame_bytes: 8 << 10,
            cold: Some(ColdConfig::new("s3://bucket/prefix")),
            ..TierConfig::default()
        };
        let clock = Arc::new(sim.clock().clone());
        let store = Arc::new(bucket.clone());
        let coordinator = Coordinator::on_store(config, Arc::clone(&clock) as _, store)?;
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let mut log = AofConfig::new(ROOT).segment_bytes(SEGMENT);
        log.preallocate_segments = 0;
        log.manifest_mode = ManifestMode::Enabled;
        log.manifest.upload_prefix = "prefix".into();
        let reach = ReachStore::new(Arc::clone(&storage), &log.root_dir);
        let tiers = StreamTiers::new(Arc::clone(&coordinator), None, reach);
        let stream = Stream::open_with(log, storage, clock, Arc::clone(&tiers) as _)?;
        tiers.attach(&stream);
        Ok(Self { sim, coordinator, stream, tiers })
    }

    /// Every sealed segment in all tiers.
    fn filled(bucket: &SimBucket) -> Self {
        let machine = Self::open(SimStorage::new(), bucket).unwrap();
        for i in 0..RECORDS {
            while machine.stream.append_now(&payload(i), &AppendOptions::default()).is_err() {
                machine.stream.prepare_step().unwrap();
                machine.stream.finalize_step().unwrap();
            }
        }
        machine.stream.seal_until(&mut false, None).unwrap();
        while machine.stream.finalize_step().unwrap() {}
        machine.settle();
        machine
    }

    fn settle(&self) {
        self.coordinator.settle();
        self.coordinator.settle_cold();
    }

    fn scrub(&self) -> Result<ScrubReport> {
        let options = ScrubOptions::default();
        let pace = Pace::new(Arc::clone(&self.stream), None);
        let mut silent = |_: &_| ControlFlow::Continue(());
        let telling = Telling::new(Arc::clone(&pace), 0, &mut silent);
        let mut scrub = Scrub::new(&self.stream, &self.tiers, &options, pace, telling);
        let entries = self.stream.table.snapshot();
        let sealed = entries.iter().filter(|entry| entry.sealed_info().is_some());
        let ids: Vec<SegmentId> = sealed.map(|entry| entry.meta.segment_id).collect();
        scrub.all(&ids)?;
        Ok(scrub.finish())
    }

    fn file(&self, dir: &str, id: u64) -> PathBuf {
        let name = format!("{ROOT}/{dir}/{id:020}_");
        let mut files = self.sim.files().into_iter();
        files.find(|path| path.to_string_lossy().starts_with(&name)).unwrap()
    }

    /// Damages these copies of the first segment.
    fn damage(&self, bucket: &SimBucket, copies: &[Residency]) {
        for copy in copies {
            match copy {
                Residency::Hot => self.sim.flip_bit(self.file("segments", 0), 8_000).unwrap(),
                Residency::Warm => self.sim.flip_bit(self.file("warm", 0), 8_000).unwrap(),
                Residency::Cold => {
                    let key =
                        bucket.objects().into_keys().find(|key| key.ends_with("0-00000000.zst"));
                    assert!(bucket.damage(&key.unwrap(), 1_000, 1));
                }
            }
        }
    }

    fn check_records(&self, what: &str) {
        for i in 0..RECORDS {
            let source = Arc::clone(&self.stream) as Arc<dyn Source>;
            let record = crate::log::read_offset(source, i, Visibility::Durable);
            assert_eq!(&*record.expect(what).payload, &payload(i)[..], "{what}");
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_of_healing_loses_nothing() {
    use Residency::{Cold, Hot, Warm};
    let mut cuts = 0;
    for damaged in [&[Hot][..], &[Warm], &[Cold], &[Hot, Warm], &[Hot, Cold], &[Warm, Cold]] {
        let bucket = SimBucket::new();
        let machine = Machine::filled(&bucket);
        machine.damage(&bucket, damaged);
        let first = machine.sim.calls();
        let report = machine.scrub().unwrap();
        assert_eq!(report.healed(), damaged.len() as u64, "{report:#?}");
        let calls = machine.sim.calls() - first;
        for call in 0..calls {
            let bucket = SimBucket::new();
            let machine = Machine::filled(&bucket);
            machine.damage(&bucket, damaged);
            machine.sim.crash_at(machine.sim.calls() + call);
            let _ = machine.scrub();
            let Some(image) = machine.sim.take_crash() else { continue };
            cuts += 1;
            let what = format!("{damaged:?}, cut before call {call} of {calls}");
            let after = image.materialize(call, &CrashOptions::default());
            let next = Machine::open(after, &bucket.image()).expect(&what);
            next.settle();
            next.scrub().expect(&what);
            next.settle();
            next.check_records(&what);
            let clean = next.scrub().expect(&what);
            assert!(clean.is_clean() && clean.findings.is_empty(), "{what}: {clean:#?}");
        }
    }
    assert!(cuts > 100, "{cuts} power cuts");
}
