//! After a checkpoint: what the operation log may forget.
//!
//! Everything behind the older of two checkpoints that were verified to fit the log, and
//! behind the slowest cursor. The order matters: the checkpoint is verified and has its name,
//! cursors are read from the disk and those too far behind are expired by an operation, and
//! only then do segments go. A crash in between leaves more of the log than needed.

use super::checkpoint;
use super::core::Core;
use super::cursors;
use super::engine::{Engine, Group, Request};
use super::guard::Promise;
use super::kept;
use super::layout::CatalogLayout;
use super::records::{ComponentKind, ComponentRecord};
use super::recover::OperationLog;
use super::replay::{batch_of, divergence};
use super::verify::verify;
use super::view::View;
use crate::error::{AofError, Result};
use crate::format::CursorFile;
use crate::format::operation::{Operation, OperationBody};
use crate::planted::{self, CatalogBug};
use crate::write::RetentionPolicy;

/// A checkpoint that was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) generation: u64,
    len: u64,
    /// The checkpoints that were verified and are kept, newest first.
    kept: Vec<u64>,
}

/// Writes the checkpoint of a view, and decides which of the older ones are kept.
pub(super) fn write_checkpoint(core: &Core, view: View) -> Result<Written> {
    let (storage, layout) = (&*core.storage, &core.layout);
    let generation = view.generation();
    check_tables(&view, layout)?;
    let len = checkpoint::write(storage, layout, &view)?;
    // What changes meanwhile need not be kept for it.
    drop(view);
    let kept = kept::prune(storage, layout, &core.log, generation)?;
    Ok(Written { generation, len, kept })
}

/// Rows that a damaged page changed must not push out a checkpoint that has the right ones.
fn check_tables(view: &View, layout: &CatalogLayout) -> Result<()> {
    match verify(view)?.first() {
        None => Ok(()),
        Some(problem) => Err(divergence(&layout.tables(), view.generation(), problem.to_string())),
    }
}

impl Engine {
    /// Writes a checkpoint and lets the log go behind it, all on this thread.
    #[cfg(test)]
    pub(super) fn checkpoint_now(&mut self) -> Result<u64> {
        let view = self.start_checkpoint()?;
        let written = write_checkpoint(&self.core, view)?;
        self.finish_checkpoint(&written)?;
        Ok(written.generation)
    }

    /// What a checkpoint is written of. From here on opening need not apply it again.
    pub(super) fn start_checkpoint(&mut self) -> Result<View> {
        self.operations_since_checkpoint = 0;
        self.core.tables.persist()?;
        self.core.tables.view()
    }

    /// A checkpoint is in place: the log may go behind the one before it.
    pub(super) fn finish_checkpoint(&mut self, written: &Written) -> Result<()> {
        let core = std::sync::Arc::clone(&self.core);
        core.counters.checkpoint(written.generation, written.len);
        let slowest = self.note_cursors()?;
        // With one checkpoint alone, losing it would need all of the log.
        let Some(oldest) = written.kept.get(kept::KEPT - 1) else { return Ok(()) };
        let keep_from = slowest.unwrap_or(u64::MAX).min(oldest + 1);
        let policy = RetentionPolicy { before_offset: Some(keep_from), ..Default::default() };
        core.log.apply_retention(&policy).map(drop)
    }

    /// Notes where the cursors are, and expires those too far behind. The first generation
    /// that one of them still needs.
    fn note_cursors(&mut self) -> Result<Option<u64>> {
        let core = std::sync::Arc::clone(&self.core);
        let components = core.tables.view()?.components()?;
        let next = self.applied.next_generation();
        let (mut requests, mut gone, mut needed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, file) in cursors::list(&*core.storage, &core.layout)? {
            let row = components.iter().find(|(_, row)| is_cursor(row, &name));
            let component_id = row.map_or(0, |(id, _)| *id);
            let moved = |to| OperationBody::AdvanceCursor {
                component_id,
                name: name.clone(),
                next_generation: to,
            };
            match judge(&core, next, row.map(|(_, row)| row), file.as_ref())? {
                Verdict::Same(at) => needed.push((at, file)),
                Verdict::Moved(at) => {
                    requests.push(moved(at));
                    needed.push((at, file));
                }
                Verdict::Forgotten => {
                    let is_noted = |row: &ComponentRecord| row.generation == CursorFile::FORGOTTEN;
                    if row.is_some_and(|(_, row)| !is_noted(row)) {
                        requests.push(moved(CursorFile::FORGOTTEN));
                    }
                    gone.push((name, file));
                }
                Verdict::Expired => match row {
                    Some((_, row)) => {
                        if row.kind != ComponentKind::ExpiredCursor {
                            requests.push(OperationBody::ExpireCursor { component_id });
                        }
                        gone.push((name, file));
                    }
                    // First it is noted that there was one, so that its reader can be told.
                    None => requests.push(moved(file.map_or(0, |file| file.next_generation))),
                },
            }
        }
        self.commit_own(requests)?;
        for found in gone {
            cursors::remove_unmoved(&core.storage, &core.layout, &found)?;
        }
        if planted::in_catalog(CatalogBug::SlowerCursorTrimmed) {
            let updated = |file: &Option<CursorFile>| file.as_ref().map_or(0, |f| f.updated_ms);
            needed.sort_by_key(|(at, file)| (updated(file), *at));
            return Ok(needed.last().map(|(at, _)| *at));
        }
        Ok(needed.into_iter().map(|(at, _)| at).min())
    }

    /// Decides something that nobody asked for.
    pub(super) fn commit_own(&mut self, bodies: Vec<OperationBody>) -> Result<()> {
        if bodies.is_empty() {
            return Ok(());
        }
        let (promise, completion) = Promise::new();
        let requests = bodies.into_iter().map(Request::new).collect();
        self.commit([Group { actor: "catalog".into(), requests, promise }].into());
        completion.wait(None).unwrap_or(Err(AofError::Closed)).map(drop)
    }
}

fn is_cursor(row: &ComponentRecord, name: &str) -> bool {
    row.name == name && row.kind != ComponentKind::Component
}

enum Verdict {
    Same(u64),
    Moved(u64),
    /// Its reader gave it up.
    Forgotten,
    Expired,
}

fn judge(
    core: &Core,
    next: u64,
    row: Option<&ComponentRecord>,
    file: Option<&CursorFile>,
) -> Result<Verdict> {
    // A place that nobody can read holds nothing; its reader is told.
    let Some(file) = file else { return Ok(Verdict::Expired) };
    let at = file.next_generation;
    if at == CursorFile::FORGOTTEN {
        return Ok(Verdict::Forgotten);
    }
    // Whoever wrote the file after the cursor was expired had seen the batch that says so.
    let expired_at = row.and_then(|row| row.expired_at);
    let was_expired = expired_at.is_some_and(|expired_at| file.seen_generation < expired_at);
    let is_foreign = file.stream_id != core.log.stream_id().as_u64() || at > next;
    if was_expired || is_foreign || is_late(core, next, file)? {
        return Ok(Verdict::Expired);
    }
    Ok(match row {
        Some(row) if row.kind == ComponentKind::Cursor && row.generation == at => Verdict::Same(at),
        _ => Verdict::Moved(at),
    })
}

/// Whether a cursor is too many batches behind, or for too long. The time counts from when
/// there was something to acknowledge.
fn is_late(core: &Core, next: u64, file: &CursorFile) -> Result<bool> {
    let lag = next.saturating_sub(file.next_generation);
    if lag == 0 || lag > core.config.cursor_batches_max {
        return Ok(lag > 0);
    }
    let since_ms = match owed_since(core, file.next_generation) {
        Ok(Some(since_ms)) => since_ms.max(file.updated_ms),
        Ok(None) => return Ok(false),
        Err(AofError::Trimmed { .. }) => return Ok(true),
        Err(error) => return Err(error),
    };
    Ok(core.now_ms().saturating_sub(since_ms) > core.config.cursor_age_ms_max)
}

/// When the first batch from here on was decided that says more than where cursors are.
fn owed_since(core: &Core, from: u64) -> Result<Option<u64>> {
    let mut scan = OperationLog::scan(&core.log, from)?;
    while let Some(record) = scan.next_record()? {
        let (batch, _) = batch_of(&record, &core.layout.log())?;
        let says_more = |operation: &&Operation| {
            let body = &operation.body;
            !matches!(
                body,
                OperationBody::AdvanceCursor { .. } | OperationBody::ExpireCursor { .. }
            )
        };
        if let Some(operation) = batch.operations.iter().find(says_more) {
            return Ok(Some(operation.timestamp_ms));
        }
    }
    Ok(None)
}
