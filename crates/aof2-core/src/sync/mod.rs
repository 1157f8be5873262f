//! The synchronisation primitives of the wake-up protocols, in one place so that
//! the feature `model-check` can swap in loom's and explore every interleaving.

mod position;
mod wait;

#[cfg(all(test, feature = "model-check"))]
#[allow(clippy::unwrap_used)]
mod model_check;

pub use position::Position;
pub(crate) use position::Watermark;
pub(crate) use wait::{Interest, Signal, WaitQueue};

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

#[cfg(not(feature = "model-check"))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::thread::{Thread, current, park, yield_now};
    use std::time::Instant;

    pub(crate) type Guard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock()
        }
    }

    /// Parks until unparked or the deadline; whether the deadline passed.
    pub(crate) fn park_until(deadline: Instant) -> bool {
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => {
                std::thread::park_timeout(left);
                false
            }
            _ => true,
        }
    }
}

#[cfg(feature = "model-check")]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::{Thread, current, park, yield_now};
    use std::time::Instant;

    pub(crate) type Guard<'a, T> = loom::sync::MutexGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    /// The model has no clock: deadlines never pass.
    pub(crate) fn park_until(_deadline: Instant) -> bool {
        park();
        false
    }
}

pub(crate) use imp::*;

/// Puts the current thread to sleep; its waker may be called from anywhere, also
/// before it sleeps.
#[derive(Debug)]
pub(crate) struct Parker {
    waker: Waker,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { waker: Waker::from(Arc::new(Unpark(current()))) }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until woken, for no reason at all, or until the deadline; whether the
    /// deadline passed.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        match deadline {
            Some(at) => park_until(at),
            None => {
                park();
                false
            }
        }
    }
}
