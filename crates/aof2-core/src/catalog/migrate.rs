//! Versions of the tables, and the steps from each to the next.
//!
//! A step is an operation: it is in the log, it happens once however often a writer is cut
//! and starts again, and none can be left out. Rows carry versions of their own and are read
//! in all versions that are known, so that a step need not rewrite them.

use super::view::View;
use crate::error::{AofError, Result};
use crate::format::operation::OperationBody;

/// Version of the tables that this code writes.
pub(super) const TABLES_VERSION: u32 = 1;

/// A step, and the version that it leads to.
pub(super) type Step = (u32, &'static str);

/// The steps, from an empty catalog on.
pub(super) const STEPS: &[Step] = &[(1, "the tables of aof2 0.2")];

/// A catalog that a newer program wrote is refused.
pub(super) fn check_version(view: &View, known: u32) -> Result<()> {
    let found = view.tables_version()?;
    match found > known {
        true => Err(AofError::NewerVersion { what: "the catalog".into(), found, known }),
        false => Ok(()),
    }
}

/// The steps that are still to be made.
pub(super) fn missing(view: &View, steps: &[Step]) -> Result<Vec<OperationBody>> {
    let version = view.tables_version()?;
    let missing = steps.iter().filter(|(to, _)| *to > version);
    Ok(missing
        .map(|(version, name)| OperationBody::Migrate {
            version: *version,
            name: (*name).to_owned(),
        })
        .collect())
}
