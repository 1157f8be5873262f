//! The manifest of the stream: recording in it, and asking it.

use super::Aof;
use crate::error::Result;
use crate::format::SegmentId;
use crate::manifest::{Divergence, ManifestIndex, ManifestMode};

impl Aof {
    /// Whether what happens to segments is recorded.
    pub fn manifest_mode(&self) -> ManifestMode {
        self.stream().store().manifest_mode()
    }

    /// Starts or stops recording what happens to segments. Starting records what is
    /// there; `Enabled` fails if an existing manifest is damaged, `Shadow` goes on
    /// without it and counts the failure.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.seal()?;
    /// log.set_manifest_mode(ManifestMode::Enabled)?;
    /// assert!(log.manifest_index()?.segments().next().is_some_and(|s| s.hot));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_manifest_mode(&self, mode: ManifestMode) -> Result<()> {
        self.stream().store().set_manifest_mode(mode)
    }

    /// Records an event of the user's own, about a segment (by default the newest one).
    /// Returns its ordinal in the manifest; [`Aof::commit_manifest`] makes it durable.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.set_manifest_mode(ManifestMode::Enabled)?;
    /// log.record_event(None, 7, b"backup taken")?;
    /// log.commit_manifest()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_event(
        &self,
        segment: Option<SegmentId>,
        schema_id: u32,
        blob: &[u8],
    ) -> Result<u64> {
        self.stream().store().record_event(segment, schema_id, blob)
    }

    /// Returns when everything recorded in the manifest is durable.
    pub fn commit_manifest(&self) -> Result<()> {
        self.stream().store().commit_manifest()
    }

    /// Writes a snapshot of the manifest's index, from which replay starts; its id.
    pub fn snapshot_manifest(&self) -> Result<u64> {
        self.stream().store().snapshot_manifest()
    }

    /// What the manifest says of the segments.
    pub fn manifest_index(&self) -> Result<ManifestIndex> {
        self.stream().store().manifest_index()
    }

    /// Compares the manifest with the segment files; empty when they agree.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.set_manifest_mode(ManifestMode::Shadow)?;
    /// assert!(log.compare_manifest()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_manifest(&self) -> Result<Vec<Divergence>> {
        self.stream().store().compare_manifest()
    }
}
