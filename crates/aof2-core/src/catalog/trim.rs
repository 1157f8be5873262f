//! After a checkpoint: what the operation log may forget.
//!
//! Everything behind the oldest checkpoint that is kept, and behind the slowest cursor. The
//! order matters: the checkpoint is verified and has its name, cursors are read from the disk
//! and those too far behind are expired by an operation, and only then do segments go. A
//! crash in between leaves more of the log than needed.

use super::checkpoint;
use super::core::Core;
use super::cursors;
use super::engine::{Engine, Group, Request};
use super::guard::Promise;
use super::records::{ComponentKind, ComponentRecord};
use crate::error::Result;
use crate::format::CursorFile;
use crate::format::operation::OperationBody;
use crate::planted::{self, CatalogBug};
use crate::write::RetentionPolicy;

impl Engine {
    /// Writes a checkpoint and lets the log go behind it, all on this thread.
    #[cfg(test)]
    pub(super) fn checkpoint_now(&mut self) -> Result<u64> {
        let view = self.start_checkpoint()?;
        let len = checkpoint::write(&*self.core.storage, &self.core.layout, &view)?;
        let generation = view.generation();
        drop(view);
        self.finish_checkpoint(generation, len)?;
        Ok(generation)
    }

    /// What a checkpoint is written of. From here on opening need not apply it again.
    pub(super) fn start_checkpoint(&mut self) -> Result<super::view::View> {
        self.operations_since_checkpoint = 0;
        self.core.tables.persist()?;
        self.core.tables.view()
    }

    /// A checkpoint is in place: older ones may go, and the log behind them.
    pub(super) fn finish_checkpoint(&mut self, generation: u64, len: u64) -> Result<()> {
        self.core.counters.checkpoint(generation, len);
        let core = std::sync::Arc::clone(&self.core);
        let oldest = checkpoint::prune(&*core.storage, &core.layout)?;
        let slowest = self.note_cursors()?;
        let Some(oldest) = oldest else { return Ok(()) };
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
        let (mut requests, mut expired) = (Vec::new(), Vec::new());
        let mut needed = Vec::new();
        for (name, file) in cursors::list(&*core.storage, &core.layout)? {
            let row = components.iter().find(|(_, row)| is_cursor(row, &name));
            match judge(&core, next, row.map(|(_, row)| row), file.as_ref()) {
                Verdict::Same(at) => needed.push((at, file)),
                Verdict::Moved(at) => {
                    requests.push(OperationBody::AdvanceCursor {
                        component_id: row.map_or(0, |(id, _)| *id),
                        name,
                        next_generation: at,
                    });
                    needed.push((at, file));
                }
                Verdict::Expired => match row {
                    Some((component_id, _)) => {
                        let component_id = *component_id;
                        requests.push(OperationBody::ExpireCursor { component_id });
                        expired.push(name);
                    }
                    // First it is noted that there was one, so that its reader can be told.
                    None => requests.push(OperationBody::AdvanceCursor {
                        component_id: 0,
                        name,
                        next_generation: file.map_or(0, |file| file.next_generation),
                    }),
                },
            }
        }
        self.commit_own(requests)?;
        for name in expired {
            checkpoint::remove_if_there(&*core.storage, &core.layout.cursor(&name))?;
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
        completion.wait(None).unwrap_or(Err(crate::error::AofError::Closed)).map(drop)
    }
}

fn is_cursor(row: &ComponentRecord, name: &str) -> bool {
    row.name == name && row.kind != ComponentKind::Component
}

enum Verdict {
    Same(u64),
    Moved(u64),
    Expired,
}

fn judge(
    core: &Core,
    next: u64,
    row: Option<&ComponentRecord>,
    file: Option<&CursorFile>,
) -> Verdict {
    // A place that nobody can read holds nothing; its reader is told.
    let Some(file) = file else { return Verdict::Expired };
    let at = file.next_generation;
    let was_expired = row.is_some_and(|row| {
        row.kind == ComponentKind::ExpiredCursor && file.updated_ms <= row.updated_ms
    });
    let lag = next.saturating_sub(at);
    let age_ms = core.now_ms().saturating_sub(file.updated_ms);
    let is_late =
        lag > core.config.cursor_batches_max || (lag > 0 && age_ms > core.config.cursor_age_ms_max);
    if was_expired || is_late {
        return Verdict::Expired;
    }
    match row {
        Some(row) if row.kind == ComponentKind::Cursor && row.generation == at => Verdict::Same(at),
        _ => Verdict::Moved(at),
    }
}
