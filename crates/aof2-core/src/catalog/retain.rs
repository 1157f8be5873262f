//! Snapshots that may go by themselves: those whose time is up, and the oldest where a policy
//! limits their number. A clock that is late keeps them longer, never shorter.

use super::open::Catalog;
use super::records::SnapshotRecord;
use crate::error::{AofError, Result};

/// A snapshot that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedSnapshot {
    /// Its database.
    pub db_id: u32,
    /// Its number.
    pub snapshot_id: u32,
    /// Its name.
    pub name: String,
}

impl Catalog {
    /// Drops the snapshots that may go now. What they held goes when nothing else holds it.
    ///
    /// ```
    /// use aof2_core::catalog::{DbKind, SnapshotSpec};
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// let db_id = catalog.register_db("app", DbKind::Pages, 0)?.wait()?.value;
    /// let snapshot = SnapshotSpec {
    ///     db_id,
    ///     name: "for a moment".into(),
    ///     generation: 0,
    ///     offset: 0,
    ///     expires_at_ms: Some(1),
    /// };
    /// catalog.publish_snapshot(snapshot)?.wait()?;
    /// assert_eq!(catalog.drop_expired_snapshots()?[0].name, "for a moment");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_expired_snapshots(&self) -> Result<Vec<DroppedSnapshot>> {
        let now_ms = self.shared.core.now_ms();
        let view = self.view()?;
        let mut dropped = Vec::new();
        for (db_id, db) in view.databases()? {
            let mut rows = view.snapshots(db_id)?;
            rows.retain(|(_, row)| row.fork_db.is_none());
            for (snapshot_id, row) in due(rows, now_ms, db.policy.snapshots_max) {
                match self.drop_snapshot(db_id, snapshot_id)?.wait() {
                    Ok(_) => dropped.push(DroppedSnapshot { db_id, snapshot_id, name: row.name }),
                    // Somebody else was faster.
                    Err(AofError::NoSuchSnapshot { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(dropped)
    }
}

/// Which of the snapshots of a database, oldest first, may go.
fn due(
    rows: Vec<(u32, SnapshotRecord)>,
    now_ms: u64,
    kept_max: Option<u32>,
) -> Vec<(u32, SnapshotRecord)> {
    let is_over = |row: &SnapshotRecord| row.expires_at_ms.is_some_and(|at| at <= now_ms);
    let (mut due, rest): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, row)| is_over(row));
    if let Some(kept_max) = kept_max {
        let too_many = rest.len().saturating_sub(kept_max as usize);
        due.extend(rest.into_iter().take(too_many));
    }
    due
}
