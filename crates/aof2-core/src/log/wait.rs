//! Waiting for something to become true, from threads and from tasks.
//!
//! The protocol, checked with loom: whoever changes the state does so *before*
//! [`WaitQueue::notify`]; whoever waits announces itself *before* looking at the
//! state. Both sides put a full fence between their two steps, so either the
//! notifier sees the sleeper or the sleeper sees the state. With nobody waiting,
//! a notify is one fence and one load.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::planted::{self, Bug};
use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, fence};

#[derive(Debug, Default)]
struct Tasks {
    next_key: u64,
    wakers: HashMap<u64, Waker>,
}

/// Threads and tasks waiting for a condition that lives elsewhere.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    sleepers: AtomicUsize,
    tasks: Mutex<Tasks>,
    condvar: Condvar,
}

impl WaitQueue {
    /// Lets everyone look at the condition again. Call after changing the state.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        if planted::is(Bug::LostWakeup) {
            return;
        }
        let wakers = {
            let mut tasks = self.tasks.lock();
            std::mem::take(&mut tasks.wakers)
        };
        self.condvar.notify_all();
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Blocks the thread until `ready` gives a value; `None` at the deadline.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(value) = ready() {
            return Some(value);
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut guard = self.tasks.lock();
        let mut timed_out = false;
        let value = loop {
            // Checked under the mutex that `wake_all` takes: a state change after
            // this look finds us inside `wait` and its notify reaches us.
            if let Some(value) = ready() {
                break Some(value);
            }
            if timed_out {
                break None;
            }
            (guard, timed_out) = self.condvar.wait(guard, deadline);
        };
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        value
    }

    /// The same for a task. Dropping the future leaves no trace.
    pub(crate) fn wait_async<T, F>(&self, ready: F) -> Waiting<'_, F>
    where
        F: FnMut() -> Option<T> + Unpin,
    {
        Waiting { queue: self, ready, key: None }
    }

    /// Whether nobody waits.
    #[cfg(all(test, feature = "model-check"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) == 0 && self.tasks.lock().wakers.is_empty()
    }
}

/// Future of [`WaitQueue::wait_async`].
#[derive(Debug)]
pub(crate) struct Waiting<'a, F> {
    queue: &'a WaitQueue,
    ready: F,
    key: Option<u64>,
}

impl<T, F> Future for Waiting<'_, F>
where
    F: FnMut() -> Option<T> + Unpin,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        if let Some(value) = (this.ready)() {
            return Poll::Ready(value);
        }
        let key = match this.key {
            Some(key) => key,
            None => {
                this.queue.sleepers.fetch_add(1, Ordering::SeqCst);
                let mut tasks = this.queue.tasks.lock();
                let key = tasks.next_key;
                tasks.next_key += 1;
                *this.key.insert(key)
            }
        };
        this.queue.tasks.lock().wakers.insert(key, cx.waker().clone());
        fence(Ordering::SeqCst);
        // The state may have changed before the waker was in place.
        match (this.ready)() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Waiting<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.tasks.lock().wakers.remove(&key);
            self.queue.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A counter that only says "something changed", to wait on.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    version: AtomicU64,
    queue: WaitQueue,
}

impl Signal {
    /// The current version, to pass to a later wait.
    pub(crate) fn seen(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Something changed.
    pub(crate) fn raise(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.queue.notify();
    }

    /// Waits until something changed since `seen`; `false` at the deadline.
    pub(crate) fn wait(&self, seen: u64, deadline: Option<Instant>) -> bool {
        self.queue.wait(deadline, || (self.seen() != seen).then_some(())).is_some()
    }

    /// Waits until something changed since `seen`.
    pub(crate) async fn wait_async(&self, seen: u64) {
        self.queue.wait_async(|| (self.seen() != seen).then_some(())).await;
    }
}
