//! A log's directory, rebuilt from the bucket alone.
//!
//! What a crash leaves: a directory without an identity, or a log of which some
//! compressed files are missing and read from the bucket. Either way running it again
//! goes on with what is not there yet.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::fetch_all::{News, fetch_all};
use crate::bucket::{ColdTier, FoundStream, split_url};
use crate::error::{AofError, Result};
use crate::format::{StreamId, StreamIdentity};
use crate::io::{LockError, OsStorage, Storage, SystemClock};
use crate::object::{ColdConfig, ObjectErrorKind, ObjectStore};
use crate::read::AofReader;
use crate::segment::Artifact;
use crate::store::{ColdStore, Layout, Residency, Survey, WarmFiles, bring, store_location};

/// How much of a log is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Whether the compressed segments come too. Without them the log is known here and
    /// read from the bucket.
    pub download: bool,
}

impl Default for RestoreOptions {
    /// Everything: who restores a log means to have it.
    fn default() -> Self {
        Self { download: true }
    }
}

/// How far a restore has got. What was there before counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Segments done.
    pub segments_done: u64,
    /// Segments in all.
    pub segments_total: u64,
    /// Compressed bytes done.
    pub bytes_done: u64,
    /// Those bytes in all.
    pub bytes_total: u64,
}

/// What a restore came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Name of the stream.
    pub name: String,
    /// Id of the stream.
    pub stream_id: StreamId,
    /// Segments that are there now.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Compressed bytes that this run fetched.
    pub bytes: u64,
    /// First logical offset of the log.
    pub first_offset: u64,
    /// First logical offset behind it.
    pub next_offset: u64,
    /// What is not there, oldest first.
    pub missing: Vec<MissingSegment>,
}

/// A segment that did not come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSegment {
    /// Its number.
    pub segment_id: u64,
    /// Logical offsets of its records; the end is `u64::MAX` where nothing tells.
    pub records: Range<u64>,
    /// Why.
    pub reason: String,
}

/// Told how far a restore has got; answers whether it goes on.
type Progress<'a> = &'a mut dyn FnMut(RestoreProgress) -> ControlFlow<()>;

/// Rebuilds the directory of a stream from `s3://bucket/prefix/NAME`. Credentials and
/// endpoint are those of this process.
///
/// A directory that holds another log is refused; one that holds this log gets what it
/// lacks, so that a restore that was interrupted is run again. A damaged or missing
/// object is told in the report, and the others are restored. Compressed segments are
/// verified before they get their names.
pub fn restore(
    url: &str,
    target: impl AsRef<Path>,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(RestoreProgress) -> ControlFlow<()>,
) -> Result<RestoreReport> {
    let (prefix, name) = split_url(url)?;
    let tier = ColdTier::open(&ColdConfig::new(prefix))?;
    run(tier, Arc::new(OsStorage), &name, target.as_ref(), options, progress)
}

/// [`restore`] of the stream with this name or id in any object store, to other storage
/// than the machine's files.
pub fn restore_on(
    storage: Arc<dyn Storage>,
    store: Arc<dyn ObjectStore>,
    cold: &ColdConfig,
    name: &str,
    target: impl AsRef<Path>,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(RestoreProgress) -> ControlFlow<()>,
) -> Result<RestoreReport> {
    run(ColdTier::on(store, cold)?, storage, name, target.as_ref(), options, progress)
}

fn run(
    tier: Arc<ColdTier>,
    storage: Arc<dyn Storage>,
    name: &str,
    target: &Path,
    options: &RestoreOptions,
    progress: Progress<'_>,
) -> Result<RestoreReport> {
    let identity = identify(&tier, FoundStream::find(&tier, name)?)?;
    let layout = Layout::new(target);
    check_target(&*storage, &layout, &identity)?;
    layout.ensure(&*storage)?;
    let _lock = storage.lock(&layout.lock_file()).map_err(|e| match e {
        LockError::Held { pid } => AofError::Locked { path: target.to_owned(), pid },
        LockError::Io(e) => AofError::io("lock", &layout.lock_file())(e),
    })?;
    // Somebody may have been quicker.
    check_target(&*storage, &layout, &identity)?;
    store_location(&*storage, &layout, &tier.location())?;
    let reach = ColdStore::of_reader(Arc::clone(&tier));
    let refused = bring(&tier, &storage, &SystemClock, &layout, &identity, &reach)?;
    let mut work = Restore { tier, storage, layout, identity, bytes: 0, lost: BTreeMap::new() };
    work.lost.extend(refused.into_iter().map(|(id, reason)| (id.as_u64(), reason)));
    work.fetch(options.download, progress)?;
    work.report()
}

/// The stream's identity; where its object was lost, what the first segment tells.
fn identify(tier: &ColdTier, found: FoundStream) -> Result<StreamIdentity> {
    let mut identity = found.identity_or_derived();
    if found.identity.is_some() {
        return Ok(identity);
    }
    if let Some(known) = tier.identity(identity.stream_id)? {
        return Ok(known);
    }
    let first = found.listed.get(..1).unwrap_or_default();
    tier.indexes(identity.stream_id, first, |_, index| {
        if let Ok(index) = index {
            identity.format = index.summary.format;
            identity.created_at_ns = index.summary.created_at_ns;
        }
        Ok(())
    })?;
    Ok(identity)
}

/// Refuses a directory that holds another log than this.
fn check_target(storage: &dyn Storage, layout: &Layout, identity: &StreamIdentity) -> Result<()> {
    let refused = |what: String| {
        let root = layout.root().display();
        let reason = format!("{root} holds {what}; restore into another directory");
        Err(AofError::InvalidConfig { field: "target", reason })
    };
    match layout.load_identity(storage)? {
        Some(known) if known.stream_id == identity.stream_id => Ok(()),
        Some(known) if known.name == identity.name => {
            refused(format!("another log that is called {:?} too", known.name))
        }
        Some(known) => refused(format!("the log {:?}", known.name)),
        None => {
            let dir = layout.segments_dir();
            let has_dir = storage.exists(&dir).map_err(AofError::io("look for", &dir))?;
            match has_dir && !layout.list(storage)?.segments.is_empty() {
                true => refused("segments of a log".into()),
                false => Ok(()),
            }
        }
    }
}

/// A restore whose directory is a log by now.
struct Restore {
    tier: Arc<ColdTier>,
    storage: Arc<dyn Storage>,
    layout: Layout,
    identity: StreamIdentity,
    /// Compressed bytes fetched.
    bytes: u64,
    /// Segments that could not be brought back, and why.
    lost: BTreeMap<u64, String>,
}

impl Restore {
    fn reach(&self) -> Arc<ColdStore> {
        ColdStore::of_reader(Arc::clone(&self.tier))
    }

    /// Fetches the segments that are in the bucket only.
    fn fetch(&mut self, download: bool, progress: Progress<'_>) -> Result<()> {
        let survey = Survey::take(&*self.storage, &self.layout, &self.reach())?;
        let mut at = RestoreProgress::default();
        let mut wanted: Vec<Arc<Artifact>> = Vec::new();
        for found in &survey.found {
            let Some(cold) = &found.copies.cold else { continue };
            let bytes = cold.len();
            at.segments_total += 1;
            at.bytes_total += bytes;
            if download && found.copies.nearest() == Residency::Cold {
                wanted.push(Arc::clone(&cold.artifact));
            } else {
                at.segments_done += 1;
                at.bytes_done += bytes;
            }
        }
        tell(progress, at)?;
        let (bytes, lost) = (&mut self.bytes, &mut self.lost);
        let files = WarmFiles { storage: &*self.storage, layout: &self.layout };
        fetch_all(files, wanted, &mut |news| {
            match news {
                News::Copied(bytes) => at.bytes_done += bytes,
                News::Ended { artifact, outcome, copied } => {
                    let len = artifact.index().artifact_len();
                    match outcome {
                        Ok(()) => *bytes += len,
                        Err(error) if is_objects_fault(&error) => {
                            tracing::error!(%error, "a segment is not restored");
                            let name = artifact.source().name().display();
                            let id = artifact.meta().segment_id.as_u64();
                            lost.insert(id, format!("{name}: {error}"));
                        }
                        Err(error) => return Err(error),
                    }
                    at.segments_done += 1;
                    at.bytes_done += len.saturating_sub(copied);
                }
            }
            tell(progress, at)
        })
    }

    fn report(self) -> Result<RestoreReport> {
        let reader =
            AofReader::open_with(Arc::clone(&self.storage), self.reach(), self.layout.root())?;
        let mut report = RestoreReport {
            name: self.identity.name.clone(),
            stream_id: self.identity.stream_id,
            segments: 0,
            records: 0,
            bytes: self.bytes,
            first_offset: reader.earliest_offset()?,
            next_offset: reader.watermarks()?.durable,
            missing: Vec::new(),
        };
        let mut lost = self.lost;
        for segment in reader.segments()? {
            let refused = lost.remove(&segment.segment_id);
            let reason = refused.or(segment.damage.map(|damage| damage.to_string()));
            match reason {
                None => {
                    report.segments += 1;
                    report.records += segment.record_count;
                }
                Some(reason) => report.missing.push(MissingSegment {
                    segment_id: segment.segment_id,
                    records: segment.first_offset..segment.first_offset + segment.record_count,
                    reason,
                }),
            }
        }
        // Nothing behind these says where they end.
        report.missing.extend(lost.into_iter().map(|(segment_id, reason)| MissingSegment {
            segment_id,
            records: report.next_offset..u64::MAX,
            reason,
        }));
        report.missing.sort_by_key(|missing| missing.segment_id);
        Ok(report)
    }
}

fn tell(progress: Progress<'_>, at: RestoreProgress) -> Result<()> {
    match progress(at) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(AofError::Cancelled),
    }
}

/// Whether it is this object that is wrong, so that others may be right.
fn is_objects_fault(error: &AofError) -> bool {
    match error {
        AofError::Corrupt(_) | AofError::Foreign { .. } => true,
        AofError::Cold(error) => matches!(
            error.kind,
            ObjectErrorKind::NotFound | ObjectErrorKind::Corrupt | ObjectErrorKind::InvalidRequest
        ),
        _ => false,
    }
}
