//! Waiting for something to become true, from threads and from tasks.
//!
//! The protocol, checked with loom: whoever changes the state does so *before*
//! [`WaitQueue::notify`]; whoever waits announces itself *before* looking at the
//! state. Both sides put a full fence between their two steps, so either the
//! notifier sees the sleeper or the sleeper sees the state. With nobody waiting,
//! a notify is one fence and one load.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::{AtomicU64, AtomicUsize, Mutex, Ordering, Parker, fence};
use crate::planted;
use crate::planted::Bug;

/// What a sleeper waits for, so that a notify need not wake those it cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    /// Wakes only once a notify has reached this value.
    pub(crate) target: u64,
    /// Whether it may do the work itself: one such sleeper is woken by every notify.
    pub(crate) can_lead: bool,
}

impl Interest {
    /// Wakes on every notify.
    const ANY: Self = Self { target: 0, can_lead: false };
}

#[derive(Debug)]
struct Sleeper {
    key: u64,
    interest: Interest,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Sleepers {
    next_key: u64,
    list: Vec<Sleeper>,
}

impl Sleepers {
    fn register(&mut self, key: Option<u64>, interest: Interest, waker: &Waker) -> u64 {
        let key = key.unwrap_or_else(|| {
            self.next_key += 1;
            self.next_key
        });
        match self.list.iter_mut().find(|s| s.key == key) {
            Some(known) => known.waker.clone_from(waker),
            None => self.list.push(Sleeper { key, interest, waker: waker.clone() }),
        }
        key
    }
}

/// Threads and tasks waiting for a condition that lives elsewhere.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    count: AtomicUsize,
    sleepers: Mutex<Sleepers>,
}

impl WaitQueue {
    /// Whether anybody is registered, without a fence: for callers that are ordered
    /// with the sleepers by a lock of their own.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lets everyone look at the condition again. Call after changing the state.
    #[inline]
    pub(crate) fn notify(&self) {
        self.notify_reached(u64::MAX);
    }

    /// Lets those look again whose target is reached, and one that can lead.
    #[inline]
    pub(crate) fn notify_reached(&self, reached: u64) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.wake(reached);
        }
    }

    #[cold]
    fn wake(&self, reached: u64) {
        if planted::is(Bug::LostWakeup) {
            return;
        }
        let mut leader_chosen = false;
        let woken: Vec<Sleeper> = {
            let mut sleepers = self.sleepers.lock();
            let mut woken = Vec::with_capacity(sleepers.list.len());
            let mut i = 0;
            while let Some(sleeper) = sleepers.list.get(i) {
                let leads = sleeper.interest.can_lead && !leader_chosen;
                if sleeper.interest.target <= reached {
                    woken.push(sleepers.list.swap_remove(i));
                } else if leads {
                    leader_chosen = true;
                    woken.push(sleepers.list.swap_remove(i));
                } else {
                    i += 1;
                }
            }
            woken
        };
        for sleeper in woken {
            sleeper.waker.wake();
        }
    }

    /// Whether nobody is registered.
    #[cfg(all(test, feature = "model-check"))]
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0 && self.sleepers.lock().list.is_empty()
    }

    /// Blocks the thread until `ready` gives a value; `None` at the deadline.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.wait_for(Interest::ANY, deadline, ready)
    }

    /// [`WaitQueue::wait`], woken only when it matters.
    pub(crate) fn wait_for<T>(
        &self,
        interest: Interest,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(value) = ready() {
            return Some(value);
        }
        let parker = Parker::new();
        let mut registered = Registered { queue: self, key: None };
        loop {
            registered.register(interest, parker.waker());
            if let Some(value) = ready() {
                return Some(value);
            }
            if parker.park(deadline) {
                return ready();
            }
        }
    }

    /// The same for a task. Dropping the future leaves no trace.
    pub(crate) fn wait_async<T, F>(&self, ready: F) -> Waiting<'_, F>
    where
        F: FnMut() -> Option<T> + Unpin,
    {
        Waiting { registered: Registered { queue: self, key: None }, ready }
    }
}

/// A place in the queue, given up when it is dropped.
#[derive(Debug)]
struct Registered<'a> {
    queue: &'a WaitQueue,
    key: Option<u64>,
}

impl Registered<'_> {
    /// Announces the sleeper. The caller looks at the condition afterwards.
    fn register(&mut self, interest: Interest, waker: &Waker) {
        if self.key.is_none() {
            self.queue.count.fetch_add(1, Ordering::SeqCst);
        }
        self.key = Some(self.queue.sleepers.lock().register(self.key, interest, waker));
        fence(Ordering::SeqCst);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.sleepers.lock().list.retain(|s| s.key != key);
            self.queue.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Future of [`WaitQueue::wait_async`].
#[derive(Debug)]
pub(crate) struct Waiting<'a, F> {
    registered: Registered<'a>,
    ready: F,
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
        this.registered.register(Interest::ANY, cx.waker());
        // The state may have changed before the waker was in place.
        match (this.ready)() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
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
