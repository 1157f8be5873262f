//! The cold tier of one log, as its readers and its writer find it.
//!
//! Whoever opens a log with a cold tier says which bucket that is. Otherwise the bucket of
//! an earlier writer is opened, as the log's own directory names it, when the first cold
//! segment is found: a log without any never asks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::place;
use super::upload::Verified;
use super::writer::Writer;
use crate::bucket::ColdChunks;
use crate::bucket::ColdTier;
use crate::error::{AofError, Result};
use crate::format::{ArtifactIndex, ColdTailName, StreamId};
use crate::io::Storage;
use crate::manifest::Manifest;
use crate::segment::ArtifactSource;
use crate::store::layout::Layout;

#[derive(Debug, Default)]
pub(crate) struct ColdStore {
    /// The bucket that the log was opened with.
    tier: Option<Arc<ColdTier>>,
    /// How to find the bucket of an earlier writer.
    earlier: Option<EarlierBucket>,
    /// The right to write to the bucket.
    pub(super) writer: Writer,
    /// Whether the bucket was compared with the log since the log was opened.
    is_reconciled: AtomicBool,
    /// Held while it is.
    reconciling: Mutex<()>,
    /// The compressed file that is uploaded next, if it was verified.
    pub(super) verified: Mutex<Option<Verified>>,
    /// Objects that should have been in the bucket and were not.
    missing: AtomicU64,
}

#[derive(Debug)]
struct EarlierBucket {
    storage: Arc<dyn Storage>,
    layout: Layout,
    opened: Mutex<Option<Arc<ColdTier>>>,
}

impl ColdStore {
    /// The cold tier of a log that is opened without one.
    pub(crate) fn named_by_log(storage: Arc<dyn Storage>, root: &Path) -> Arc<Self> {
        Self::of_writer(None, storage, root)
    }

    /// The cold tier of a log that may be opened with one.
    pub(crate) fn of_writer(
        tier: Option<Arc<ColdTier>>,
        storage: Arc<dyn Storage>,
        root: &Path,
    ) -> Arc<Self> {
        let earlier =
            EarlierBucket { storage, layout: Layout::new(root), opened: Mutex::default() };
        Arc::new(Self { tier, earlier: Some(earlier), ..Self::default() })
    }

    /// The cold tier of a log that is only read, from a bucket that is known.
    pub(crate) fn of_reader(tier: Arc<ColdTier>) -> Arc<Self> {
        Arc::new(Self { tier: Some(tier), ..Self::default() })
    }

    /// The bucket that the log was opened with.
    pub(crate) fn tier(&self) -> Option<&Arc<ColdTier>> {
        self.tier.as_ref()
    }

    /// The bucket, or an error that says that there is none.
    pub(crate) fn require_tier(&self) -> Result<&Arc<ColdTier>> {
        self.tier.as_ref().ok_or_else(|| AofError::InvalidConfig {
            field: "cold",
            reason: "this log was opened without a cold tier".into(),
        })
    }

    /// The bytes of a cold segment, of its upload with this epoch. Nothing is requested yet.
    pub(crate) fn source(
        &self,
        index: &ArtifactIndex,
        epoch: u32,
    ) -> Result<Arc<dyn ArtifactSource>> {
        match (&self.tier, &self.earlier) {
            (Some(tier), _) => Ok(tier.source(index, epoch)),
            (None, Some(earlier)) => Ok(earlier.tier()?.source(index, epoch)),
            (None, None) => Ok(Arc::new(Unreachable(
                format!("segment {} (cold tier)", index.summary.segment_id).into(),
            ))),
        }
    }

    /// The index of a cold segment, from the object itself: its local copy is damaged.
    /// `None` if the object cannot be read.
    pub(crate) fn index(&self, stream_id: StreamId, name: &ColdTailName) -> Option<ArtifactIndex> {
        match (&self.tier, &self.earlier) {
            (Some(tier), _) => tier.index_named(stream_id, name),
            (None, Some(earlier)) => earlier.tier().ok()?.index_named(stream_id, name),
            (None, None) => None,
        }
    }

    /// The manifest was opened: its chunks are uploaded to the bucket, too.
    pub(crate) fn manifest_opened(&self, manifest: &Manifest) {
        if let Some(tier) = &self.tier {
            manifest.set_uploader(Arc::new(ColdChunks::writing(tier, &self.writer.lineage)));
        }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn is_reconciled(&self) -> bool {
        self.is_reconciled.load(Ordering::Acquire)
    }

    pub(super) fn set_reconciled(&self) {
        self.is_reconciled.store(true, Ordering::Release);
    }

    pub(super) fn lock_reconciling(&self) -> MutexGuard<'_, ()> {
        self.reconciling.lock()
    }

    /// Objects that should have been in the bucket and were not, since the log was opened.
    pub(crate) fn missing_count(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    pub(super) fn note_missing(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }
}

impl EarlierBucket {
    fn tier(&self) -> Result<Arc<ColdTier>> {
        let mut opened = self.opened.lock();
        if let Some(tier) = &*opened {
            return Ok(Arc::clone(tier));
        }
        let location = place::load(&*self.storage, &self.layout)?;
        let location = location.ok_or_else(|| AofError::NotALog {
            path: self.layout.root().to_owned(),
            reason: "it has segments in the cold tier, and cold/location is missing".into(),
        })?;
        let tier = ColdTier::open(&place::config(&location)?)?;
        *opened = Some(Arc::clone(&tier));
        Ok(tier)
    }
}

/// Cold bytes of a log without a cold tier.
#[derive(Debug)]
struct Unreachable(PathBuf);

impl ArtifactSource for Unreachable {
    fn len(&self) -> u64 {
        0
    }

    fn read_at(&self, _offset: u64, _len: usize) -> Result<Bytes> {
        Err(AofError::InvalidConfig {
            field: "tiers",
            reason: format!(
                "{} can be read only by a handle that was opened with the cold tier",
                self.0.display()
            ),
        })
    }

    fn name(&self) -> &Path {
        &self.0
    }
}
