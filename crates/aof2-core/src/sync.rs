//! The synchronisation primitives of the wake-up protocols, in one place so that
//! the feature `model-check` can swap in loom's and explore every interleaving.

#[cfg(not(feature = "model-check"))]
mod imp {
    pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::thread::yield_now;
    use std::time::Instant;

    pub(crate) type Guard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock()
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        /// Sleeps until notified or the deadline; whether the deadline passed.
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: Guard<'a, T>,
            deadline: Option<Instant>,
        ) -> (Guard<'a, T>, bool) {
            let timed_out = match deadline {
                None => {
                    self.0.wait(&mut guard);
                    false
                }
                Some(at) => self.0.wait_until(&mut guard, at).timed_out(),
            };
            (guard, timed_out)
        }
    }
}

#[cfg(feature = "model-check")]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
    use std::time::Instant;

    pub(crate) type Guard<'a, T> = loom::sync::MutexGuard<'a, T>;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        /// The model has no clock: deadlines never pass.
        pub(crate) fn wait<'a, T>(
            &self,
            guard: Guard<'a, T>,
            _deadline: Option<Instant>,
        ) -> (Guard<'a, T>, bool) {
            let guard = self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
            (guard, false)
        }
    }
}

pub(crate) use imp::*;
