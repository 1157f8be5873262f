//! Opening the manifest, switching it on and off, and ending it.

use super::State;
use crate::error::Result;
use crate::format::SegmentId;
use crate::manifest::Manifest;
use crate::manifest::ManifestMode;
use crate::store::state::Store;
use std::sync::Arc;

impl Store {
    /// Opens the manifest if the configuration asks for one.
    pub(crate) fn start_transitions(
        &self,
        mode: ManifestMode,
        doubtful: Vec<SegmentId>,
    ) -> Result<()> {
        let mut state = self.transitions.state.lock();
        state.doubtful = doubtful;
        self.switch(&mut state, mode)
    }

    /// Writes the manifest, or no longer, from now on.
    pub(crate) fn set_manifest_mode(&self, mode: ManifestMode) -> Result<()> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let mut state = self.lock_transitions()?;
        self.switch(&mut state, mode)
    }

    pub(crate) fn manifest_mode(&self) -> ManifestMode {
        self.transitions.state.lock().mode
    }

    /// A mode that cannot be switched to leaves the one before.
    pub(super) fn switch(&self, state: &mut State, mode: ManifestMode) -> Result<()> {
        if mode == ManifestMode::Disabled {
            state.mode = mode;
            return state.manifest.take().map_or(Ok(()), |manifest| manifest.close());
        }
        if state.manifest.is_none() {
            match self.open_manifest(state) {
                Ok(manifest) => {
                    self.cold().manifest_opened(&manifest);
                    state.manifest = Some(Arc::new(manifest));
                }
                // Nothing depends on a shadow.
                Err(error) if mode == ManifestMode::Shadow => self.note_manifest_failure(&error),
                Err(error) => return Err(error),
            }
        }
        state.mode = mode;
        state.compare_at_ms = Some(self.now_ms());
        self.manifest_changed();
        Ok(())
    }

    pub(super) fn open_manifest(&self, state: &mut State) -> Result<Manifest> {
        let manifest = Manifest::open(
            self.shared_storage(),
            self.shared_clock(),
            self.layout().root(),
            self.identity().stream_id,
            self.manifest_config().clone(),
        )?;
        self.reconcile_files(state, manifest)
    }

    /// Makes the manifest durable and ends it; the log is being closed.
    pub(crate) fn stop_transitions(&self) {
        let mut state = self.transitions.state.lock();
        state.is_stopped = true;
        if let Some(manifest) = state.manifest.take()
            && let Err(error) = manifest.close()
        {
            self.note_manifest_failure(&error);
        }
    }
}
