//! Making an active segment durable, and sealing it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use super::{Segment, SegmentAppender, SegmentMeta};
use crate::error::{AofError, Result};
use crate::format::{Crc64, SEGMENT_FOOTER_LEN, SegmentFooter, SegmentFormat};
use crate::io::{File, FileIdentity, OpenMode, Storage};
use crate::planted;
use crate::planted::Bug;

/// What the log knows about a segment that is to be sealed.
#[derive(Clone, Copy, Debug)]
pub struct SealRequest {
    /// Records in the segment.
    pub record_count: u64,
    /// Largest timestamp in it.
    pub last_timestamp_ms: u64,
    /// The user's identifier for the segment.
    pub ext_id: u64,
    /// Footer flags besides `SEALED`.
    pub flags: u64,
    /// Now.
    pub sealed_at_ns: u64,
    /// Whether all records are to be indexed on the way.
    pub build_index: bool,
}

/// The durability side of an active segment. Its methods do I/O and may be called
/// from any thread; the log serialises them per segment.
#[derive(Debug)]
pub struct SegmentFlush {
    segment: Arc<Segment>,
    /// Which file is mapped.
    file: FileIdentity,
    naming: Mutex<Naming>,
    named: AtomicBool,
    durable_end: AtomicU32,
}

/// The file's way to its name.
#[derive(Debug)]
struct Naming {
    /// Temporary path until the file has its name.
    temporary: Option<PathBuf>,
    /// A failed directory sync leaves the name in doubt for ever: a later sync that
    /// succeeds proves nothing about it.
    failure: Option<AofError>,
}

/// Holes smaller than this are not worth a system call.
const HOLE_MIN: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Checksummed and indexed at a time.
const CRC_WINDOW: usize = 512 << 10;

impl SegmentFlush {
    pub(super) fn new(
        segment: Arc<Segment>,
        file: FileIdentity,
        temporary: Option<PathBuf>,
    ) -> Self {
        Self {
            segment,
            file,
            named: AtomicBool::new(temporary.is_none()),
            naming: Mutex::new(Naming { temporary, failure: None }),
            durable_end: AtomicU32::new(0),
        }
    }

    /// Continues a segment that recovery scanned: its first `end` bytes are intact
    /// and durable, the rest reads as zeros.
    pub fn resume(
        storage: &dyn Storage,
        path: PathBuf,
        meta: SegmentMeta,
        end: u32,
        target_bytes: u32,
    ) -> Result<(Arc<Self>, SegmentAppender)> {
        let file = storage
            .open(&path, OpenMode::ReadWrite)
            .map_err(AofError::io("open segment", &path))?;
        // A clean close gave the unused blocks back.
        file.allocate(u64::from(meta.segment_bytes))
            .map_err(AofError::io("allocate segment", &path))?;
        let map = file
            .map(meta.segment_bytes as usize, true)
            .map_err(AofError::io("map segment", &path))?;
        let file = file.identity().map_err(AofError::io("read segment", &path))?;
        let map = Arc::new(map);
        let refused =
            || AofError::io("map segment", &path)(std::io::ErrorKind::PermissionDenied.into());
        let mut writer = map.writer().ok_or_else(refused)?;
        writer.publish(end as usize).map_err(|_| refused())?;
        let segment = Arc::new(Segment::new(meta, path, map));
        let appender = SegmentAppender::new(Arc::clone(&segment), writer, end, target_bytes);
        let flush = Self::new(segment, file, None);
        flush.mark_durable(end);
        Ok((Arc::new(flush), appender))
    }

    /// The segment being flushed.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Bytes of the file known to be durable.
    pub fn durable_end(&self) -> u32 {
        self.durable_end.load(Ordering::Acquire)
    }

    /// Records that the first `end` bytes are durable.
    pub fn mark_durable(&self, end: u32) {
        self.durable_end.fetch_max(end, Ordering::AcqRel);
    }

    /// Whether the file has its final name.
    #[inline]
    pub fn is_named(&self) -> bool {
        self.named.load(Ordering::Acquire)
    }

    /// Gives the file its final name, durably. A crash before leaves a temporary
    /// file; nothing in it was reported durable.
    pub fn ensure_named(&self, storage: &dyn Storage) -> Result<()> {
        if self.is_named() {
            return Ok(());
        }
        let mut naming = self.naming.lock();
        if let Some(failure) = &naming.failure {
            return Err(failure.clone());
        }
        let named = self.give_name(storage, &mut naming);
        match &named {
            Ok(()) => self.named.store(true, Ordering::Release),
            // The directory had no space for the name: nothing happened, and freeing
            // space lets it happen.
            Err(error) if error.is_disk_full() && naming.temporary.is_some() => {}
            // Or it could not even be opened to be synced, which can be tried again.
            Err(error) if error.is_out_of_files() => {}
            Err(error) => naming.failure = Some(error.clone()),
        }
        named
    }

    fn give_name(&self, storage: &dyn Storage, naming: &mut Naming) -> Result<()> {
        let to = self.segment.path();
        if let Some(from) = &naming.temporary {
            storage.rename(from, to).map_err(AofError::io("name segment", to))?;
            naming.temporary = None;
        }
        if planted::is(Bug::SkipDirectorySync) {
            return Ok(());
        }
        let dir = to.parent().unwrap_or(to);
        storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))
    }

    /// Whether naming the file failed for want of space or descriptors, which can be tried
    /// again.
    pub fn is_name_pending(&self) -> bool {
        !self.is_named() && self.naming.lock().failure.is_none()
    }

    /// Path the file has now: temporary until [`SegmentFlush::ensure_named`].
    pub fn current_path(&self) -> PathBuf {
        self.naming.lock().temporary.clone().unwrap_or_else(|| self.segment.path().to_owned())
    }

    /// The segment's file, for what cannot be done through its map. It is not kept open, so
    /// that a log nobody writes to costs no descriptor. It must be the file that is mapped:
    /// as long as it is, no other has its inode.
    pub fn open_file(&self, storage: &dyn Storage) -> Result<Arc<dyn File>> {
        let path = self.current_path();
        let failed = || AofError::io("open segment", &path);
        let file = storage.open(&path, OpenMode::ReadWrite).map_err(failed())?;
        let found = file.identity().map_err(failed())?;
        if (found.device, found.inode) != (self.file.device, self.file.inode) {
            let reason = "it was put in the place of the segment that is being written".into();
            return Err(AofError::Foreign { path, reason });
        }
        Ok(file)
    }

    /// Makes the first `end` bytes durable; returns how many bytes that added.
    pub fn sync_to(&self, storage: &dyn Storage, end: u32) -> Result<u32> {
        let from = self.durable_end();
        if end <= from {
            return Ok(0);
        }
        self.ensure_named(storage)?;
        self.segment
            .map()
            .sync(from as usize, end as usize)
            .map_err(AofError::io("flush of segment", self.segment.path()))?;
        self.mark_durable(end);
        Ok(end - from)
    }

    /// Writes the footer and gives unused blocks back. Everything up to `end` must
    /// be durable. A crash before the footer is durable leaves an unsealed segment
    /// that recovery scans and seals again. `file` is [`SegmentFlush::open_file`].
    pub fn seal(&self, file: &dyn File, end: u32, request: &SealRequest) -> Result<SegmentFooter> {
        let meta = self.segment.meta();
        let path = self.segment.path();
        let footer = self.footer(end, request);
        let slot = u64::from(meta.space_end());
        file.write_all_at(&footer.encode(), slot)
            .map_err(AofError::io("write of segment footer", path))?;
        self.segment
            .map()
            .sync(slot as usize, slot as usize + SEGMENT_FOOTER_LEN)
            .map_err(AofError::io("sync of segment footer", path))?;
        self.release_unused(file, end, slot);
        Ok(footer)
    }

    fn footer(&self, end: u32, request: &SealRequest) -> SegmentFooter {
        let meta = self.segment.meta();
        let compact = meta.format == SegmentFormat::Compact;
        let mut crc = Crc64::new();
        // Below the frontier by contract; an empty slice would show as a footer
        // that does not match, never as silent acceptance.
        let bytes = self.segment.map().bytes(0, end as usize).unwrap_or_default();
        for (i, window) in bytes.chunks(CRC_WINDOW).enumerate() {
            crc.update(window);
            if request.build_index {
                // While the window is in the processor's cache.
                self.segment.index_until((i * CRC_WINDOW + window.len()) as u32, end);
            }
        }
        SegmentFooter {
            format: meta.format,
            record_count: request.record_count,
            durable_bytes: u64::from(end),
            segment_crc64: crc.finish(),
            ext_id: request.ext_id,
            flags: request.flags | crate::format::FOOTER_SEALED,
            last_timestamp_ms: request.last_timestamp_ms,
            segment_id: compact.then_some(meta.segment_id),
            last_record_id: compact.then(|| meta.record_id(self.last_record_position(end))),
            sealed_at_ns: compact.then_some(request.sealed_at_ns),
        }
    }

    fn last_record_position(&self, end: u32) -> u32 {
        self.segment.last_record_before(end).unwrap_or(0)
    }

    /// Punches out the unused middle `[end, slot)`. Failing costs only disk space.
    pub fn release_unused(&self, file: &dyn File, end: u32, slot: u64) {
        let start = u64::from(end).div_ceil(PAGE) * PAGE;
        let stop = slot / PAGE * PAGE;
        if stop < start + HOLE_MIN {
            return;
        }
        if let Err(error) = file.punch_hole(start, stop - start) {
            tracing::warn!(path = %self.segment.path().display(), %error, "unused part of a segment stays allocated");
        }
    }

    /// Writes every block once and faults the pages in again, so that small flushes
    /// do not pay for blocks that were only reserved.
    pub fn write_blocks_once(&self, file: &dyn File) -> Result<()> {
        file.sync().map_err(AofError::io("sync segment", self.segment.path()))?;
        self.fault_in_rest();
        Ok(())
    }

    /// Faults in the pages that are still to be written.
    pub fn fault_in_rest(&self) {
        let map = self.segment.map();
        if let Err(error) = map.fault_in(map.published(), map.len()) {
            tracing::debug!(%error, "segment pages will be faulted in by appends");
        }
    }
}
