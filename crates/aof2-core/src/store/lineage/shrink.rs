//! A fork that no longer needs the oldest records it inherited.

use std::path::PathBuf;

use super::file::{remove_other_lineages, store_lineage};
use super::holds::Holds;
use super::origins::locate;
use crate::error::Result;
use crate::format::{Hold, HolderKind, Inheritance, Lineage, StreamIdentity};
use crate::store::layout::Layout;
use crate::store::state::Store;

impl Store {
    /// Gives up what the log has from its `count` oldest ancestors, durably, and then no
    /// longer holds them. A crash in between leaves holds, which a sweep takes away.
    pub(crate) fn give_up_origins(&self, count: usize) -> Result<()> {
        let Some(inherited) = self.inherited() else { return Ok(()) };
        let (storage, layout) = (self.storage(), self.layout());
        let lineage = inherited.lineage();
        let (given_up, kept) = lineage.origins.split_at(count.min(lineage.origins.len()));
        let dir_of = |origin: &Inheritance| locate(storage, layout.root(), lineage, origin);
        let dirs: Result<Vec<Option<PathBuf>>> = given_up.iter().map(dir_of).collect();
        let rest = Lineage { origins: kept.to_vec(), ..lineage.clone() };
        let rest = Some(rest).filter(|rest| !rest.origins.is_empty());
        let checksum = match &rest {
            Some(rest) => Some(store_lineage(storage, layout, rest)?),
            None => None,
        };
        let identity = StreamIdentity { lineage: checksum, ..self.identity().clone() };
        layout.store_identity(storage, &identity)?;
        self.set_lineage(rest);
        remove_other_lineages(storage, layout, checksum)?;
        let file_name = Hold::file_name_of(HolderKind::Fork, identity.stream_id, "");
        for dir in dirs?.into_iter().flatten() {
            let origin = Layout::new(dir);
            let holds = Holds::of(storage, &origin);
            let _lock = holds.lock()?;
            holds.release(&file_name)?;
        }
        Ok(())
    }
}
