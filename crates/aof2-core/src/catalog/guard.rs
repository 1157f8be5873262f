//! Waiting for an operation to be durable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{AofError, Result};
use crate::format::operation::{Operation, OperationId};
use crate::io::ForkStamp;
use crate::sync::WaitQueue;

/// How a group of operations ended: the operations as they are in the log.
pub(super) type Outcome = Result<Arc<[Operation]>>;

/// Where the writer leaves an outcome.
#[derive(Debug, Default)]
pub(super) struct Completion {
    outcome: Mutex<Option<Outcome>>,
    queue: WaitQueue,
}

impl Completion {
    /// The first outcome counts.
    pub(super) fn complete(&self, outcome: Outcome) {
        self.outcome.lock().get_or_insert(outcome);
        self.queue.notify();
    }

    fn outcome(&self) -> Option<Outcome> {
        self.outcome.lock().clone()
    }

    pub(super) fn wait(&self, deadline: Option<Instant>) -> Option<Outcome> {
        self.queue.wait(deadline, || self.outcome())
    }
}

/// Ends what its holder did not end: whoever waits gets an error instead of waiting for ever.
#[derive(Debug)]
pub(super) struct Promise(Arc<Completion>);

impl Promise {
    pub(super) fn new() -> (Self, Arc<Completion>) {
        let completion = Arc::new(Completion::default());
        (Self(Arc::clone(&completion)), completion)
    }

    pub(super) fn complete(&self, outcome: Outcome) {
        self.0.complete(outcome);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.complete(Err(AofError::Closed));
    }
}

/// What was decided, once it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<T> {
    /// The batch: its offset in the operation log. A view of this or a later generation
    /// shows it.
    pub generation: u64,
    /// The first operation.
    pub operation_id: OperationId,
    /// What the caller asked for, such as the number of what is new.
    pub value: T,
}

/// An operation on its way. It is done whether anybody waits for it or not.
#[must_use = "whether the operation was taken is known once the guard was waited for"]
#[derive(Debug)]
pub struct Guard<T> {
    completion: Arc<Completion>,
    value: fn(&Operation) -> T,
    stamp: ForkStamp,
}

impl<T> Clone for Guard<T> {
    /// Another one that waits for the same operation.
    fn clone(&self) -> Self {
        Self { completion: Arc::clone(&self.completion), value: self.value, stamp: self.stamp }
    }
}

impl<T> Guard<T> {
    pub(super) fn new(
        completion: Arc<Completion>,
        value: fn(&Operation) -> T,
        stamp: ForkStamp,
    ) -> Self {
        Self { completion, value, stamp }
    }

    fn committed(&self, outcome: Outcome) -> Result<Committed<T>> {
        let operations = outcome?;
        let first = operations.first().ok_or(AofError::Closed)?;
        Ok(Committed {
            generation: first.id.generation,
            operation_id: first.id,
            value: (self.value)(first),
        })
    }

    /// Returns when the operation is durable, or was refused.
    pub fn wait(self) -> Result<Committed<T>> {
        if self.stamp.is_forked() {
            return Err(AofError::Forked);
        }
        match self.completion.wait(None) {
            Some(outcome) => self.committed(outcome),
            None => Err(AofError::Closed),
        }
    }

    /// The same within a time; `Timeout` says nothing about the operation, which goes on.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Committed<T>> {
        if self.stamp.is_forked() {
            return Err(AofError::Forked);
        }
        match self.completion.wait(Instant::now().checked_add(timeout)) {
            Some(outcome) => self.committed(outcome),
            None => Err(AofError::Timeout { what: "an operation to be durable" }),
        }
    }

    /// [`Guard::wait`] without blocking a thread.
    pub async fn wait_async(self) -> Result<Committed<T>> {
        if self.stamp.is_forked() {
            return Err(AofError::Forked);
        }
        let completion = &self.completion;
        let outcome = completion.queue.wait_async(|| completion.outcome()).await;
        self.committed(outcome)
    }

    /// Whether it has ended, one way or the other.
    pub fn is_finished(&self) -> bool {
        self.completion.outcome().is_some()
    }
}
