//! Memory that batches give back when their reader is done with them.
//!
//! A fresh allocation of a megabyte costs more in page faults than filling it does.
//! So a buffer whose batch was released goes back on a shelf, and the next batch is
//! built in it. A shelf belongs to one scan: it holds a few buffers, and once the
//! scan is gone the buffers are freed as their readers release them.

use std::sync::{Arc, Weak};

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer, ToByteSlice};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::sizes::{KEPT_BUFFERS, KEPT_BYTES};

/// Free buffers of one type.
#[derive(Debug)]
pub struct Shelf<T> {
    free: Mutex<Vec<Vec<T>>>,
}

impl<T: ArrowNativeType> Shelf<T> {
    /// An empty shelf.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { free: Mutex::default() })
    }

    /// An empty vector, with the memory of an earlier batch if there is some.
    pub fn take(&self) -> Vec<T> {
        self.free.try_lock().and_then(|mut free| free.pop()).unwrap_or_default()
    }

    /// Hands the items to Arrow; their memory comes back when nobody reads them.
    pub fn lend(self: &Arc<Self>, items: Vec<T>) -> ScalarBuffer<T> {
        let len = items.len();
        let lent = Lent { items, shelf: Arc::downgrade(self) };
        ScalarBuffer::new(Buffer::from(Bytes::from_owner(lent)), 0, len)
    }

    /// Never waits: a buffer may be released anywhere, also in a forked child, where
    /// the lock may be held by a thread that does not exist.
    fn put_back(&self, mut items: Vec<T>) {
        let Some(mut free) = self.free.try_lock() else { return };
        let kept: usize = free.iter().map(Vec::capacity).sum();
        let bytes = (kept + items.capacity()).saturating_mul(size_of::<T>());
        if free.len() < KEPT_BUFFERS && bytes <= KEPT_BYTES {
            items.clear();
            free.push(items);
        }
    }
}

/// A buffer that somebody reads.
struct Lent<T: ArrowNativeType> {
    items: Vec<T>,
    shelf: Weak<Shelf<T>>,
}

impl<T: ArrowNativeType> AsRef<[u8]> for Lent<T> {
    fn as_ref(&self) -> &[u8] {
        self.items.to_byte_slice()
    }
}

impl<T: ArrowNativeType> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(shelf) = self.shelf.upgrade() {
            shelf.put_back(std::mem::take(&mut self.items));
        }
    }
}
