//! The files of a log by name and kind, found without refusing any of them.

use std::path::PathBuf;
use std::time::Duration;

use super::ends::{Body, Ends};
use super::identity::{find_identity, load_identity, read_prefix};
use super::report::{Problem, ProblemKind, Severity};
use crate::error::{AofError, Result};
use crate::format::{
    FormatError, SegmentFileName, SegmentFormat, SegmentId, StreamId, StreamIdentity,
    WATERMARK_LEN, WatermarkBody, WatermarkState,
};
use crate::io::Storage;
use crate::store::{Layout, Listing, SegmentNames, load_claim};

/// How often something suspicious is looked at again before it is believed.
pub(super) const LOOKS_MAX: u32 = 6;

/// Lets a writer that was in the middle of something finish it.
pub(super) fn pause(look: u32) {
    std::thread::sleep(Duration::from_millis(u64::from(2 * look)));
}

/// What the watermark file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) body: Option<WatermarkBody>,
    /// The file's used bytes, if it exists.
    bytes: Option<Vec<u8>>,
}

impl Claim {
    /// There is no such file.
    pub(super) fn none() -> Self {
        Self { body: None, bytes: None }
    }

    pub(super) fn load(storage: &dyn Storage, layout: &Layout, stream_id: StreamId) -> Self {
        let path = layout.watermark_file();
        let bytes = read_prefix(storage, &path, WATERMARK_LEN).ok().flatten();
        let mut body = None;
        for look in 0..LOOKS_MAX {
            body = load_claim(storage, &path, stream_id);
            if body.is_some() || bytes.is_none() {
                break;
            }
            pause(look);
        }
        Self { body, bytes }
    }

    pub(super) fn durable_count(&self) -> u64 {
        self.body.map_or(0, |body| body.durable_count)
    }

    pub(super) fn is_unreadable(&self) -> bool {
        self.bytes.is_some() && self.body.is_none()
    }

    /// Whether nobody can be writing: the last writer closed, or there never was one.
    fn is_idle(&self) -> bool {
        match &self.body {
            Some(body) => body.state == WatermarkState::Closed,
            None => self.bytes.is_none(),
        }
    }
}

/// The log's files.
#[derive(Debug)]
pub(super) struct Inventory {
    pub(super) identity: StreamIdentity,
    /// Whether the `stream` file says exactly that.
    pub(super) identity_is_stored: bool,
    /// Segments, oldest first, one per id: what readers read.
    pub(super) segments: Vec<Ends>,
    /// Compressed copies of segments that are read from elsewhere.
    pub(super) copies: Vec<Ends>,
    /// Files in the way.
    pub(super) foreign: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
    pub(super) claim: Claim,
    /// Whether a writer may be at work.
    pub(super) may_be_written: bool,
}

impl Inventory {
    /// Of a stream without any files.
    pub(super) fn of_identity(identity: StreamIdentity) -> Self {
        Self {
            identity,
            identity_is_stored: true,
            segments: Vec::new(),
            copies: Vec::new(),
            foreign: Vec::new(),
            problems: Vec::new(),
            claim: Claim::none(),
            may_be_written: false,
        }
    }

    /// Looks until it finds no damage, or the same damage twice.
    pub(super) fn take(storage: &dyn Storage, layout: &Layout, exclusive: bool) -> Result<Self> {
        let mut last = Self::take_once(storage, layout, exclusive)?;
        for look in 1..LOOKS_MAX {
            if last.problems.is_empty() || exclusive {
                break;
            }
            pause(look);
            let again = Self::take_once(storage, layout, exclusive)?;
            let same = again.problems == last.problems;
            last = again;
            if same {
                break;
            }
        }
        Ok(last)
    }

    fn take_once(storage: &dyn Storage, layout: &Layout, exclusive: bool) -> Result<Self> {
        layout.check_is_log(storage)?;
        let stored = load_identity(storage, layout)?;
        let format = stored.as_ref().map_or(SegmentFormat::Full, |i| i.format);
        // The claim before the list: the segments that it speaks of are named by then.
        let early = stored.as_ref().map(|i| Claim::load(storage, layout, i.stream_id));
        let listed = Listing::take(storage, layout)?;
        let after = read_prefix(storage, &layout.watermark_file(), WATERMARK_LEN)?;
        let ends = load_all(storage, layout, &listed, format)?;
        if stored.is_none() && ends.is_empty() && after.is_none() {
            return Err(AofError::NotALog {
                path: layout.root().to_owned(),
                reason: "it has neither a stream file nor a segment".into(),
            });
        }
        let identity = find_identity(storage, layout, stored.as_ref(), &ends, after.as_deref())?;
        let same_stream = stored.as_ref().is_some_and(|i| i.stream_id == identity.stream_id);
        let claim = early
            .filter(|_| same_stream)
            .unwrap_or_else(|| Claim::load(storage, layout, identity.stream_id));
        let is_idle = claim.is_idle() && claim.bytes == after;
        let mut inventory = Self {
            identity_is_stored: stored.as_ref() == Some(&identity),
            segments: Vec::new(),
            copies: Vec::new(),
            foreign: Vec::new(),
            problems: Vec::new(),
            may_be_written: !exclusive && !is_idle,
            claim,
            identity,
        };
        inventory.note_root_files(layout, stored.is_some());
        inventory.note_names(layout, &listed);
        let mut ends = ends;
        if ends.iter().any(|e| e.format != inventory.identity.format && e.valid_header().is_none())
        {
            ends = load_all(storage, layout, &listed, inventory.identity.format)?;
        }
        inventory.sort_out(storage, ends)?;
        Ok(inventory)
    }

    fn note_root_files(&mut self, layout: &Layout, found_identity: bool) {
        if !self.identity_is_stored {
            let detail = match found_identity {
                false => "the stream file is missing or damaged".to_owned(),
                true => format!(
                    "the stream file names another stream than the segments, {}",
                    self.identity.stream_id
                ),
            };
            self.note(ProblemKind::Identity, Severity::Damage, layout.stream_file(), detail);
        }
        if self.claim.is_unreadable() {
            let detail = "the watermark file is damaged; what had been durable is proven by the \
                          segments alone"
                .to_owned();
            self.note(ProblemKind::Watermark, Severity::Notice, layout.watermark_file(), detail);
        }
    }

    fn note_names(&mut self, layout: &Layout, listed: &Listing) {
        for (path, reason) in &listed.foreign {
            self.add_foreign(path.clone(), (*reason).to_owned());
        }
        for path in &listed.strangers {
            let detail = "not a file of this log; ignored".to_owned();
            self.note(ProblemKind::Foreign, Severity::Notice, path.clone(), detail);
        }
        if !self.may_be_written {
            let dir = layout.segments_dir();
            let spares = listed.spares.iter().map(|spare| dir.join(spare.to_string()));
            for path in spares.chain(listed.temporaries.iter().cloned()) {
                let detail = match path.starts_with(&dir) {
                    true => "left by a writer that is gone; the next one removes it".to_owned(),
                    false => "left by a writer that is gone; nobody reads it".to_owned(),
                };
                self.note(ProblemKind::Leftover, Severity::Notice, path, detail);
            }
        }
    }

    /// Compressed copies of a segment that is read from elsewhere.
    pub(super) fn copies_of(&self, segment_index: u32) -> impl Iterator<Item = &Ends> {
        self.copies.iter().filter(move |copy| copy.index() == segment_index)
    }

    /// Keeps the files of this stream, one per segment.
    fn sort_out(&mut self, storage: &dyn Storage, all: Vec<Ends>) -> Result<()> {
        let mut ours = Vec::with_capacity(all.len());
        for ends in all {
            match self.why_foreign(storage, &ends)? {
                Some(reason) => self.add_foreign(ends.path, reason),
                None => ours.push(ends),
            }
        }
        // Of several with one id, the one that has it in its name as well comes first.
        ours.sort_by_key(|e| {
            let is_wrong = (e.name != e.given, e.header == Ok(None));
            (e.index(), e.residency(), is_wrong, e.rank())
        });
        for ends in ours {
            match self.segments.last() {
                Some(kept) if kept.index() == ends.index() => match ends.body {
                    Body::File => {
                        let kept = kept.given;
                        self.note_twin(ends, &kept);
                    }
                    Body::Warm(_) => self.copies.push(ends),
                    // Not read while there is another.
                    Body::Cold(_) => {}
                },
                _ => self.segments.push(ends),
            }
        }
        self.drop_misfits();
        Ok(())
    }

    /// A segment that was replaced by a larger one before its first record leaves a
    /// blank twin until the writer, or recovery, removes it.
    fn note_twin(&mut self, twin: Ends, kept: &SegmentFileName) {
        let blank = matches!((&twin.header, &twin.footer), (Ok(None), Ok(None)));
        if !blank {
            self.add_foreign(twin.path, format!("{kept} is the same segment"));
        } else if !self.may_be_written {
            let detail = format!("never used, replaced by {kept}; the next writer removes it");
            self.note(ProblemKind::Leftover, Severity::Notice, twin.path, detail);
        }
    }

    fn why_foreign(&self, storage: &dyn Storage, ends: &Ends) -> Result<Option<String>> {
        let ours = self.identity.stream_id;
        if ends.name.segment_id >= SegmentId::MAX || ends.given.segment_id >= SegmentId::MAX {
            return Ok(Some("no log has that many segments".into()));
        }
        let Some(header) = ends.valid_header() else {
            // A torn header has lost whole words, so its first one is right or zero.
            let is_other = matches!(
                ends.header,
                Err(FormatError::BadMagic { found: 1.. }
                    | FormatError::UnsupportedVersion { found: 1.. })
            );
            let ok = !is_other
                || match ends.may_be_ours(storage, ours) {
                    Err(error) if error.is_not_found() => true,
                    other => other?,
                };
            return Ok((!ok).then(|| "it is not a segment of this stream".into()));
        };
        if let Some(found) = ends.stream_id().filter(|&found| found != ours) {
            return Ok(Some(format!("it belongs to stream {found}, this is {ours}")));
        }
        // A compact header does not name its stream, but when it was made, to the
        // nanosecond: nobody renames that.
        let name = &ends.name;
        let other_file = matches!(ends.body, Body::File)
            && header.format == SegmentFormat::Compact
            && ends.given.created_at_ns != name.created_at_ns;
        Ok(other_file.then(|| format!("its header is that of {name}")))
    }

    /// Compact segments do not name their stream. One that fits neither the segment
    /// before it nor the one behind it, which fit its place, is of another stream.
    fn drop_misfits(&mut self) {
        let misfits: Vec<usize> = (1..self.segments.len().saturating_sub(1))
            .filter(|&i| {
                let [before, here, behind] = &self.segments[i - 1..=i + 1] else { return false };
                let adjacent =
                    before.index() + 1 == here.index() && here.index() + 1 == behind.index();
                let compact = here.format == SegmentFormat::Compact
                    && here.valid_header().is_some()
                    && here.stream_id().is_none();
                let (Some(start), Some(end)) = (before.end_base(), here.end_base()) else {
                    return false;
                };
                adjacent
                    && compact
                    && start != here.name.base_offset
                    && end != behind.name.base_offset
            })
            .collect();
        for i in misfits.into_iter().rev() {
            let ends = self.segments.remove(i);
            self.add_foreign(ends.path, "it fits neither of its neighbours".into());
        }
    }

    fn add_foreign(&mut self, path: PathBuf, reason: String) {
        self.note(ProblemKind::Foreign, Severity::Damage, path.clone(), reason);
        self.foreign.push(path);
    }

    fn note(&mut self, kind: ProblemKind, severity: Severity, path: PathBuf, detail: String) {
        self.problems.push(Problem { kind, severity, path, offset: 0, records: 0..0, detail });
    }
}

/// Ids of the segments there are now, wherever they are.
pub(super) fn list_ids(storage: &dyn Storage, layout: &Layout) -> Result<Vec<u32>> {
    let listed = Listing::take(storage, layout)?;
    Ok(listed.segments.iter().map(|names| names.segment_id.as_u32()).collect())
}

/// Where readers find a segment now; `None` if it is nowhere any more.
pub(super) fn find_now(
    storage: &dyn Storage,
    layout: &Layout,
    segment_index: u32,
    format: SegmentFormat,
) -> Result<Option<Ends>> {
    let listed = Listing::take(storage, layout)?;
    let segment_id = SegmentId::from_u64(u64::from(segment_index));
    let Some(names) = listed.find(segment_id) else { return Ok(None) };
    Ok(load(storage, layout, names, format)?.into_iter().min_by_key(Ends::rank))
}

/// Every copy of every segment.
fn load_all(
    storage: &dyn Storage,
    layout: &Layout,
    listed: &Listing,
    format: SegmentFormat,
) -> Result<Vec<Ends>> {
    let mut all = Vec::with_capacity(listed.segments.len());
    let mut listed_again = None;
    for names in &listed.segments {
        let mut loaded = load(storage, layout, names, format)?;
        if loaded.is_empty() {
            // Removed by retention or by a closing writer; or compressed since it was
            // listed, and its file is gone.
            let again = match &listed_again {
                Some(again) => again,
                None => listed_again.insert(Listing::take(storage, layout)?),
            };
            if let Some(names) = again.find(names.segment_id) {
                loaded = load(storage, layout, names, format)?;
            }
        }
        all.extend(loaded);
    }
    Ok(all)
}

/// The copies of a segment that are there.
fn load(
    storage: &dyn Storage,
    layout: &Layout,
    names: &SegmentNames,
    format: SegmentFormat,
) -> Result<Vec<Ends>> {
    let hot = names.hot.iter().map(|name| {
        let path = layout.segment_path(name);
        Ends::load(storage, *name, &path, format)
    });
    let warm = names.warm.iter().map(|name| {
        let path = layout.warm_path(name);
        Ends::load_warm(storage, *name, &path, format)
    });
    let cold = names.cold.iter().map(|name| {
        let path = layout.cold_path(name);
        Ends::load_cold(storage, name.artifact, &path, format)
    });
    let there = hot.chain(warm).chain(cold).filter(|loaded| match loaded {
        Err(error) => !error.is_not_found(),
        Ok(_) => true,
    });
    there.collect()
}
