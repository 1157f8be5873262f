//! The watermark file: how other processes follow the writer.
//!
//! The writer's claims are always true when stored, so a stale file only claims
//! less than the disk holds. It is never synced while the log is open (a lost file
//! costs readers a scan), and synced once by a clean close, when it becomes the
//! proof of what had been durable.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{AofError, Result};
use crate::format::{
    StreamId, WATERMARK_BODY, WATERMARK_BODY_LEN, WATERMARK_FILE_LEN, WATERMARK_HEADER_LEN,
    WATERMARK_SEQUENCE, WATERMARK_WAKE, WatermarkBody, WatermarkHeader, WatermarkState,
};
use crate::io::{OpenMode, Storage, WordPage, wait_while_word, wake_word};
use crate::sync::Position;

/// The writer's side.
#[derive(Debug)]
pub(crate) struct WatermarkPublisher {
    page: WordPage,
    stream_id: StreamId,
    /// The last state published. `Poisoned` is final: it tells the next writer that
    /// names and pages are in doubt.
    state: Mutex<WatermarkState>,
}

impl WatermarkPublisher {
    /// Opens or creates the file and announces this writer.
    pub(crate) fn open(
        storage: &dyn Storage,
        path: &Path,
        header: WatermarkHeader,
        body: &WatermarkBody,
    ) -> Result<Self> {
        let exists = storage.exists(path).map_err(AofError::io("look for", path))?;
        let file =
            if exists { storage.open(path, OpenMode::ReadWrite) } else { storage.create_new(path) }
                .map_err(AofError::io("open watermark file", path))?;
        file.allocate(WATERMARK_FILE_LEN as u64)
            .map_err(AofError::io("allocate watermark file", path))?;
        let page = file
            .map_words(WATERMARK_FILE_LEN, true)
            .map_err(AofError::io("map watermark file", path))?;
        let state = Mutex::new(WatermarkState::Open);
        let publisher = Self { page, stream_id: header.stream_id, state };
        publisher.store_words(0, &header.encode());
        publisher.publish(body);
        Ok(publisher)
    }

    /// Publishes and wakes.
    pub(crate) fn publish(&self, body: &WatermarkBody) {
        let mut state = self.state.lock();
        if *state != WatermarkState::Poisoned {
            *state = body.state;
        }
        let body = WatermarkBody { state: *state, ..*body };
        // Odd while the body is inconsistent; a reader that dies of a crash here is
        // caught by the body's checksum.
        let sequence = self.page.load(WATERMARK_SEQUENCE) | 1;
        self.page.store(WATERMARK_SEQUENCE, sequence);
        fence(Ordering::SeqCst);
        self.store_words(WATERMARK_BODY, &body.encode(self.stream_id));
        self.page.store(WATERMARK_SEQUENCE, sequence.wrapping_add(1));
        wake_word(&self.page, WATERMARK_WAKE);
    }

    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.page.sync()
    }

    fn store_words(&self, offset: usize, bytes: &[u8]) {
        for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            self.page.store(offset + i * 8, u64::from_le_bytes(*word));
        }
    }
}

/// The longest a live writer can be in the middle of publishing.
const PUBLISH_MAX: Duration = Duration::from_millis(20);

/// The reader's side.
#[derive(Debug)]
pub(crate) struct WatermarkView {
    page: WordPage,
    stream_id: StreamId,
    /// The odd sequence that a dead writer left behind, once that is clear.
    abandoned: AtomicU64,
}

impl WatermarkView {
    /// Maps the file; `None` when it is missing, damaged or of another stream.
    pub(crate) fn open(storage: &dyn Storage, path: &Path, stream_id: StreamId) -> Option<Self> {
        let file = storage.open(path, OpenMode::Read).ok()?;
        let page = file.map_words(WATERMARK_FILE_LEN, false).ok()?;
        let view = Self { page, stream_id, abandoned: AtomicU64::new(0) };
        let header = WatermarkHeader::decode(&view.words::<WATERMARK_HEADER_LEN>(0)).ok()?;
        (header.stream_id == stream_id).then_some(view)
    }

    pub(crate) fn writer_pid(&self) -> Option<u32> {
        WatermarkHeader::decode(&self.words::<WATERMARK_HEADER_LEN>(0)).ok().map(|h| h.writer_pid)
    }

    /// What the writer last published; `None` if that cannot be read consistently,
    /// as when a writer died in the middle of it or a crash tore the file.
    pub(crate) fn load(&self) -> Option<WatermarkBody> {
        // A live writer needs nanoseconds, or a time slice if it was preempted just
        // then. One that takes longer is dead.
        let mut deadline = None;
        loop {
            let before = self.page.load(WATERMARK_SEQUENCE);
            let bytes = self.words::<WATERMARK_BODY_LEN>(WATERMARK_BODY);
            fence(Ordering::SeqCst);
            let is_settled =
                before.is_multiple_of(2) && self.page.load(WATERMARK_SEQUENCE) == before;
            if is_settled || before == self.abandoned.load(Ordering::Relaxed) {
                return WatermarkBody::decode(self.stream_id, &bytes).ok();
            }
            let patience = *deadline.get_or_insert_with(|| Instant::now() + PUBLISH_MAX);
            if Instant::now() > patience {
                self.abandoned.store(before, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    }

    /// Value of the wake word, to pass to [`WatermarkView::sleep`].
    pub(crate) fn wake_word(&self) -> u32 {
        self.page.load_half(WATERMARK_WAKE)
    }

    /// Sleeps until the writer publishes something after `seen`, or the time is up.
    pub(crate) fn sleep(&self, seen: u32, timeout: Duration) {
        wait_while_word(&self.page, WATERMARK_WAKE, seen, timeout);
    }

    fn words<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.page.load(offset + i * 8).to_le_bytes());
        }
        bytes
    }
}

/// What an earlier writer left behind, as evidence for recovery.
pub(crate) fn load_claim(
    storage: &dyn Storage,
    path: &Path,
    stream_id: StreamId,
) -> Option<WatermarkBody> {
    WatermarkView::open(storage, path, stream_id)?.load()
}

/// Records that opening the log failed half-way: the next opening must take names
/// and pages for doubtful, as after a failed sync. Best effort.
pub(crate) fn mark_doubtful(
    storage: &dyn Storage,
    path: &Path,
    header: WatermarkHeader,
    claim: Option<WatermarkBody>,
) {
    let body = WatermarkBody { state: WatermarkState::Poisoned, ..claim.unwrap_or_default() };
    if let Err(error) = WatermarkPublisher::open(storage, path, header, &body) {
        tracing::warn!(%error, "a failed opening could not be recorded");
    }
}

/// The durable prefix in a body.
pub(crate) fn durable_position(body: &WatermarkBody) -> Position {
    Position::from_u64(body.durable_position)
}

/// Whether the writer that published this is done with the log.
pub(crate) fn is_closed(body: &WatermarkBody) -> bool {
    body.state == WatermarkState::Closed
}
