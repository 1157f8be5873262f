//! Verifying a fork reads what it has from others, too. Nothing of that is repaired here: it
//! belongs to the log in which it is.

use std::sync::Arc;

use super::report::{Problem, ProblemKind, Severity, VerifyReport};
use crate::error::{AofError, Damage, Result};
use crate::format::Lineage;
use crate::io::Storage;
use crate::read::{AofReader, End, ReadableLog, ScanOptions, Start};
use crate::store::{ColdStore, Layout, load_lineage};

/// Reads all inherited records, and adds them, or what is wrong with them, to the report.
pub(super) fn read_through(
    storage: &Arc<dyn Storage>,
    layout: &Layout,
    report: &mut VerifyReport,
) -> Result<()> {
    let Some(identity) = layout.load_identity(&**storage)? else { return Ok(()) };
    let lineage = match load_lineage(&**storage, layout, &identity) {
        Err(error @ (AofError::NotALog { .. } | AofError::NewerVersion { .. })) => {
            report.problems.insert(
                0,
                Problem {
                    kind: ProblemKind::Identity,
                    severity: Severity::Damage,
                    path: layout.root().to_owned(),
                    offset: 0,
                    records: 0..report.first_offset,
                    detail: error.to_string(),
                },
            );
            return Ok(());
        }
        lineage => lineage?,
    };
    let Some(lineage) = lineage.filter(|lineage| !lineage.origins.is_empty()) else {
        return Ok(());
    };
    let cold = ColdStore::named_by_log(Arc::clone(storage), layout.root());
    let reader = AofReader::open_with(Arc::clone(storage), cold, layout.root())?;
    let (count, bytes, problems) = read_all(&reader, &lineage)?;
    report.first_offset = lineage.first().1;
    report.next_offset = report.next_offset.max(lineage.start.offset);
    report.record_count += count;
    report.bytes += bytes;
    report.problems.splice(0..0, problems);
    Ok(())
}

/// Number and payload bytes of the records that can be read, and what is in the way of
/// others.
fn read_all(reader: &AofReader, lineage: &Lineage) -> Result<(u64, u64, Vec<Problem>)> {
    let end = lineage.start.offset;
    let (mut next, mut count, mut bytes) = (lineage.first().1, 0, 0);
    let mut problems = Vec::new();
    while next < end {
        let options =
            ScanOptions { start: Start::Offset(next), end: End::Offset(end), ..Default::default() };
        let stopped = match ReadableLog::scan(reader, options) {
            Err(error) => Some(error),
            Ok(scan) => scan
                .map(|record| {
                    record.map(|record| {
                        count += 1;
                        bytes += record.payload.len() as u64;
                        next = record.offset + 1;
                    })
                })
                .find_map(std::result::Result::err),
        };
        match stopped {
            None => break,
            Some(AofError::Corrupt(damage)) => {
                next = damage.records.end.clamp(next + 1, end);
                problems.push(problem(*damage, end));
            }
            Some(error) => return Err(error),
        }
    }
    Ok((count, bytes, problems))
}

fn problem(damage: Damage, end: u64) -> Problem {
    Problem {
        kind: ProblemKind::Inherited,
        severity: Severity::Damage,
        path: damage.path,
        offset: damage.offset,
        records: damage.records.start..damage.records.end.min(end),
        detail: format!("{}; verify and repair the log that it belongs to", damage.reason),
    }
}
