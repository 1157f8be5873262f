//! Taking turns at something that one thread or task uses at a time, without ever
//! waiting for it with the GIL held: whoever has it may need the GIL to finish.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// Something that is here, or with somebody who will put it back.
pub struct Shared<T> {
    /// Held for a moment only.
    slot: Mutex<Option<T>>,
    returned: Condvar,
    returned_to_task: Notify,
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::new(Some(value)),
            returned: Condvar::new(),
            returned_to_task: Notify::new(),
        })
    }

    /// Has a quick look at it if it is here. Must not call Python.
    pub fn here<R>(&self, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.slot.lock().as_mut().map(look)
    }

    /// Takes it if it is here.
    pub fn take(self: &Arc<Self>) -> Option<Turn<T>> {
        let value = self.slot.lock().take()?;
        Some(Turn { value: Some(value), shared: Arc::clone(self) })
    }

    /// Takes it, waiting for a while. Not with the GIL held.
    pub fn take_within(self: &Arc<Self>, timeout: Duration) -> Option<Turn<T>> {
        let deadline = Instant::now() + timeout;
        let mut slot = self.slot.lock();
        loop {
            if let Some(value) = slot.take() {
                return Some(Turn { value: Some(value), shared: Arc::clone(self) });
            }
            if self.returned.wait_until(&mut slot, deadline).timed_out() && slot.is_none() {
                return None;
            }
        }
    }

    /// Takes it, waiting as long as it takes without blocking a thread.
    pub async fn take_async(self: &Arc<Self>) -> Turn<T> {
        loop {
            if let Some(turn) = self.take() {
                return turn;
            }
            // A return since the look above left a permit.
            self.returned_to_task.notified().await;
        }
    }
}

/// The thing while somebody has it; put back when dropped.
pub struct Turn<T> {
    /// Always there until the drop.
    value: Option<T>,
    shared: Arc<Shared<T>>,
}

impl<T> Deref for Turn<T> {
    type Target = T;

    #[allow(clippy::expect_used)]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("taken only by drop")
    }
}

impl<T> DerefMut for Turn<T> {
    #[allow(clippy::expect_used)]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("taken only by drop")
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        *self.shared.slot.lock() = self.value.take();
        self.shared.returned.notify_one();
        self.shared.returned_to_task.notify_one();
    }
}
