//! Waiting until an append that was refused can go on.

use std::time::Instant;

use super::metrics::count;
use super::stream::Stream;
use crate::error::{AofError, BackpressureKind, Result};

/// How two tries at appending ended.
enum Attempt<T> {
    Done(Result<T>),
    /// On what, and the state to sleep on.
    Blocked(BackpressureKind, u64),
}

impl Stream {
    pub(super) fn count_block(&self, error: &AofError) {
        match error {
            AofError::WouldBlock(BackpressureKind::Admission) => {
                count(&self.metrics.blocked_admission, 1);
            }
            AofError::WouldBlock(BackpressureKind::Rollover) => {
                count(&self.metrics.blocked_rollover, 1);
            }
            AofError::WouldBlock(BackpressureKind::Flush) => count(&self.metrics.blocked_flush, 1),
            _ => {}
        }
    }

    /// Tries twice: what is waited for may happen between a refusal and going to sleep,
    /// so the state to sleep on is noted before the second try.
    fn try_append<T>(&self, append: &mut impl FnMut() -> Result<T>) -> Attempt<T> {
        loop {
            let kind = match append() {
                Err(AofError::WouldBlock(kind)) => kind,
                done => return Attempt::Done(done),
            };
            let seen = self.progress(kind);
            match append() {
                Err(AofError::WouldBlock(again)) if again == kind => {
                    return Attempt::Blocked(kind, seen);
                }
                Err(AofError::WouldBlock(_)) => {}
                done => return Attempt::Done(done),
            }
        }
    }

    /// Appends, waiting for space until the deadline.
    pub(crate) fn append_waiting<T>(
        &self,
        deadline: Option<Instant>,
        mut append: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match self.try_append(&mut append) {
                Attempt::Done(done) => return done,
                Attempt::Blocked(kind, seen) if self.wait_progress(kind, seen, deadline) => {}
                Attempt::Blocked(..) => {
                    return Err(AofError::Timeout { what: "space to append" });
                }
            }
        }
    }

    /// The same without blocking a thread. Cancel-safe: a dropped future has
    /// either appended and returned, or written nothing.
    pub(crate) async fn append_waiting_async<T>(
        &self,
        mut append: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let (kind, seen) = match self.try_append(&mut append) {
                Attempt::Done(done) => return done,
                Attempt::Blocked(kind, seen) => (kind, seen),
            };
            match kind {
                BackpressureKind::Flush => {
                    self.durable.wait_async(|| (self.progress(kind) != seen).then_some(())).await;
                }
                _ => self.rollover.signal.wait_async(seen).await,
            }
        }
    }

    /// A number that changes when the named obstacle may be gone.
    fn progress(&self, kind: BackpressureKind) -> u64 {
        match kind {
            BackpressureKind::Flush if self.is_stopped() => u64::MAX,
            BackpressureKind::Flush => self.gate.rounds(),
            _ => self.rollover.signal.seen(),
        }
    }

    fn wait_progress(&self, kind: BackpressureKind, seen: u64, deadline: Option<Instant>) -> bool {
        match kind {
            BackpressureKind::Flush => self
                .durable
                .wait(deadline, || (self.progress(kind) != seen).then_some(()))
                .is_some(),
            _ => self.rollover.signal.wait(seen, deadline),
        }
    }
}
