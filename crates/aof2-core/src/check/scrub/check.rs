//! Whether one copy of a segment is what it should be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pace::{Pace, PacedSource};
use crate::bucket::ColdTier;
use crate::error::{AofError, Result};
use crate::format::{Crc64, SEGMENT_FOOTER_LEN, SegmentFooter};
use crate::io::{File, OpenMode};
use crate::object::ObjectErrorKind;
use crate::segment::{Artifact, ArtifactSource, FileSource};
use crate::store::{ColdCopy, Residency, SealedInfo, SegmentEntry};
use crate::write::Stream;

/// Bytes of a segment file that are read at once.
const READ_LEN: usize = 1 << 20;

/// What is known of one copy.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// There is none, and there should be none.
    Absent,
    /// Every byte is as it was written.
    Good,
    /// It is damaged or gone.
    Bad(String),
    /// It could not be read, which says nothing about it.
    Unreached(String),
}

impl Verdict {
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Good)
    }

    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::Bad(_))
    }

    /// What an error says about the copy that was read. Being told to stop says nothing,
    /// and is an error of the scrub itself.
    pub(super) fn of(error: AofError) -> Result<Self> {
        match &error {
            AofError::Closed | AofError::Cancelled | AofError::Forked => Err(error),
            AofError::Corrupt(damage) => Ok(Self::Bad(damage.reason.clone())),
            AofError::Foreign { reason, .. } => Ok(Self::Bad(reason.clone())),
            AofError::Cold(cold) if cold.kind == ObjectErrorKind::NotFound => {
                Ok(Self::Bad("the object is missing".into()))
            }
            _ => Ok(match error.io_source() {
                Some(io) if io.kind() == std::io::ErrorKind::NotFound => {
                    Self::Bad("the file is missing".into())
                }
                // Its length is wrong, or the disk does not give its blocks back.
                Some(io)
                    if io.kind() == std::io::ErrorKind::UnexpectedEof
                        || io.raw_os_error() == Some(libc::EIO) =>
                {
                    Self::Bad(format!("it cannot be read ({io})"))
                }
                _ => Self::Unreached(error.to_string()),
            }),
        }
    }
}

/// Reads copies.
pub(super) struct Checker<'a> {
    pub(super) stream: &'a Stream,
    pub(super) cold: Option<&'a Arc<ColdTier>>,
    pub(super) pace: Arc<Pace>,
}

impl Checker<'_> {
    /// Reads a copy of a sealed segment and compares it with what is known of it. `told`
    /// is called from time to time.
    pub(super) fn check(
        &self,
        entry: &SegmentEntry,
        tier: Residency,
        told: &mut dyn FnMut(),
    ) -> Result<Verdict> {
        let copies = entry.copies();
        let checked = match tier {
            Residency::Hot if entry.is_hot() => self.check_hot(entry, told),
            Residency::Warm => match &copies.warm {
                Some(warm) => self.check_warm(warm, told),
                None => return Ok(Verdict::Absent),
            },
            Residency::Cold => match &copies.cold {
                Some(cold) => self.check_cold(cold, told),
                None => return Ok(Verdict::Absent),
            },
            Residency::Hot => return Ok(Verdict::Absent),
        };
        checked.or_else(Verdict::of)
    }

    /// The records by the segment's checksum, and that its footer is the one that was
    /// known when it was sealed or opened.
    fn check_hot(&self, entry: &SegmentEntry, told: &mut dyn FnMut()) -> Result<Verdict> {
        let (path, meta) = (&entry.path, &entry.meta);
        let Some(info) = entry.sealed_info() else { return Ok(Verdict::Absent) };
        if !info.from_footer {
            return Ok(Verdict::Bad("its footer is missing or damaged".into()));
        }
        let file = self
            .stream
            .store()
            .storage()
            .open(path, OpenMode::Read)
            .map_err(AofError::io("open segment", path))?;
        let len = file.len().map_err(AofError::io("read segment", path))?;
        if len != u64::from(meta.segment_bytes) {
            let expected = meta.segment_bytes;
            return Ok(Verdict::Bad(format!("the file has {len} bytes instead of {expected}")));
        }
        let found = self.crc_of(&*file, path, info.durable_bytes, told)?;
        if found != info.segment_crc64 {
            let expected = info.segment_crc64;
            let reason = format!("segment checksum {found:#018x}, {expected:#018x} in its footer");
            return Ok(Verdict::Bad(reason));
        }
        let mut footer = [0; SEGMENT_FOOTER_LEN];
        file.read_exact_at(&mut footer, u64::from(meta.space_end()))
            .map_err(AofError::io("read segment footer", path))?;
        self.pace.took(footer.len() as u64)?;
        Ok(match SegmentFooter::decode(meta.format, &footer) {
            Ok(Some(footer)) if info.is_same_content(&SealedInfo::from(&footer)) => Verdict::Good,
            Ok(Some(_)) => Verdict::Bad("its footer is not the one it was sealed with".into()),
            Ok(None) => Verdict::Bad("its footer is gone".into()),
            Err(error) => Verdict::Bad(format!("its footer does not decode ({error})")),
        })
    }

    fn crc_of(
        &self,
        file: &dyn File,
        path: &Path,
        end: u32,
        told: &mut dyn FnMut(),
    ) -> Result<u64> {
        let mut crc = Crc64::new();
        let mut chunk = vec![0; READ_LEN.min(end as usize)];
        let mut at = 0;
        while at < end as usize {
            let len = chunk.len().min(end as usize - at);
            let Some(part) = chunk.get_mut(..len) else { break };
            file.read_exact_at(part, at as u64).map_err(AofError::io("read segment", path))?;
            crc.update(part);
            self.pace.took(len as u64)?;
            told();
            at += len;
        }
        Ok(crc.finish())
    }

    fn check_warm(&self, known: &Artifact, told: &mut dyn FnMut()) -> Result<Verdict> {
        let paced = |source| self.paced(source);
        self.stream.store().warm_files().verify(known, &paced, &mut |_| told())?;
        Ok(Verdict::Good)
    }

    /// A compressed file that no entry names.
    pub(super) fn check_passed_over(
        &self,
        path: PathBuf,
        told: &mut dyn FnMut(),
    ) -> Result<Verdict> {
        let source = FileSource::open(self.stream.store().storage(), path);
        let opened = source.and_then(|source| Artifact::open(self.paced(Arc::new(source))));
        let verified = opened.and_then(|artifact| artifact.verify(&mut |_| told()));
        verified.map(|()| Verdict::Good).or_else(Verdict::of)
    }

    fn paced(&self, source: Arc<dyn ArtifactSource>) -> Arc<dyn ArtifactSource> {
        Arc::new(PacedSource { source, pace: Arc::clone(&self.pace) })
    }

    /// The object by ranges, its end included. Read apart from what readers fetch ahead.
    fn check_cold(&self, known: &ColdCopy, told: &mut dyn FnMut()) -> Result<Verdict> {
        let (index, epoch) = (known.artifact.index(), known.epoch);
        let Some(tier) = self.cold else {
            return Ok(Verdict::Unreached("this log was opened without a cold tier".into()));
        };
        let summary = &index.summary;
        let key = tier.key(summary.stream_id, summary.segment_id, epoch);
        let Some(len) = tier.len_of(&key)? else {
            return Ok(Verdict::Bad("the object is missing".into()));
        };
        if len != index.artifact_len() {
            let expected = index.artifact_len();
            return Ok(Verdict::Bad(format!("the object has {len} bytes instead of {expected}")));
        }
        let source = self.paced(tier.source(index, epoch));
        Artifact::with_index(source, index.clone()).verify_with_end(&mut |_| told())?;
        Ok(Verdict::Good)
    }

    /// Whether the end of the cold artifact that is kept here is as it should be.
    pub(super) fn check_tail(&self, path: &Path, expected: &[u8]) -> Result<Verdict> {
        let read = || -> Result<Verdict> {
            let file = self
                .stream
                .store()
                .storage()
                .open(path, OpenMode::Read)
                .map_err(AofError::io("open", path))?;
            let len = file.len().map_err(AofError::io("read", path))?;
            let mut found = vec![0; expected.len()];
            if len == found.len() as u64 {
                file.read_exact_at(&mut found, 0).map_err(AofError::io("read", path))?;
                self.pace.took(len)?;
            }
            Ok(match len == expected.len() as u64 && found == expected {
                true => Verdict::Good,
                false => Verdict::Bad("the index that is kept here is damaged".into()),
            })
        };
        read().or_else(Verdict::of)
    }
}
