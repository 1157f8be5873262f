//! A scrub of the objects alone, with nothing of the log here. It looks, and changes
//! nothing: what an object is healed from is with the log's writer.

use std::ops::{ControlFlow, Range};
use std::slice;
use std::sync::Arc;

use super::check::Verdict;
use super::options::ScrubOptions;
use super::pace::{Pace, PacedSource};
use super::progress::{Tell, Telling};
use super::report::{ScrubFinding, ScrubOutcome, ScrubProgress, ScrubReport, ScrubUnreached};
use crate::bucket::{Archive, ArchivedObject};
use crate::bucket::{ColdTier, FoundStream, split_url};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::object::{ColdConfig, ObjectStore};
use crate::read::{AofReader, End, Hydrate, OnCorruption, ScanOptions, Start};
use crate::segment::Artifact;
use crate::store::Residency;

/// Times that an object is looked for again that is gone since it was listed.
const LOOKS_MAX: usize = 6;

/// [`Aof::scrub`](crate::manager::Aof::scrub) of a log in an object store,
/// `s3://bucket/prefix/NAME`, with nothing of it here: every object is read and compared
/// with its checksums. Credentials and endpoint are those of this process.
///
/// It only looks: `heal` must be off, and what is found is [`ScrubOutcome::Damaged`]. The
/// log's own writer heals objects from the copies that it has.
pub fn scrub_url(
    url: &str,
    options: &ScrubOptions,
    progress: &mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>,
) -> Result<ScrubReport> {
    check_options(options)?;
    let (prefix, name) = split_url(url)?;
    run(&ColdTier::open(&ColdConfig::new(prefix))?, &name, options, progress)
}

/// [`scrub_url`] of the stream with this name or id in any object store.
pub fn scrub_bucket_on(
    store: Arc<dyn ObjectStore>,
    cold: &ColdConfig,
    name: &str,
    options: &ScrubOptions,
    progress: &mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>,
) -> Result<ScrubReport> {
    check_options(options)?;
    run(&ColdTier::on(store, cold)?, name, options, progress)
}

fn check_options(options: &ScrubOptions) -> Result<()> {
    options.validate()?;
    let refused =
        |field, reason: &str| Err(AofError::InvalidConfig { field, reason: reason.to_owned() });
    if options.heal {
        let reason = "an address is only looked at; scrub the log in its directory to heal it";
        return refused("heal", reason);
    }
    match options.cold {
        true => Ok(()),
        false => refused("tiers", "an object store holds cold copies and no others"),
    }
}

fn run(
    tier: &Arc<ColdTier>,
    name: &str,
    options: &ScrubOptions,
    progress: Tell<'_>,
) -> Result<ScrubReport> {
    let found = FoundStream::find(tier, name)?;
    let identity = found.identity_or_derived();
    let archive: Arc<dyn Archive> = found.archive;
    let reader = AofReader::open_archive(Arc::clone(&archive), identity, &found.listed)?;
    let looked_at = copies(&found.listed, &options.segments);
    let pace = Pace::without_stream(options.bytes_per_second);
    let telling = Telling::new(Arc::clone(&pace), looked_at.len() as u64, progress);
    let report = ScrubReport::default();
    let mut scrub = BucketScrub { archive, reader, pace, telling, report };
    let ended = scrub.all(&looked_at);
    let mut report = scrub.report;
    report.bytes = scrub.pace.bytes();
    match ended {
        Ok(()) => report.is_complete = true,
        Err(AofError::Cancelled) => {}
        Err(error) => return Err(error),
    }
    Ok(report)
}

/// A segment that is in the bucket, or should be: one that is missing between two others.
enum Copy {
    There(ArchivedObject),
    Missing(SegmentId),
}

/// The segments in a range of numbers, in order.
fn copies(listed: &[ArchivedObject], wanted: &Range<u64>) -> Vec<Copy> {
    let mut copies = Vec::new();
    let mut expected = None;
    for object in listed {
        let id = object.segment_id.as_u64();
        let missing = (expected.unwrap_or(id)..id).filter(|id| wanted.contains(id));
        copies.extend(missing.map(|id| Copy::Missing(SegmentId::from_u64(id))));
        copies.extend(wanted.contains(&id).then(|| Copy::There(object.clone())));
        expected = Some(id + 1);
    }
    copies
}

struct BucketScrub<'a> {
    archive: Arc<dyn Archive>,
    reader: AofReader,
    pace: Arc<Pace>,
    telling: Telling<'a>,
    report: ScrubReport,
}

impl BucketScrub<'_> {
    fn all(&mut self, copies: &[Copy]) -> Result<()> {
        for copy in copies {
            let segment_id = match copy {
                Copy::There(object) => object.segment_id,
                Copy::Missing(segment_id) => *segment_id,
            };
            self.telling.so_far.segment_id = segment_id.as_u64();
            self.telling.tell();
            self.pace.check()?;
            match copy {
                Copy::There(object) => self.object(object)?,
                Copy::Missing(segment_id) => self.missing(*segment_id)?,
            }
            self.report.segments += 1;
            self.telling.so_far.segments = self.report.segments;
        }
        self.telling.tell();
        Ok(())
    }

    /// Checks a segment's object, or the one that took its place meanwhile.
    fn object(&mut self, object: &ArchivedObject) -> Result<()> {
        let mut object = object.clone();
        for _ in 0..LOOKS_MAX {
            match self.check_twice(&object) {
                Err(error) if error.is_object_gone() => match self.now(object.segment_id)? {
                    Now::There(other) => object = other,
                    Now::Trimmed => return Ok(()),
                    Now::Missing => return self.missing(object.segment_id),
                },
                verdict => return self.note(&object, verdict?),
            }
        }
        self.missing(object.segment_id)
    }

    /// A copy that is bad is read twice: a bit that flipped on its way here is no damage.
    fn check_twice(&mut self, object: &ArchivedObject) -> Result<Verdict> {
        match self.check(object)? {
            Verdict::Bad(_) => self.check(object),
            verdict => Ok(verdict),
        }
    }

    fn check(&mut self, object: &ArchivedObject) -> Result<Verdict> {
        let Self { archive, pace, telling, .. } = self;
        let mut checked = Ok(());
        let opened = archive.open(slice::from_ref(object), &mut |_, opened| {
            checked = opened.and_then(|artifact| {
                let index = artifact.index().clone();
                pace.took(index.encode_tail().len() as u64)?;
                let (source, pace) = (Arc::clone(artifact.source()), Arc::clone(pace));
                let source = Arc::new(PacedSource { source, pace });
                Artifact::with_index(source, index).verify(&mut |_| telling.tell_bytes())
            });
            Ok(())
        });
        match opened.and(checked) {
            Ok(()) => Ok(Verdict::Good),
            Err(error) if error.is_object_gone() => Err(error),
            Err(error) => Verdict::of(error),
        }
    }

    /// Where a segment is whose object is gone.
    fn now(&self, segment_id: SegmentId) -> Result<Now> {
        let listed = self.archive.list()?;
        let first = listed.first().map(|object| object.segment_id);
        let is_trimmed = first.is_none_or(|first| segment_id < first);
        let there = listed.into_iter().find(|object| object.segment_id == segment_id);
        Ok(match there {
            Some(object) => Now::There(object),
            None if is_trimmed => Now::Trimmed,
            None => Now::Missing,
        })
    }

    fn note(&mut self, object: &ArchivedObject, verdict: Verdict) -> Result<()> {
        let (segment_id, tier) = (object.segment_id.as_u64(), Residency::Cold);
        let place = self.archive.name(object).display().to_string();
        self.report.copies += 1;
        match verdict {
            Verdict::Good | Verdict::Absent => {}
            Verdict::Bad(problem) => self.found(segment_id, place, problem)?,
            Verdict::Unreached(error) => {
                self.report.unreached.push(ScrubUnreached { segment_id, tier, place, error });
            }
        }
        Ok(())
    }

    fn missing(&mut self, segment_id: SegmentId) -> Result<()> {
        let place = self.archive.name_of_missing(segment_id);
        let problem = "the object is missing".to_owned();
        self.found(segment_id.as_u64(), place.display().to_string(), problem)
    }

    fn found(&mut self, segment_id: u64, place: String, problem: String) -> Result<()> {
        tracing::error!(
            stream = self.reader.name(),
            segment = segment_id,
            place,
            problem,
            "damage was found"
        );
        let unreadable = self.unreadable(segment_id)?;
        self.telling.so_far.damage_found += 1;
        self.report.findings.push(ScrubFinding {
            segment_id,
            tier: Residency::Cold,
            place,
            problem,
            outcome: ScrubOutcome::Damaged,
            quarantined: None,
            unreadable,
        });
        Ok(())
    }

    /// Records of a segment that a reader of the address does not get: what a scan passes
    /// over between the segments around it.
    fn unreadable(&self, segment_id: u64) -> Result<Vec<Range<u64>>> {
        let segments = self.reader.segments()?;
        let known = || segments.iter().filter(|s| s.damage.is_none());
        let before = known().rfind(|s| s.segment_id < segment_id);
        let here = known().find(|s| s.segment_id == segment_id);
        let behind = known().find(|s| s.segment_id > segment_id);
        let start = here.map(|s| s.first_offset);
        let start = start.or(before.map(|s| s.first_offset + s.record_count));
        let Some(start) = start.or(behind.map(|_| 0)) else { return Ok(Vec::new()) };
        let end = here.map(|s| s.first_offset + s.record_count);
        let Some(end) = end.or(behind.map(|s| s.first_offset)) else { return Ok(Vec::new()) };
        let mut next = start;
        let options = ScanOptions {
            start: Start::Offset(start),
            end: End::Offset(end),
            on_corruption: OnCorruption::Skip,
            hydrate: Hydrate::Never,
            ..ScanOptions::default()
        };
        let mut missing = Vec::new();
        let mut miss = |from: u64, to: u64| missing.extend((from < to).then_some(from..to));
        let mut scan = self.reader.scan(options)?;
        while let Some(batch) = scan.next_batch()? {
            miss(next, batch.offsets().start);
            next = batch.offsets().end;
        }
        miss(next, end);
        Ok(missing)
    }
}

/// What became of an object that is gone.
enum Now {
    /// Another upload of the same segment.
    There(ArchivedObject),
    /// Retention removed the segment.
    Trimmed,
    /// Nobody should have removed it.
    Missing,
}
