//! An artifact in an object store, read in a few large pieces instead of frame by frame:
//! a request costs more than the bytes it brings.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::Result;
use crate::segment::ArtifactSource;

/// Bytes asked for at once.
const WINDOW_LEN: u64 = 4 << 20;
/// Pieces kept: the end with the index, the start with the header, and where the reading
/// has got to.
const WINDOWS_MAX: usize = 3;

/// Keeps the pieces of an artifact that were read last.
#[derive(Debug)]
pub(super) struct Windowed {
    source: Arc<dyn ArtifactSource>,
    /// Where each begins; the latest first.
    windows: Mutex<VecDeque<(u64, Bytes)>>,
}

impl Windowed {
    pub(super) fn new(source: Arc<dyn ArtifactSource>) -> Arc<Self> {
        Arc::new(Self { source, windows: Mutex::default() })
    }

    fn fetch(&self, offset: u64, len: usize) -> Result<Bytes> {
        let end = self.source.len();
        let wanted = WINDOW_LEN.min(end.saturating_sub(offset)).max(len as u64);
        let bytes = self.source.read_at(offset, wanted as usize)?;
        let behind = offset + bytes.len() as u64;
        let mut windows = self.windows.lock();
        // The next piece is on its way while this one is decompressed, unless somebody
        // only looks here and there.
        let goes_on =
            |(start, held): &(u64, Bytes)| *start < offset && offset <= start + held.len() as u64;
        if windows.iter().any(goes_on) {
            self.source.announce(behind..end.min(behind + WINDOW_LEN));
        }
        windows.push_front((offset, bytes.clone()));
        windows.truncate(WINDOWS_MAX);
        Ok(bytes)
    }
}

impl ArtifactSource for Windowed {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let held = self.windows.lock().iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            let end = from.checked_add(len).filter(|end| *end <= bytes.len())?;
            Some(bytes.slice(from..end))
        });
        match held {
            Some(bytes) => Ok(bytes),
            None => self.fetch(offset, len).map(|bytes| bytes.slice(..len.min(bytes.len()))),
        }
    }

    fn name(&self) -> &Path {
        self.source.name()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Memory {
        bytes: Bytes,
        reads: AtomicUsize,
    }

    impl ArtifactSource for Memory {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Ok(self.bytes.slice(offset as usize..offset as usize + len))
        }

        fn name(&self) -> &Path {
            Path::new("memory")
        }
    }

    #[test]
    fn it_reads_the_same_bytes_in_fewer_pieces() {
        let len = 3 * WINDOW_LEN as usize + 12_345;
        let bytes: Bytes = (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let memory = Arc::new(Memory { bytes: bytes.clone(), reads: AtomicUsize::new(0) });
        let windowed = Windowed::new(Arc::clone(&memory) as _);
        let read = |range: std::ops::Range<usize>| {
            let found = windowed.read_at(range.start as u64, range.len()).unwrap();
            assert!(found == bytes.slice(range.clone()), "{range:?}");
        };
        // As an artifact is read: its end, its header, its footer, then frame by frame.
        read(len - 65_536..len);
        read(0..300_000);
        read(len - 70_000..len - 65_000);
        (0..len).step_by(100_000).for_each(|at| read(at..len.min(at + 100_018)));
        assert!(memory.reads.load(Ordering::Relaxed) <= 7, "{memory:?}");
        // Longer than a piece.
        read(5..5 + 2 * WINDOW_LEN as usize);
    }
}
