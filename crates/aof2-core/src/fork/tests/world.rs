//! A root with logs, forks and snapshots on a simulated disk, and beside it what they must
//! hold.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fastrand::Rng;

use crate::error::AofError;
use crate::fork::{ForkAt, LogRoot};
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::read::{AofReader, Scan, ScanOptions, Segments, Source};
use crate::segment::ArtifactOptions;
use crate::store::{Change, Residency};
use crate::write::{AofConfig, AppendOptions, FlushConfig, RetentionPolicy, Stream};

pub(super) const ROOT: &str = "/data";
const LOGS_MAX: usize = 7;

/// What a log must hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// All that was appended, inherited records included.
    pub(super) records: Vec<Vec<u8>>,
    /// Those below were durable.
    pub(super) acked: u64,
    /// Those below may be gone.
    pub(super) trimmed: u64,
    /// The first offset that was there when each was taken, and its place.
    pub(super) snapshots: BTreeMap<String, (u64, u64)>,
}

/// What was being done when the power went.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Create(String),
    Fork(String, Log),
    Drop(String),
    Snapshot(String, String, (u64, u64)),
    DropSnapshot(String, String),
}

pub(super) struct World {
    pub(super) sim: SimStorage,
    pub(super) logs: BTreeMap<String, Log>,
    pub(super) doing: Option<Doing>,
    streams: BTreeMap<String, Arc<Stream>>,
    rng: Rng,
    next: u64,
}

fn told(error: AofError) -> String {
    error.to_string()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(ROOT).join(name)
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let sim = SimStorage::new();
        sim.clock().set_step_ns(1_000);
        sim.seed_random(seed);
        let _ = sim.create_dir_all(&PathBuf::from(ROOT));
        let _ = sim.sync_dir(&PathBuf::from("/"));
        Self::resume(sim, BTreeMap::new(), seed)
    }

    pub(super) fn resume(sim: SimStorage, logs: BTreeMap<String, Log>, seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self { sim, logs, doing: None, streams: BTreeMap::new(), rng, next: seed << 20 }
    }

    pub(super) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.sim.clone())
    }

    pub(super) fn root(&self) -> Result<LogRoot, String> {
        LogRoot::on(ROOT, self.storage(), Arc::new(self.sim.clock().clone())).map_err(told)
    }

    pub(super) fn is_there(&self, name: &str) -> bool {
        self.sim.exists(&path(name)).unwrap_or(false)
    }

    /// What was being done, for messages.
    pub(super) fn told(&self) -> String {
        match &self.doing {
            Some(Doing::Fork(name, log)) => format!("forking {name} at {}", log.acked),
            Some(doing) => format!("{doing:?}"),
            None => "nothing".into(),
        }
    }

    /// Opens a log as a process would that just started.
    pub(super) fn open(&mut self, name: &str) -> Result<Arc<Stream>, String> {
        if let Some(stream) = self.streams.get(name) {
            return Ok(Arc::clone(stream));
        }
        let mut config = AofConfig::new(path(name)).segment_bytes(64 << 10);
        config.flush = FlushConfig {
            flush_interval_ms: 5,
            flush_bytes: 32 << 10,
            max_unflushed_bytes: 96 << 10,
        };
        let clock = Arc::new(self.sim.clock().clone());
        let stream = Stream::open(config, self.storage(), clock).map_err(told)?;
        self.streams.insert(name.to_owned(), Arc::clone(&stream));
        Ok(stream)
    }

    /// Runs random steps, or until the power is cut.
    pub(super) fn run(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            let result = self.step();
            self.note_promises();
            match result {
                Ok(()) => self.doing = None,
                Err(_) if self.sim.is_crashed() => break,
                Err(error) => return Err(error),
            }
            if self.sim.is_crashed() {
                break;
            }
        }
        Ok(())
    }

    fn note_promises(&mut self) {
        for (name, stream) in &self.streams {
            if let Some(log) = self.logs.get_mut(name) {
                log.acked = log.acked.max(stream.durable().count());
            }
        }
    }

    fn some_log(&mut self) -> Option<String> {
        let names: Vec<&String> = self.logs.keys().collect();
        (!names.is_empty()).then(|| names[self.rng.usize(..names.len())].clone())
    }

    fn new_name(&mut self) -> String {
        self.next += 1;
        let name = format!("log{}", self.next);
        // Some are in directories of their own.
        if self.rng.u8(..4) == 0 { format!("team/{name}") } else { name }
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(name) = self.some_log() else { return self.create() };
        match self.rng.u8(..100) {
            0..4 if self.logs.len() < LOGS_MAX => self.create(),
            4..45 => self.append(&name),
            45..55 => self.flush(&name),
            55..60 => self.seal(&name),
            60..65 => self.move_segment(&name),
            65..77 if self.logs.len() < LOGS_MAX => self.fork(&name),
            77..82 => self.snapshot(&name),
            82..84 => self.drop_snapshot(&name),
            84..88 => self.drop_log(&name),
            88..93 => self.trim(&name),
            93..95 => self.detach(&name),
            95..97 => self.root()?.sweep().map(drop).map_err(told),
            97..99 => self.close(&name),
            _ => self.check_log(&name),
        }
    }

    fn create(&mut self) -> Result<(), String> {
        let name = self.new_name();
        self.doing = Some(Doing::Create(name.clone()));
        self.open(&name)?;
        self.logs.insert(name, Log::default());
        Ok(())
    }

    pub(super) fn append(&mut self, name: &str) -> Result<(), String> {
        let stream = self.open(name)?;
        for _ in 0..1 + self.rng.usize(..6) {
            self.next += 1;
            let len = 200 + self.rng.usize(..7_000);
            let mut payload = format!("{name} {} ", self.next).into_bytes();
            payload.resize(len, b'.');
            loop {
                match stream.append_now(&payload, &AppendOptions::default()) {
                    Ok(appended) => {
                        let log = self.logs.get_mut(name).ok_or("an unknown log")?;
                        if appended.offset != log.records.len() as u64 {
                            let count = log.records.len();
                            return Err(format!("{name}: {} after {count}", appended.offset));
                        }
                        log.records.push(payload);
                        break;
                    }
                    Err(AofError::WouldBlock(_)) => {
                        stream.prepare_step().map_err(told)?;
                        stream.finalize_step().map_err(told)?;
                        stream.flush_in_background().map_err(told)?;
                    }
                    Err(error) => return Err(format!("{name}: append: {error}")),
                }
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, name: &str) -> Result<(), String> {
        let stream = self.open(name)?;
        let target = stream.appended().position();
        stream.flush_until(target, None).map_err(told)?;
        while stream.finalize_step().map_err(told)? {}
        self.note_promises();
        Ok(())
    }

    fn seal(&mut self, name: &str) -> Result<(), String> {
        let stream = self.open(name)?;
        stream.start_seal(false).map(drop).map_err(told)?;
        self.flush(name)
    }

    fn move_segment(&mut self, name: &str) -> Result<(), String> {
        let stream = self.open(name)?;
        let entries = stream.store().table().snapshot();
        let sealed = entries.iter().filter(|entry| entry.sealed_info().is_some());
        let ids: Vec<_> = sealed.map(|entry| entry.meta.segment_id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[self.rng.usize(..ids.len())];
        let store = stream.store();
        store.set_compression(ArtifactOptions { level: 1, frame_bytes: 4 << 10 });
        let moved = match self.rng.u8(..3) {
            0 => store.apply(&Change::Hydrate(id)),
            _ => store
                .apply(&Change::Compress(id))
                .and_then(|_| store.apply(&Change::Evict(id, Residency::Hot))),
        };
        moved.map(drop).map_err(|e| format!("{name}: move of segment {id}: {e}"))
    }

    /// A place that a fork or a snapshot may have.
    fn place(&mut self, name: &str) -> Result<(u64, u64), String> {
        let stream = self.open(name)?;
        let earliest = Segments::of(&*stream).earliest();
        let durable = stream.durable().count();
        let at = match self.rng.u8(..3) {
            0 => durable,
            _ => self.rng.u64(earliest..=durable),
        };
        Ok((earliest, at))
    }

    pub(super) fn fork(&mut self, name: &str) -> Result<(), String> {
        let (earliest, at) = self.place(name)?;
        let to = self.new_name();
        let parent = self.logs.get(name).ok_or("an unknown log")?;
        let child = Log {
            records: parent.records[..at as usize].to_vec(),
            acked: at,
            trimmed: earliest,
            snapshots: BTreeMap::new(),
        };
        self.doing = Some(Doing::Fork(to.clone(), child.clone()));
        let forked = self.root()?.fork(name, &to, &ForkAt::Offset(at));
        forked.map_err(|e| format!("fork of {name} at {at}: {e}"))?;
        self.logs.insert(to, child);
        Ok(())
    }

    fn snapshot(&mut self, name: &str) -> Result<(), String> {
        let place = self.place(name)?;
        self.next += 1;
        let snapshot = format!("s{}", self.next);
        self.doing = Some(Doing::Snapshot(name.to_owned(), snapshot.clone(), place));
        let taken = self.root()?.snapshot(name, &snapshot, &ForkAt::Offset(place.1), None);
        taken.map_err(|e| format!("snapshot of {name} at {}: {e}", place.1))?;
        let log = self.logs.get_mut(name).ok_or("an unknown log")?;
        log.snapshots.insert(snapshot, place);
        Ok(())
    }

    fn drop_snapshot(&mut self, name: &str) -> Result<(), String> {
        let log = self.logs.get(name).ok_or("an unknown log")?;
        let Some(snapshot) = log.snapshots.keys().next().cloned() else { return Ok(()) };
        self.doing = Some(Doing::DropSnapshot(name.to_owned(), snapshot.clone()));
        self.root()?.drop_snapshot(name, &snapshot).map_err(told)?;
        if let Some(log) = self.logs.get_mut(name) {
            log.snapshots.remove(&snapshot);
        }
        Ok(())
    }

    pub(super) fn drop_log(&mut self, name: &str) -> Result<(), String> {
        self.close(name)?;
        self.doing = Some(Doing::Drop(name.to_owned()));
        self.root()?.drop_log(name).map_err(|e| format!("drop of {name}: {e}"))?;
        self.logs.remove(name);
        Ok(())
    }

    /// Lets retention remove as much as it may.
    pub(super) fn trim(&mut self, name: &str) -> Result<(), String> {
        let stream = self.open(name)?;
        let before = match self.rng.bool() {
            true => stream.durable().count(),
            false => self.rng.u64(..=stream.durable().count()),
        };
        self.trim_to(name, before)
    }

    pub(super) fn trim_to(&mut self, name: &str, before: u64) -> Result<(), String> {
        let stream = self.open(name)?;
        let log = self.logs.get_mut(name).ok_or("an unknown log")?;
        log.trimmed = log.trimmed.max(before);
        let policy = RetentionPolicy { before_offset: Some(before), ..Default::default() };
        stream.apply_retention(&policy).map(drop).map_err(|e| format!("{name}: retention: {e}"))
    }

    fn detach(&mut self, name: &str) -> Result<(), String> {
        self.close(name)?;
        let detached = self.root()?.detach(name).map(drop);
        detached.map_err(|e| format!("detach of {name}: {e}"))
    }

    pub(super) fn close(&mut self, name: &str) -> Result<(), String> {
        let Some(stream) = self.streams.remove(name) else { return Ok(()) };
        let closed = stream.close().map_err(|e| format!("{name}: close: {e}"));
        closed?;
        if let Some(log) = self.logs.get_mut(name) {
            log.acked = stream.durable().count();
        }
        Ok(())
    }

    /// Opens a log and compares all that it holds with what it must hold.
    pub(super) fn check_log(&mut self, name: &str) -> Result<(), String> {
        let at = |error: String| format!("{name}: {error}");
        let reader = AofReader::open_on(self.storage(), path(name)).map_err(told).map_err(at)?;
        let stream = self.open(name).map_err(at)?;
        let log = self.logs.get_mut(name).ok_or("an unknown log")?;
        let count = stream.appended().count();
        if count < log.acked || count > log.records.len() as u64 {
            let (acked, all) = (log.acked, log.records.len());
            return Err(at(format!("{acked} of {all} records were durable, {count} are there")));
        }
        let earliest = Segments::of(&*stream).earliest();
        let held = log.snapshots.values().map(|(floor, place)| match floor < place {
            true => *floor,
            false => u64::MAX,
        });
        let floor = held.chain([log.trimmed]).min().unwrap_or(0);
        if earliest > floor {
            return Err(at(format!("records from {floor} to {earliest} are gone")));
        }
        let source = Arc::clone(&stream) as Arc<dyn Source>;
        let durable = stream.durable().count();
        let scan = Scan::new(source, ScanOptions::default()).map_err(|e| at(e.to_string()))?;
        check_scan(scan, log, earliest..durable).map_err(at)?;
        let scan = reader.scan(ScanOptions::default());
        let scan = scan.map_err(|e| at(format!("reader: {e}; {}", reader.describe())))?;
        check_scan(scan, log, earliest..durable)
            .map_err(|e| at(format!("reader: {e}; {}", reader.describe())))?;
        if durable > 0 && earliest < durable {
            let some = self.rng.u64(earliest..durable);
            let read = reader.read_offset(some).map_err(|e| at(format!("read {some}: {e}")))?;
            if *read.payload != log.records[some as usize][..] {
                return Err(at(format!("record {some} is another one")));
            }
        }
        Ok(())
    }

    /// After a cut: what was being done is done or not, and everything else is as it was.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        match self.doing.take() {
            // Half a log is none; it becomes one when it is opened.
            Some(Doing::Create(name)) if self.is_there(&name) => {
                self.open(&name)?;
                self.logs.insert(name, Log::default());
            }
            Some(Doing::Fork(name, log)) if self.is_there(&name) => {
                self.logs.insert(name, log);
            }
            Some(Doing::Drop(name)) if !self.is_there(&name) => {
                self.logs.remove(&name);
            }
            Some(Doing::Snapshot(name, snapshot, place)) => {
                let all = self.root()?.snapshots(&name).map_err(told)?;
                if all.iter().any(|s| s.name == snapshot)
                    && let Some(log) = self.logs.get_mut(&name)
                {
                    log.snapshots.insert(snapshot, place);
                }
            }
            Some(Doing::DropSnapshot(name, snapshot)) => {
                let all = self.root()?.snapshots(&name).map_err(told)?;
                if !all.iter().any(|s| s.name == snapshot)
                    && let Some(log) = self.logs.get_mut(&name)
                {
                    log.snapshots.remove(&snapshot);
                }
            }
            Some(Doing::Create(_) | Doing::Fork(..) | Doing::Drop(_)) | None => {}
        }
        Ok(())
    }

    /// Compares every log, and makes sure that nothing else is there.
    pub(super) fn check_all(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.logs.keys().cloned().collect();
        for name in &names {
            if !self.is_there(name) {
                return Err(format!("{name} is gone"));
            }
            self.check_log(name)?;
            let stream = self.open(name)?;
            let count = stream.appended().count();
            if let Some(log) = self.logs.get_mut(name) {
                log.records.truncate(count as usize);
                log.acked = count;
            }
            let snapshots = self.root()?.snapshots(name).map_err(told)?;
            let found: Vec<_> = snapshots.iter().map(|s| (s.name.clone(), s.offset)).collect();
            let known = self.logs.get(name).map(|log| log.snapshots.clone()).unwrap_or_default();
            let known: Vec<_> = known.into_iter().map(|(s, (_, at))| (s, at)).collect();
            if found != known {
                return Err(format!("{name}: snapshots {found:?}, and not {known:?}"));
            }
        }
        Ok(())
    }

    /// After a sweep: nothing is left that nobody reads.
    pub(super) fn check_swept(&self) -> Result<(), String> {
        let again = self.root()?.sweep().map_err(told)?;
        if again != Default::default() {
            return Err(format!("a second sweep found {again:?}"));
        }
        let tree = self.root()?.tree().map_err(told)?;
        for node in &tree.logs {
            if node.is_dropped && node.holders.is_empty() {
                return Err(format!("nobody reads {:?}, and it is there", node.path));
            }
            if !node.is_dropped && !self.logs.contains_key(&node.name) {
                return Err(format!("{:?} came from nowhere", node.path));
            }
        }
        let live = tree.logs.iter().filter(|node| !node.is_dropped).count();
        if live != self.logs.len() {
            return Err(format!("{live} logs, and not {}", self.logs.len()));
        }
        let entries = self.sim.list(&PathBuf::from(ROOT)).map_err(|e| e.to_string())?;
        match entries.iter().find(|entry| entry.name.starts_with(".fork-")) {
            Some(entry) => Err(format!("{} is left", entry.name)),
            None => Ok(()),
        }
    }
}

fn check_scan(scan: Scan, log: &Log, range: std::ops::Range<u64>) -> Result<(), String> {
    let mut next = range.start;
    for record in scan {
        let record = record.map_err(|e| format!("record {next}: {e}"))?;
        if record.offset != next {
            return Err(format!("record {} after {next}", record.offset));
        }
        if log.records.get(next as usize).is_none_or(|known| *record.payload != known[..]) {
            return Err(format!("record {next} is another one"));
        }
        next += 1;
    }
    match next == range.end {
        true => Ok(()),
        false => Err(format!("the scan ended at {next}, not at {}", range.end)),
    }
}
