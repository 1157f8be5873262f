//! Noticing `fork()`. A forked child has the parent's handles but none of its
//! threads, so a log opened by the parent must not be touched by the child.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lock::{after_fork, before_fork};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static HOOK: Once = Once::new();

extern "C" fn after_fork_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    after_fork();
}

/// Remembers which process made it; cheap to check on every call.
#[derive(Clone, Copy, Debug)]
pub struct ForkStamp {
    generation: u64,
}

impl ForkStamp {
    /// A stamp of this process.
    pub fn now() -> Self {
        HOOK.call_once(|| {
            // SAFETY: the handlers touch a static atomic and a mutex that the first of them
            // locks and the others unlock. A failure (out of memory) leaves forks unnoticed.
            unsafe {
                libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child))
            };
        });
        Self { generation: GENERATION.load(Ordering::Relaxed) }
    }

    /// Whether this process is a forked child of the one that made the stamp.
    #[inline]
    pub fn is_forked(self) -> bool {
        GENERATION.load(Ordering::Relaxed) != self.generation
    }
}
