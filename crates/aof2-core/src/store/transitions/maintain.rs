//! Commits, uploads and snapshots of the manifest, and what it says.

use crate::error::AofError;
use crate::error::Result;
use crate::manifest::Manifest;
use crate::manifest::ManifestIndex;
use crate::manifest::ManifestMetrics;
use crate::store::state::Store;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How soon a manifest that could not be maintained, as on a full disk, is tried again.
pub(super) const MAINTAIN_RETRY: Duration = Duration::from_millis(500);

impl Store {
    /// Background: the manifest's timers. Says when to come again; `None`: when notified.
    /// Nobody waits for what it uploads.
    pub(crate) fn maintain_manifest(&self) -> Option<Duration> {
        self.tell_opened();
        let compare_in = self.compare_shadow_if_due();
        let manifest = self.transitions.state.lock().manifest.clone()?;
        let maintain_in = manifest.maintain_local().unwrap_or_else(|error| {
            self.drop_poisoned(&mut self.transitions.state.lock(), &error);
            // What could not be written is still there to be written.
            manifest.poison().is_none().then_some(MAINTAIN_RETRY)
        });
        maintain_in.into_iter().chain(compare_in).min()
    }

    /// Uploads what is sealed of the manifest, where a store was named for it. Says when
    /// to come again.
    pub(crate) fn upload_manifest(&self) -> Option<Duration> {
        let manifest = self.transitions.state.lock().manifest.clone()?;
        manifest.maintain_store().unwrap_or_else(|error| {
            self.drop_poisoned(&mut self.transitions.state.lock(), &error);
            manifest.poison().is_none().then_some(MAINTAIN_RETRY)
        })
    }

    /// Whether the manifest waits for its store.
    pub(crate) fn has_manifest_to_upload(&self) -> bool {
        let state = self.transitions.state.lock();
        state.manifest.as_ref().is_some_and(|manifest| manifest.has_chunks_to_upload())
    }

    /// Looks at what the manifest adds up to; `None` while there is none.
    pub(crate) fn look_at_manifest<T>(&self, look: impl FnOnce(&ManifestIndex) -> T) -> Option<T> {
        let manifest = self.transitions.state.lock().manifest.clone()?;
        Some(manifest.with_index(look))
    }

    pub(crate) fn commit_manifest(&self) -> Result<()> {
        self.with_manifest(Manifest::commit)
    }

    pub(crate) fn snapshot_manifest(&self) -> Result<u64> {
        self.with_manifest(Manifest::snapshot)
    }

    /// Compares what the manifest takes for uploaded with what the store holds.
    pub(crate) fn check_manifest_uploads(&self) -> Result<()> {
        // Asked without the lock: recording must not wait for a store.
        let manifest = self.transitions.state.lock().manifest.clone();
        let Some(manifest) = manifest else { return Ok(()) };
        manifest.check_uploads().map_err(|error| {
            let cause = std::io::Error::other(error.to_string());
            AofError::io("list manifest chunks", self.layout().root())(cause)
        })
    }

    pub(crate) fn manifest_index(&self) -> Result<ManifestIndex> {
        self.with_manifest(|manifest| Ok(manifest.index()))
    }

    pub(crate) fn manifest_metrics(&self) -> Option<ManifestMetrics> {
        self.transitions.state.lock().manifest.as_ref().map(|manifest| manifest.metrics())
    }

    pub(crate) fn manifest_failures(&self) -> u64 {
        self.transitions.failures.load(Ordering::Relaxed)
    }
}
