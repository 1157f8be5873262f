//! What the log tells the manifest: which segments were opened, sealed and let go.
//!
//! Each record is made in the critical section of the change it tells of: the lock
//! here is held while a segment gets its footer, and while its file goes. It is taken
//! by background steps and by calls about the manifest, never by an append or a flush,
//! and it may be held across I/O. A segment that a flush gave its name is recorded as
//! opened by the next background step.
//!
//! The segment files stay the truth. A manifest that cannot be written stops nothing:
//! it is let go, counted, and the next opening (or switching it off and on) records
//! what it missed. So a crash anywhere leaves a manifest that is behind the files at
//! most by what `reconcile_files` finds.

mod compare;
mod lifecycle;
mod maintain;
mod reconcile;
mod record;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::state::{Store, Unsealed};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::manifest::{Manifest, ManifestMode};

use compare::SHADOW_COMPARE_MS;
pub(super) use record::{compressed, evict, evict_warm};

/// The manifest of an open stream, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    state: Mutex<State>,
    /// Times the manifest could not be written.
    failures: AtomicU64,
}

#[derive(Debug)]
struct State {
    mode: ManifestMode,
    manifest: Option<Arc<Manifest>>,
    /// First segment that is not recorded as opened yet.
    next_opened: SegmentId,
    /// Segments in which a failed flush of an earlier writer left bytes.
    doubtful: Vec<SegmentId>,
    /// When a shadow is compared with the files; `None` when nothing was recorded since
    /// it was.
    compare_at_ms: Option<u64>,
    /// Whether no writer will record anything any more.
    is_stopped: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            mode: ManifestMode::Disabled,
            manifest: None,
            next_opened: SegmentId::from_u64(0),
            doubtful: Vec::new(),
            compare_at_ms: None,
            is_stopped: false,
        }
    }
}

impl State {
    fn manifest(&self) -> Result<&Manifest> {
        if self.is_stopped {
            return Err(AofError::Closed);
        }
        self.manifest.as_deref().ok_or_else(|| AofError::InvalidConfig {
            field: "manifest_mode",
            reason: match self.mode {
                ManifestMode::Disabled => "the manifest of this log is disabled".into(),
                _ => "the manifest failed and was let go; switch it off and on again".into(),
            },
        })
    }
}

impl Store {
    fn lock_transitions(&self) -> Result<MutexGuard<'_, State>> {
        self.check_not_forked()?;
        let state = self.transitions.state.lock();
        if state.is_stopped { Err(AofError::Closed) } else { Ok(state) }
    }

    /// Lets a manifest that failed go.
    fn tell(&self, state: &mut State, say: impl FnOnce(&Manifest) -> Result<()>) {
        let Some(manifest) = &state.manifest else { return };
        if let Err(error) = say(manifest) {
            self.let_go_of(state);
            self.note_manifest_failure(&error);
        }
        state.compare_at_ms.get_or_insert(self.now_ms() + SHADOW_COMPARE_MS);
        self.manifest_changed();
    }

    /// Closes a manifest that failed, so that it can be opened again.
    fn let_go_of(&self, state: &mut State) {
        if let Some(manifest) = state.manifest.take() {
            let _ = manifest.close();
        }
    }

    fn note_manifest_failure(&self, error: &AofError) {
        self.transitions.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, "the manifest is not written until the log is opened again");
    }

    /// Lets the manifest go if an error was its last.
    fn drop_poisoned(&self, state: &mut State, error: &AofError) {
        if state.manifest.as_ref().is_some_and(|manifest| manifest.poison().is_some()) {
            self.let_go_of(state);
            self.note_manifest_failure(error);
        }
    }

    /// Runs on the manifest; its error is the caller's, and lets the manifest go only if
    /// it failed for good.
    fn with_manifest<T>(&self, run: impl FnOnce(&Manifest) -> Result<T>) -> Result<T> {
        let mut state = self.lock_transitions()?;
        self.tell_opened_in(&mut state);
        let result = run(state.manifest()?);
        if let Err(error) = &result {
            self.drop_poisoned(&mut state, error);
        }
        self.manifest_changed();
        result
    }

    fn manifest_changed(&self) {
        if let Ok(owner) = self.owner() {
            owner.manifest_changed();
        }
    }

    fn unsealed(&self) -> Vec<Unsealed> {
        self.owner().map_or_else(|_| Vec::new(), |owner| owner.unsealed())
    }
}
