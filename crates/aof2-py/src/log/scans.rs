//! Reading many records: scans, followers, Arrow batches.

use aof2_core::Start;
use pyo3::prelude::*;

use super::ReadableLog;
use super::options;
use crate::args::{Maybe, flag_or, timeout, unsigned_if};
use crate::arrow::ArrowScan;
use crate::error::to_py;
use crate::scan::{Follow, Scan};

#[pymethods]
impl ReadableLog {
    /// The records from `start` up to but not including `end`, in order.
    ///
    /// Both are an offset, a `RecordId` or an aware datetime; `start` may be "earliest"
    /// or "latest", `end` "now". Whatever the end, the scan ends behind the last record that
    /// is visible when it starts, also if its consumer appends to the same log; `follow`
    /// goes on. Only durable records are visible unless visibility is "appended".
    ///
    /// Damaged records raise `Corrupt`, or are passed over with on_corruption="skip". Those
    /// that a repair left a gap for are always passed over. Both are counted: `skipped` of
    /// the scan, `skipped_ranges` for which.
    ///
    /// Segments that are warm or cold are read where they are with hydrate="never"; with
    /// "always" they come back to the hot tier first, within its budget; with "auto" one
    /// that is read again comes back where there is room.
    ///
    /// >>> ids = log.append_many([b"a", b"b", b"c", b"d"])
    /// >>> log.flush()
    /// >>> [bytes(record) for record in log.scan(1, 3)]
    /// [b'b', b'c']
    #[pyo3(
        signature = (start = None, end = None, *, visibility = None, on_corruption = None, verify_checksums = None, hydrate = None),
        text_signature = "($self, start='earliest', end=None, *, visibility='durable', on_corruption='fail', verify_checksums=True, hydrate='auto')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn scan(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        end: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
        verify_checksums: Maybe<'_>,
        hydrate: Maybe<'_>,
    ) -> PyResult<Scan> {
        let source = self.source()?;
        let first = options::start(&start, Start::Earliest)?;
        let mut options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        options.verify_checksums =
            flag_or("verify_checksums", &verify_checksums, options.verify_checksums)?;
        options.hydrate = options::hydrate(&hydrate, options.hydrate)?;
        py.detach(|| Scan::open(&source, options)).map_err(to_py)
    }

    /// The records from `start` on, and then those that come: waits at the end.
    ///
    /// Ends at `end`, or when no record came for `timeout` seconds. It goes on when a
    /// writer closes the log and another one opens it, but with until_closed=True it ends
    /// when the log is closed and everything was read. One that the writer's own handle
    /// made ends when that handle is closed. Works with `for` and with `async for`.
    ///
    /// >>> follow = log.follow(timeout=10)
    /// >>> rid = log.append(b"news")
    /// >>> bytes(next(follow))
    /// b'news'
    #[pyo3(
        signature = (start = None, end = None, *, timeout = None, until_closed = None, visibility = None, on_corruption = None),
        text_signature = "($self, start='latest', end=None, *, timeout=None, until_closed=False, visibility='durable', on_corruption='fail')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn follow(
        &self,
        py: Python<'_>,
        start: Maybe<'_>,
        end: Maybe<'_>,
        timeout: Maybe<'_>,
        until_closed: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
    ) -> PyResult<Follow> {
        let source = self.source()?;
        let first = options::start(&start, Start::Latest)?;
        let options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        let timeout = self::timeout(&timeout)?;
        let until_closed = flag_or("until_closed", &until_closed, false)?;
        py.detach(|| Follow::open(&source, options, timeout, until_closed)).map_err(to_py)
    }

    /// The records as Arrow record batches, for anything that takes an Arrow stream.
    ///
    /// The columns, in the order asked for: stream, segment_id, offset, record_id,
    /// timestamp, flags, payload; by default all but stream. Only these are computed. What
    /// is read, and what is passed over, is as in `scan`.
    ///
    /// >>> import pyarrow
    /// >>> ids = log.append_many([b"a", b"b"])
    /// >>> log.flush()
    /// >>> table = pyarrow.table(log.scan_arrow(columns=["offset", "payload"]))
    /// >>> table.to_pylist()
    /// [{'offset': 0, 'payload': b'a'}, {'offset': 1, 'payload': b'b'}]
    #[pyo3(
        signature = (start = None, end = None, *, columns = None, visibility = None, on_corruption = None, verify_checksums = None, batch_bytes = None, batch_records = None, hydrate = None),
        text_signature = "($self, start='earliest', end=None, *, columns=None, visibility='durable', on_corruption='fail', verify_checksums=True, batch_bytes=1048576, batch_records=65536, hydrate='auto')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn scan_arrow(
        &self,
        start: Maybe<'_>,
        end: Maybe<'_>,
        columns: Maybe<'_>,
        visibility: Maybe<'_>,
        on_corruption: Maybe<'_>,
        verify_checksums: Maybe<'_>,
        batch_bytes: Maybe<'_>,
        batch_records: Maybe<'_>,
        hydrate: Maybe<'_>,
    ) -> PyResult<ArrowScan> {
        let source = self.source()?;
        let first = options::start(&start, Start::Earliest)?;
        let mut options = options::scan_options(first, &end, &visibility, &on_corruption)?;
        options.verify_checksums =
            flag_or("verify_checksums", &verify_checksums, options.verify_checksums)?;
        options.hydrate = options::hydrate(&hydrate, options.hydrate)?;
        if let Some(bytes) = unsigned_if("batch_bytes", &batch_bytes)? {
            options.batch_bytes = bytes;
        }
        if let Some(records) = unsigned_if("batch_records", &batch_records)? {
            options.batch_records = records;
        }
        ArrowScan::new(source, options, options::columns(&columns)?)
    }
}
