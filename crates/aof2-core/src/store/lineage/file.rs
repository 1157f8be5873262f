//! The lineage file of a fork.
//!
//! The stream file names it by its checksum, so that both change together: a new lineage
//! file is written and synced before the stream file names it, and the old one goes
//! afterwards. A crash in between leaves one file too many, which nobody reads.

use std::path::PathBuf;

use crate::error::{AofError, Result};
use crate::format::{FormatError, LINEAGE_LEN_MAX, Lineage, StreamIdentity, crc64};
use crate::io::{EntryKind, OpenMode, Storage};
use crate::store::create_anew;
use crate::store::layout::Layout;

fn path_of(layout: &Layout, checksum: u64) -> PathBuf {
    layout.root().join(Lineage::file_name(checksum))
}

/// The lineage of a fork; `None` if the log is none.
pub(crate) fn load_lineage(
    storage: &dyn Storage,
    layout: &Layout,
    identity: &StreamIdentity,
) -> Result<Option<Lineage>> {
    let Some(checksum) = identity.lineage else { return Ok(None) };
    let path = path_of(layout, checksum);
    let lost = |reason: String| AofError::NotALog { path: layout.root().to_owned(), reason };
    if !storage.exists(&path).map_err(AofError::io("look for", &path))? {
        return Err(lost(format!("it is a fork, and its file {} is missing", path.display())));
    }
    match read(storage, &path)? {
        Ok((found, lineage)) if found == checksum && lineage.stream_id == identity.stream_id => {
            Ok(Some(lineage))
        }
        Ok(_) => Err(lost(format!("its file {} is another fork's", path.display()))),
        Err(FormatError::UnsupportedVersion { found }) => Err(AofError::NewerVersion {
            what: format!("the lineage of the fork in {}", layout.root().display()),
            found,
            known: 1,
        }),
        Err(error) => {
            Err(lost(format!("it is a fork, and its file {} is damaged ({error})", path.display())))
        }
    }
}

/// The checksum and the lineage in a file.
fn read(
    storage: &dyn Storage,
    path: &std::path::Path,
) -> Result<std::result::Result<(u64, Lineage), FormatError>> {
    let file = storage.open(path, OpenMode::Read).map_err(AofError::io("open", path))?;
    let len = file.len().map_err(AofError::io("read", path))?;
    let mut bytes = vec![0; len.min(LINEAGE_LEN_MAX as u64) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", path))?;
    Ok(Lineage::decode(&bytes).map(|lineage| (crc64(&bytes), lineage)))
}

/// The only lineage that the directory has, where the stream file is lost: without it the
/// log would be taken for one that begins with the fork's own segments.
pub(crate) fn recorded_lineage(storage: &dyn Storage, layout: &Layout) -> Result<Option<Lineage>> {
    let mut found = None;
    for checksum in listed(storage, layout)? {
        if let Ok((of, lineage)) = read(storage, &path_of(layout, checksum))?
            && of == checksum
        {
            // Of two the crash was in the middle of a change: the one that inherits more
            // promises nothing that is not held.
            let inherits = |lineage: &Lineage| lineage.first();
            found = match found {
                Some(known) if inherits(&known) <= inherits(&lineage) => Some(known),
                _ => Some(lineage),
            };
        }
    }
    Ok(found)
}

fn listed(storage: &dyn Storage, layout: &Layout) -> Result<Vec<u64>> {
    let dir = layout.root();
    let entries = match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(AofError::io("list directory", dir))?,
    };
    let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
    Ok(files.filter_map(|entry| Lineage::parse_file_name(&entry.name)).collect())
}

/// Writes a lineage file into a directory that is new, and syncs it; its name is durable when
/// the directory is synced.
pub(crate) fn write_lineage(
    storage: &dyn Storage,
    layout: &Layout,
    lineage: &Lineage,
) -> Result<u64> {
    let bytes = lineage.encode();
    let checksum = crc64(&bytes);
    let path = path_of(layout, checksum);
    let file = create_anew(storage, &path)?;
    file.write_all_at(&bytes, 0).map_err(AofError::io("write", &path))?;
    file.sync().map_err(AofError::io("sync", &path))?;
    Ok(checksum)
}

/// Writes a lineage file durably. Nothing names it yet.
pub(crate) fn store_lineage(
    storage: &dyn Storage,
    layout: &Layout,
    lineage: &Lineage,
) -> Result<u64> {
    let bytes = lineage.encode();
    let checksum = crc64(&bytes);
    layout.replace_file(storage, &path_of(layout, checksum), &bytes)?;
    Ok(checksum)
}

/// Removes lineage files that the stream file does not name.
pub(crate) fn remove_other_lineages(
    storage: &dyn Storage,
    layout: &Layout,
    named: Option<u64>,
) -> Result<()> {
    for checksum in listed(storage, layout)?.into_iter().filter(|&of| Some(of) != named) {
        let path = path_of(layout, checksum);
        storage.remove(&path).map_err(AofError::io("remove", &path))?;
    }
    Ok(())
}
