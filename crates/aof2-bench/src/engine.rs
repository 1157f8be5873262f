//! What a log must be able to do to be measured.
//!
//! One [`Engine`] per product, one [`Log`] per directory it holds. The runner
//! owns every clock: an engine only does the work, so nobody can leave a part
//! of it out of the timed region. The loops live on the engine's side of the
//! trait object, so that no measured record pays for a virtual call.

use std::error::Error;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::measure::Histogram;
use crate::payload::Payloads;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The kind of work a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Appends that return once the bytes are in the page cache.
    Append,
    /// The same over many rollovers.
    Sustained,
    /// Appends that return once the bytes are on the disk.
    Durable,
    /// Every record in order, checksums verified.
    Scan,
    /// Single records in random order, checksums verified.
    RandomRead,
    /// Opening a log of sealed segments that was closed cleanly.
    Open,
    /// Opening a log whose writer died.
    Recovery,
}

/// How much work one round is. The same for the bound and every engine.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub payload_len: usize,
    /// Records appended, scanned, read or recovered in one round.
    pub record_count: u64,
    /// Threads that append at the same time. Only [`Kind::Durable`] has more than one.
    pub caller_count: usize,
    /// The segment size an engine should use, where it can be told.
    pub segment_bytes: u64,
    /// Sealed segments in the log. Only [`Kind::Open`] has any.
    pub segment_count: u64,
}

impl Plan {
    pub fn payload_bytes(&self) -> u64 {
        self.record_count * self.payload_len as u64
    }

    /// A generous upper bound of what the records occupy in any engine's file.
    pub fn file_bytes_max(&self) -> u64 {
        self.record_count * (self.payload_len as u64 + 128) + (1 << 20)
    }
}

/// Whether a figure may stand in a row.
#[derive(Clone, Copy, Debug)]
pub enum Support {
    Full,
    /// Comparable, with something the reader should know.
    Noted(&'static str),
    /// Shown with a mark, and never counted as the best peer: the engine
    /// promises less than the row asks for.
    Weaker(&'static str),
    /// Not measured.
    No(&'static str),
}

/// What a pass over records found. The runner checks it against the plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub record_count: u64,
    pub payload_bytes: u64,
}

impl Tally {
    pub fn add(&mut self, payload_len: usize) {
        self.record_count += 1;
        self.payload_bytes += payload_len as u64;
    }
}

pub trait Engine {
    fn name(&self) -> &'static str;

    /// One line below the table: settings, checksums, what a sync really is.
    fn about(&self) -> &'static str;

    fn support(&self, kind: Kind) -> Support;

    /// Creates a log in the empty directory `dir` and prepares everything that
    /// the engine can prepare ahead of appends. Not timed.
    fn create(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>>;

    /// Opens the log in `dir`, closed cleanly or not, until it would accept an
    /// append. Timed by [`Kind::Open`] and [`Kind::Recovery`].
    fn open(&self, dir: &Path, plan: &Plan) -> Result<Box<dyn Log>>;
}

pub trait Log: Send + Sync {
    /// Appends `count` records one by one; each is in the page cache when its
    /// append returns. With `latency`, records how long each append took.
    /// Timed by [`Kind::Append`] and [`Kind::Sustained`].
    fn append(
        &mut self,
        payloads: &Payloads,
        count: u64,
        latency: Option<&mut Histogram>,
    ) -> Result<()>;

    /// Each of `caller_count` threads appends `count_each` records, and no
    /// append returns before its record is on the disk. Returns the time from
    /// the first append to the last return, without starting the threads.
    fn append_durable(
        &self,
        payloads: &Payloads,
        caller_count: usize,
        count_each: u64,
    ) -> Result<Duration>;

    /// Fills `segment_count` segments of `plan.segment_bytes` and seals each.
    /// Not timed.
    fn fill_segments(&mut self, payloads: &Payloads, segment_count: u64) -> Result<()>;

    /// Makes the next scan start at the first record. Not timed.
    fn rewind(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads every record in order and verifies its checksum.
    fn scan(&mut self) -> Result<Tally>;

    /// Reads the records with these ordinals and verifies their checksums.
    fn random_read(&self, ordinals: &[u32]) -> Result<Tally>;

    /// Returns when everything appended is on the disk. Not timed.
    fn sync(&mut self) -> Result<()>;

    /// A clean close. Not timed.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The append loop of every engine.
pub fn drive(
    payloads: &Payloads,
    count: u64,
    latency: Option<&mut Histogram>,
    mut append: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let Some(latency) = latency else {
        for ordinal in 0..count {
            append(payloads.get(ordinal))?;
        }
        return Ok(());
    };
    let mut before = Instant::now();
    for ordinal in 0..count {
        append(payloads.get(ordinal))?;
        let after = Instant::now();
        latency.record(after - before);
        before = after;
    }
    Ok(())
}

/// The durable append loop of every engine: `caller` makes the append function
/// of one thread.
pub fn drive_callers<A: FnMut(&[u8]) -> Result<()>>(
    payloads: &Payloads,
    caller_count: usize,
    count_each: u64,
    caller: impl Fn() -> A + Sync,
) -> Result<Duration> {
    let start_line = Barrier::new(caller_count + 1);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..caller_count as u64)
            .map(|number| {
                let (start_line, caller) = (&start_line, &caller);
                scope.spawn(move || -> Result<()> {
                    let mut append = caller();
                    start_line.wait();
                    for ordinal in 0..count_each {
                        append(payloads.get(number * count_each + ordinal))?;
                    }
                    Ok(())
                })
            })
            .collect();
        start_line.wait();
        let start = Instant::now();
        for caller in callers {
            caller.join().map_err(|_| "a caller panicked")??;
        }
        Ok(start.elapsed())
    })
}
