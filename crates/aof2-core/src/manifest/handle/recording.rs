//! The way of a record: taken in, committed to a chunk, told to who waits for it.

use std::sync::Arc;

use parking_lot::MutexGuard;

use super::metrics::{count, set};
use super::{Files, Manifest, State};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::format::manifest::{ManifestEvent, ManifestRecord};
use crate::manifest::chunks::is_news;
use crate::manifest::config::{BLOB_LEN_MAX, KEY_LEN_MAX};

impl Manifest {
    /// Takes in what happened to a segment, dated by the clock, and gives its ordinal.
    ///
    /// Only memory is touched, unless `staged_bytes_max` is reached: then the caller
    /// commits first. Keys, ETags and blobs that are too long are refused, and so is an
    /// event of an unknown type.
    pub fn record(
        &self,
        segment_id: SegmentId,
        logical_offset: u64,
        event: ManifestEvent<'_>,
    ) -> Result<u64> {
        self.record_flagged(segment_id, logical_offset, 0, event)
    }

    /// [`Manifest::record`] with the event's flags.
    pub fn record_flagged(
        &self,
        segment_id: SegmentId,
        logical_offset: u64,
        flags: u16,
        event: ManifestEvent<'_>,
    ) -> Result<u64> {
        check_event(&event)?;
        let timestamp_ms = self.now_ms();
        let record = ManifestRecord { flags, segment_id, logical_offset, timestamp_ms, event };
        let len = record.encoded_len() as u64;
        let mut state = self.admit(len)?;
        let is_first = state.staged_since_ms.is_none();
        let before = state.staged.len();
        let ordinal = self.stage(&mut state, &record)?;
        let after = state.staged.len();
        drop(state);
        let is_much = (before..after).contains(&self.config.commit_bytes);
        if is_first || is_much {
            self.notify();
        }
        Ok(ordinal)
    }

    /// Takes a record in: one critical section for the batch and the index.
    pub(super) fn stage(&self, state: &mut State, record: &ManifestRecord<'_>) -> Result<u64> {
        let before = state.staged.len();
        let encoded = record.encode(state.staged.buffer());
        encoded.map_err(|error| AofError::InvalidRecord { reason: error.to_string() })?;
        let len = state.staged.len() - before;
        state.staged.push(len as usize, is_news(record));
        state.staged_since_ms.get_or_insert(record.timestamp_ms);
        let ordinal = state.index.next_record();
        state.index.fold(ordinal, record);
        count(&self.metrics.records, 1);
        count(&self.metrics.bytes, len);
        Ok(ordinal)
    }

    /// The state, with space for so many more bytes.
    fn admit(&self, len: u64) -> Result<MutexGuard<'_, State>> {
        loop {
            let state = self.state.lock();
            state.check()?;
            let waiting = state.staged.len() + state.backlog_len;
            if waiting == 0 || waiting + len <= self.config.staged_bytes_max {
                return Ok(state);
            }
            drop(state);
            self.commit()?;
        }
    }

    /// Makes everything recorded so far durable.
    pub fn commit(&self) -> Result<()> {
        let mut files = self.files.lock();
        self.state.lock().check()?;
        self.commit_files(&mut files)
    }

    pub(super) fn commit_files(&self, files: &mut Files) -> Result<()> {
        self.drain(files);
        self.write_out(files)
    }

    /// Takes over what was recorded.
    fn drain(&self, files: &mut Files) {
        let mut state = self.state.lock();
        files.backlog.take(&mut state.staged);
        state.staged_since_ms = None;
        state.backlog_len = files.backlog.len();
    }

    /// Writes what was taken over, and tells who waits.
    pub(super) fn write_out(&self, files: &mut Files) -> Result<()> {
        let before = files.writer.committed();
        let fed = files.backlog.feed(&mut files.writer);
        let mut outcome = fed.and(files.writer.commit());
        if files.writer.committed() > before {
            files.last_commit_ms = self.now_ms();
            count(&self.metrics.commits, 1);
        }
        if outcome.is_ok() && files.writer.needs_rotation() {
            outcome = files.writer.rotate().map(drop);
        }
        self.publish(files);
        outcome
    }

    /// Publishes what became of the files.
    pub(super) fn publish(&self, files: &Files) {
        {
            let mut state = self.state.lock();
            state.backlog_len = files.backlog.len();
            if let Some(reason) = files.writer.poison() {
                state.poison = Some(Arc::clone(reason));
            }
        }
        set(&self.metrics.chunks_active, files.writer.chunk_count());
        set(&self.metrics.chunks_sealed, files.writer.seal_count());
        self.watch.publish(files.writer.committed());
        if let Some(reason) = files.writer.poison() {
            self.watch.poison(reason);
        }
    }

    /// Seals the active chunk, so that it can be uploaded. There may be none.
    pub fn rotate(&self) -> Result<()> {
        let mut files = self.files.lock();
        self.state.lock().check()?;
        self.commit_files(&mut files)?;
        let rotated = files.writer.rotate();
        self.publish(&files);
        rotated.map(drop)
    }
}

fn check_event(event: &ManifestEvent<'_>) -> Result<()> {
    let limit = |what: &str, len: usize, len_max: usize| {
        if len <= len_max {
            return Ok(());
        }
        let reason = format!("{what} of {len} bytes, at most {len_max} are recorded");
        Err(AofError::InvalidRecord { reason })
    };
    match *event {
        ManifestEvent::UploadStarted { key }
        | ManifestEvent::UploadFailed { key, .. }
        | ManifestEvent::Tier2DeleteQueued { key }
        | ManifestEvent::Tier2Deleted { key } => limit("key", key.len(), KEY_LEN_MAX),
        ManifestEvent::UploadDone { key, etag } => {
            limit("key", key.len(), KEY_LEN_MAX)?;
            limit("etag", etag.len(), KEY_LEN_MAX)
        }
        ManifestEvent::CustomEvent { blob, .. } => limit("blob", blob.len(), BLOB_LEN_MAX),
        ManifestEvent::Unknown { record_type, .. } => Err(AofError::InvalidRecord {
            reason: format!("record type {record_type} is not one this version writes"),
        }),
        _ => Ok(()),
    }
}
