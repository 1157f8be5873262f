//! Adopting the logs of a root, and starting again when the operation log is gone.
//!
//! Adopting writes nothing into a log: the catalog only notes its name and id. A catalog that
//! is rebuilt knows the logs of its root and nothing else; what is left of the old one is set
//! aside under other names, for people to look at.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::make_directory;
use super::config::CatalogConfig;
use super::layout::CatalogLayout;
use super::open::Catalog;
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::io::{Clock, EntryKind, OsStorage, Storage, SystemClock};
use crate::read::AofReader;

/// What is set aside has this at the end of its name.
const LOST_SUFFIX: &str = ".lost";

/// What only the operation log knew.
pub const LOST_WITH_THE_LOG: &[&str] = &[
    "page stores, their chunks and deltas",
    "snapshots and forks",
    "namespaces, and which objects they hold",
    "policies",
    "jobs and open intents",
    "figures",
    "the audit",
    "places of readers of the change feed",
];

/// Logs that a catalog found in its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Names of those that are new to it.
    pub logs: Vec<String>,
    /// Directories that look like logs and could not be adopted, and why.
    pub skipped: Vec<(String, String)>,
}

/// How a catalog was rebuilt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// The logs that it knows.
    pub adopted: Adopted,
    /// Files and directories of the old one, by their new names.
    pub set_aside: Vec<String>,
    /// What could not come back.
    pub lost: &'static [&'static str],
}

impl Catalog {
    /// Registers the logs that are in the root and not known yet. Nothing is written into
    /// them; they may be open meanwhile.
    ///
    /// ```
    /// use aof2_core::{Aof, AofConfig, Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// Aof::open(AofConfig::new(dir.path().join("events")))?.close()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
    /// assert_eq!(catalog.adopt_logs()?.logs, ["events"]);
    /// assert!(catalog.adopt_logs()?.logs.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adopt_logs(&self) -> Result<Adopted> {
        let core = &self.shared.core;
        let root = &core.layout.root;
        let known: Vec<u64> =
            self.view()?.live_databases()?.iter().map(|(_, row)| row.stream_id).collect();
        let entries = core.storage.list(root).map_err(AofError::io("list the root", root))?;
        let mut names: Vec<String> = entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::Directory && !entry.name.starts_with('.'))
            .map(|entry| entry.name)
            .collect();
        names.sort_unstable();
        let mut adopted = Adopted::default();
        for name in names {
            let stream_id = match stream_of(&core.storage, &root.join(&name)) {
                Ok(Some(stream_id)) => stream_id,
                Ok(None) => continue,
                Err(error) => {
                    adopted.skipped.push((name, error.to_string()));
                    continue;
                }
            };
            if known.contains(&stream_id.as_u64()) {
                continue;
            }
            match self.create_stream(&name, stream_id, 0)?.wait() {
                Ok(_) => adopted.logs.push(name),
                Err(error @ (AofError::NameTaken { .. } | AofError::InvalidConfig { .. })) => {
                    adopted.skipped.push((name, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(adopted)
    }

    /// Starts a catalog again whose operation log is gone: sets aside what is left of it, and
    /// adopts the logs of the root. [`Rebuilt::lost`] lists what cannot come back. Refused
    /// while the operation log is there.
    pub fn rebuild(config: CatalogConfig) -> Result<(Self, Rebuilt)> {
        Self::rebuild_on(config, Arc::new(OsStorage), Arc::new(SystemClock))
    }

    /// [`Catalog::rebuild`] on other storage and with another clock than the machine's.
    pub fn rebuild_on(
        config: CatalogConfig,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Rebuilt)> {
        let layout = CatalogLayout::new(&config.root_dir);
        let identity = layout.log().join("stream");
        if storage.exists(&identity).map_err(AofError::io("look for", &identity))? {
            let reason = "the operation log is there; open the catalog, or repair that log first";
            return Err(super::state::refused(reason));
        }
        let set_aside = set_aside(&*storage, &layout)?;
        let catalog = Self::open_on(config, storage, clock)?;
        let adopted = catalog.adopt_logs()?;
        Ok((catalog, Rebuilt { adopted, set_aside, lost: LOST_WITH_THE_LOG }))
    }
}

/// The id of the log in a directory; `None` if it holds none.
fn stream_of(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<StreamId>> {
    match AofReader::open_on(Arc::clone(storage), path) {
        Ok(reader) => Ok(Some(reader.stream_id())),
        Err(AofError::NotALog { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames tables, checkpoints and cursors. A crash leaves some of them renamed; doing it
/// again renames the others.
fn set_aside(storage: &dyn Storage, layout: &CatalogLayout) -> Result<Vec<String>> {
    let mut moved = Vec::new();
    for directory in [layout.directory(), layout.checkpoints(), layout.cursors()] {
        let is_there = storage.exists(&directory).map_err(AofError::io("look for", &directory))?;
        if !is_there {
            continue;
        }
        let entries = storage.list(&directory).map_err(AofError::io("list", &directory))?;
        for entry in entries {
            let is_ours = entry.kind == EntryKind::File
                && [".redb", ".ckpt", ".cursor"].iter().any(|suffix| entry.name.ends_with(suffix));
            if !is_ours {
                continue;
            }
            let (from, to) = (entry.name.clone(), format!("{}{LOST_SUFFIX}", entry.name));
            let (from, target) = (directory.join(from), directory.join(&to));
            storage.rename(&from, &target).map_err(AofError::io("set aside", &from))?;
            moved.push(to);
        }
        make_directory(storage, layout, &directory)?;
        storage.sync_dir(&directory).map_err(AofError::io("sync", &directory))?;
    }
    moved.sort_unstable();
    Ok(moved)
}
