//! Checking a log that is read from an object store alone.
//!
//! Every object is read once as a whole and judged as a compressed file in `warm/` is:
//! frames, records, footer, index, and that one segment goes on where the one before it
//! ended. Nothing is written. Of each of two objects a few pieces are in memory, and one
//! frame is decompressed at a time.
//!
//! A writer may upload, replace and delete objects meanwhile. One that is gone is looked
//! for again: under the key of a later upload, or nowhere any more, if retention took it.

use std::path::PathBuf;
use std::sync::Arc;

use super::chain::{CheckedLog, Missing};
use super::check::Checked;
use super::compressed::{Compressed, Flaw};
use super::ends::Ends;
use super::facts::Facts;
use super::inventory::{Claim, Inventory, LOOKS_MAX};
use super::judge::Judge;
use super::report::{Problem, ProblemKind, Severity, VerifyProgress, VerifyReport};
use super::windowed::Windowed;
use super::{Progress, tell};
use crate::bucket::Archive;
use crate::bucket::ArchivedObject;
use crate::error::{AofError, Result};
use crate::format::{SegmentId, StreamIdentity, WarmFileName};
use crate::io::OsStorage;
use crate::segment::{Artifact, ArtifactSource};
use crate::store::Layout;
use crate::store::Residency;

/// Checks what was listed. `identity` is what the stream's own object says, or a guess,
/// and then `identity_flaw` says why.
pub(crate) fn verify_archive(
    archive: &dyn Archive,
    identity: StreamIdentity,
    identity_flaw: Option<String>,
    listed: &[ArchivedObject],
    progress: Progress<'_>,
) -> Result<VerifyReport> {
    let mut inventory = Inventory::of_identity(identity);
    inventory.problems.extend(identity_flaw.map(|detail| Problem {
        kind: ProblemKind::Identity,
        ..damage(archive.url().to_owned(), detail)
    }));
    let mut check = ArchiveCheck { archive, inventory, has_vanished: false };
    let segments = check.segments(listed, progress)?;
    let ArchiveCheck { inventory, has_vanished, .. } = check;
    let mut log = CheckedLog { inventory, segments, chain: Vec::new(), is_outrun: false };
    if has_vanished {
        // What retention removed meanwhile is no longer part of the log.
        let oldest = archive.list()?.first().map_or(u32::MAX, |object| object.segment_id.as_u32());
        log.segments.retain(|segment| segment.facts.ends.index() >= oldest);
    }
    let place =
        |segment_index: u32| archive.name_of_missing(SegmentId::from_u64(u64::from(segment_index)));
    log.check_chain(&Missing { noun: "object", place: &place });
    let mut report = log.into_report(&Layout::new(archive.url()));
    for segment in &mut report.segments {
        segment.residency = Residency::Cold;
    }
    Ok(report)
}

fn damage(path: PathBuf, detail: String) -> Problem {
    let severity = Severity::Damage;
    Problem { kind: ProblemKind::Foreign, severity, path, offset: 0, records: 0..0, detail }
}

struct ArchiveCheck<'a> {
    archive: &'a dyn Archive,
    inventory: Inventory,
    /// Whether an object that was listed is not there any more.
    has_vanished: bool,
}

impl ArchiveCheck<'_> {
    fn segments(
        &mut self,
        listed: &[ArchivedObject],
        progress: Progress<'_>,
    ) -> Result<Vec<Checked>> {
        let bytes_total = listed.iter().map(|object| object.len).sum();
        let at = |segment_id, segments_done: usize, bytes_done| VerifyProgress {
            segment_id,
            segments_done: segments_done as u64,
            segments_total: listed.len() as u64,
            bytes_done,
            bytes_total,
        };
        let mut bytes_done = 0;
        let mut checked: Vec<Checked> = Vec::with_capacity(listed.len());
        let mut coming = None;
        for (i, object) in listed.iter().enumerate() {
            let segment_id = object.segment_id.as_u64();
            tell(progress, at(segment_id, i, bytes_done))?;
            let here = match coming.take() {
                Some(here) => here,
                None => self.load(object, None)?,
            };
            let base_offset = here.as_ref().and_then(Ends::end_base);
            // What stands behind a segment tells how many records it had.
            let next = match listed.get(i + 1) {
                Some(next) => Some(self.load(next, base_offset)?),
                None => None,
            };
            if let Some(ends) = here {
                let previous = checked.last().map(|segment| &segment.facts);
                let previous = previous.filter(|p| p.ends.index() + 1 == ends.index());
                let behind = next.as_ref().and_then(Option::as_ref);
                let found = self.check_twice(object, ends, previous, behind)?;
                checked.extend(found);
            }
            coming = next;
            bytes_done += object.len;
        }
        if let Some(last) = listed.last() {
            let segment_id = last.segment_id.as_u64();
            tell(progress, at(segment_id, listed.len(), bytes_done))?;
        }
        Ok(checked)
    }

    /// Both ends of an object. `None` if it is gone or not of this stream, which is noted.
    fn load(&mut self, object: &ArchivedObject, base_offset: Option<u64>) -> Result<Option<Ends>> {
        let mut object = object.clone();
        for _ in 0..LOOKS_MAX {
            match self.try_load(&object, base_offset) {
                Ok(ends) => return Ok(self.ours(&object, ends)),
                Err(AofError::Foreign { path, reason }) => {
                    self.inventory.problems.push(damage(path, reason));
                    return Ok(None);
                }
                Err(error) if error.is_object_gone() => match self.look_again(&object)? {
                    Some(now) => object = now,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The upload that took the place of one that is gone.
    fn look_again(&mut self, gone: &ArchivedObject) -> Result<Option<ArchivedObject>> {
        self.has_vanished = true;
        let listed = self.archive.list()?;
        Ok(listed.into_iter().find(|object| object.segment_id == gone.segment_id))
    }

    fn try_load(&self, object: &ArchivedObject, base_offset: Option<u64>) -> Result<Ends> {
        let format = self.inventory.identity.format;
        let source = Windowed::new(self.archive.source(object)) as Arc<dyn ArtifactSource>;
        let path = source.name().to_owned();
        let compressed = match Artifact::open(Arc::clone(&source)) {
            Ok(artifact) => {
                let index = artifact.index().clone();
                Compressed::by_index(source, WarmFileName::of(&index.summary), index)?
            }
            Err(AofError::Corrupt(found)) => {
                // The key tells nothing but which segment it is.
                let name = WarmFileName {
                    segment_id: object.segment_id,
                    base_offset: base_offset.unwrap_or(0),
                    sealed_at_ns: 0,
                };
                let flaw = Flaw { offset: found.offset, detail: found.reason };
                Compressed::by_search(source, name, flaw, format)?
            }
            Err(error) => return Err(error),
        };
        Ok(Ends::of_compressed(compressed, path, format))
    }

    /// Notes an object that is of another stream, or of another segment than its key says.
    fn ours(&mut self, object: &ArchivedObject, ends: Ends) -> Option<Ends> {
        let ours = self.inventory.identity.stream_id;
        let reason = match ends.stream_id() {
            Some(found) if found != ours => {
                format!("it belongs to stream {found}, this is {ours}")
            }
            _ if ends.name.segment_id != object.segment_id => {
                format!(
                    "it is segment {}, its key says {}",
                    ends.name.segment_id, object.segment_id
                )
            }
            _ => return Some(ends),
        };
        self.inventory.problems.push(damage(ends.path, reason));
        None
    }

    /// What is wrong is read once more before it is believed: bytes may have been damaged
    /// on their way here.
    fn check_twice(
        &mut self,
        object: &ArchivedObject,
        ends: Ends,
        previous: Option<&Facts>,
        next: Option<&Ends>,
    ) -> Result<Option<Checked>> {
        let mut ends = Some(ends);
        let mut first: Option<Checked> = None;
        for _ in 0..LOOKS_MAX {
            let Some(here) = ends.take() else { return Ok(None) };
            let base_offset = Some(here.name.base_offset);
            match self.check(here, previous, next) {
                Ok(mut checked) => {
                    if let Some(first) = &first {
                        checked.problems.retain(|problem| first.problems.contains(problem));
                        return Ok(Some(checked));
                    }
                    if checked.problems.is_empty() {
                        return Ok(Some(checked));
                    }
                    first = Some(checked);
                }
                Err(error) if error.is_object_gone() => {}
                Err(error) => return Err(error),
            }
            ends = self.load(object, base_offset)?;
        }
        Ok(first)
    }

    fn check(&self, ends: Ends, previous: Option<&Facts>, next: Option<&Ends>) -> Result<Checked> {
        let stream_id = self.inventory.identity.stream_id;
        // Nothing of a compressed segment is asked of the storage.
        let mut hints = ends.hints(&OsStorage, stream_id, next);
        hints.previous_end = match previous {
            Some(previous) => Some(previous.walk.end_offset),
            // Every log begins at 0.
            None => (ends.index() == 0).then_some(0),
        };
        let facts = Facts::gather(&OsStorage, ends, stream_id, &hints)?;
        let judge = Judge {
            facts: &facts,
            durable: u64::MAX,
            must_be_sealed: true,
            claim: &Claim::none(),
            inventory: &self.inventory,
        };
        let problems = judge.problems(0);
        Ok(Checked {
            is_damaged: !problems.is_empty(),
            is_torn: false,
            facts,
            problems,
            copies: Vec::new(),
            worse: Vec::new(),
        })
    }
}
