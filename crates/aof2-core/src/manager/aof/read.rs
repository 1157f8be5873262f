//! Reading: the methods of [`ReadableLog`], and those that cannot fail here because this
//! process writes the log.

use std::sync::Arc;

use super::Aof;
use crate::error::Result;
use crate::format::{RecordId, SegmentFormat, StreamId, StreamIdentity};
use crate::read::{Follow, Record, Scan, ScanOptions, Visibility, Watermarks};
use crate::read::{
    Handle, ReadableLog, Reads, Segments, Source, own_methods, readable_log, segment_infos,
};
use crate::store::SegmentInfo;

impl Handle for Aof {
    fn reads(&self) -> Reads {
        Reads(Arc::clone(self.stream()) as Arc<dyn Source>)
    }

    fn identity(&self) -> &StreamIdentity {
        self.stream().store().identity()
    }
}

readable_log!(Aof);

impl Aof {
    /// How far the stream has got.
    pub fn watermarks(&self) -> Watermarks {
        self.stream().watermarks()
    }

    /// The segments, oldest first.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// let segment = &log.segments()[0];
    /// assert_eq!((segment.first_offset, segment.record_count), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let limit = self.stream().limit_now(Visibility::Appended);
        segment_infos(&self.stream().readable_segments(), limit)
    }

    /// First logical offset that still exists; retention moves it.
    pub fn earliest_offset(&self) -> u64 {
        Segments::of(&**self.stream()).earliest()
    }
}
