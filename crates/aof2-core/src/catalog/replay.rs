//! Applying what the operation log has to tables that have less: after a crash, in readers,
//! and wherever tables are made anew.
//!
//! A batch that the tables include is skipped; the next one must follow from the last, by
//! number and by checksum; anything else stops with an error. So it does not matter how often
//! or from where the log is applied.

use std::path::Path;

use super::apply::apply;
use super::database::{Applied, Tables};
use super::state::State;
use crate::error::{AofError, Damage, Result};
use crate::format::FormatError;
use crate::format::operation::OperationBatch;
use crate::read::{Record, Scan};

/// Changes that are gathered before they are written.
const CHANGES_MAX: usize = 20_000;

/// The batch in a record of the operation log, and its checksum.
pub(super) fn batch_of(record: &Record, log: &Path) -> Result<(OperationBatch, u64)> {
    let (batch, crc64) =
        OperationBatch::decode(&record.payload).map_err(|e| batch_error(log, record.offset, e))?;
    match batch.generation == record.offset {
        true => Ok((batch, crc64)),
        false => {
            let reason = format!("it holds batch {}", batch.generation);
            Err(divergence(log, record.offset, reason))
        }
    }
}

fn batch_error(log: &Path, generation: u64, error: FormatError) -> AofError {
    match error {
        FormatError::UnknownOperation { found } => AofError::NewerVersion {
            what: format!("an operation of batch {generation} of the catalog"),
            found: u32::from(found),
            known: crate::format::operation::OPERATION_TYPES.last().map_or(0, |t| u32::from(t.0)),
        },
        FormatError::UnsupportedVersion { found } => AofError::NewerVersion {
            what: format!("batch {generation} of the catalog"),
            found,
            known: 1,
        },
        other => divergence(log, generation, other.to_string()),
    }
}

/// The log and the tables do not fit together.
pub(super) fn divergence(log: &Path, generation: u64, reason: impl Into<String>) -> AofError {
    AofError::Corrupt(Box::new(Damage {
        path: log.to_owned(),
        offset: generation,
        records: generation..generation + 1,
        reason: reason.into(),
    }))
}

/// Applies the batches of a scan to the tables. What they include now.
pub(super) fn replay(
    tables: &Tables,
    mut applied: Applied,
    mut scan: Scan,
    log: &Path,
    known_version: u32,
) -> Result<Applied> {
    loop {
        let view = tables.view()?;
        let mut state = State::new(&view);
        let mut is_last = true;
        while let Some(record) = scan.next_record()? {
            let (batch, crc64) = batch_of(&record, log)?;
            if batch.generation < applied.next_generation() {
                continue;
            }
            apply_batch(&mut state, &applied, &batch, log)?;
            applied.generation = Some(batch.generation);
            applied.batch_crc64 = crc64;
            if state.changes_count() > CHANGES_MAX {
                is_last = false;
                break;
            }
        }
        let changes = state.into_changes();
        if view.applied() != applied {
            drop(view);
            tables.write(&changes, &applied)?;
        }
        if is_last {
            super::migrate::check_version(&tables.view()?, known_version)?;
            return Ok(applied);
        }
    }
}

/// Applies a batch that must be the next one.
pub(super) fn apply_batch(
    state: &mut State<'_>,
    applied: &Applied,
    batch: &OperationBatch,
    log: &Path,
) -> Result<()> {
    let next = applied.next_generation();
    if batch.generation != next {
        let reason = format!("batch {next} is missing before it");
        return Err(divergence(log, batch.generation, reason));
    }
    if batch.previous_crc64 != applied.batch_crc64 {
        let reason = "it does not follow from what the tables include";
        return Err(divergence(log, batch.generation, reason));
    }
    for operation in &batch.operations {
        if let Err(error) = apply(state, operation) {
            // These say nothing about the operation.
            if matches!(error, AofError::Io { .. } | AofError::NewerVersion { .. }) {
                return Err(error);
            }
            let id = operation.id;
            let name = operation.body.name();
            let reason = format!("operation {id} ({name}) does not hold: {error}");
            return Err(divergence(log, batch.generation, reason));
        }
    }
    state.take_group();
    Ok(())
}
