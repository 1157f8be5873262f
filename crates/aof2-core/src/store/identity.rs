//! Which log a directory holds.
//!
//! A log is its id, drawn from the operating system when the log is created and stored in
//! the file `stream`. Where that file is lost, the id is what a segment header, a
//! compressed copy, the watermark file or the manifest's directory tells, never the name.

use std::path::Path;

use super::cold::ColdStore;
use super::layout::Layout;
use super::survey::Survey;
use crate::error::{AofError, Result};
use crate::format::{StreamId, StreamIdentity, WATERMARK_HEADER_LEN, WatermarkHeader};
use crate::io::{EntryKind, OpenMode, Storage};

/// The log in a directory, before anything of it is locked or changed; `None` if there is
/// none.
pub(crate) fn look_for(
    storage: &dyn Storage,
    layout: &Layout,
    cold: &ColdStore,
) -> Result<Option<StreamIdentity>> {
    let dir = layout.segments_dir();
    if !storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
        return Ok(None);
    }
    match layout.load_identity(storage)? {
        Some(identity) => Ok(Some(identity)),
        None => Survey::take(storage, layout, cold)?.identity_or_derived(storage, layout),
    }
}

/// What a log is called that was given no name: its directory.
pub(crate) fn directory_name(root: &Path) -> String {
    let absolute = std::path::absolute(root).unwrap_or(root.to_owned());
    absolute.file_name().map_or("log".into(), |n| n.to_string_lossy().into_owned())
}

/// An id that no other log has.
pub(crate) fn draw_id(storage: &dyn Storage, root: &Path) -> Result<StreamId> {
    loop {
        let number = storage.random_u64().map_err(AofError::io("draw an id for", root))?;
        if let Some(id) = StreamId::from_random(number) {
            return Ok(id);
        }
    }
}

/// The id that the watermark file or the manifest's directory tells.
pub(crate) fn recorded_id(storage: &dyn Storage, layout: &Layout) -> Option<StreamId> {
    watermark_id(storage, layout).or_else(|| manifest_id(storage, layout))
}

fn watermark_id(storage: &dyn Storage, layout: &Layout) -> Option<StreamId> {
    let file = storage.open(&layout.watermark_file(), OpenMode::Read).ok()?;
    let mut bytes = [0; WATERMARK_HEADER_LEN];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(WatermarkHeader::decode(&bytes).ok()?.stream_id)
}

/// The only manifest there is; of several none is this log's for certain.
fn manifest_id(storage: &dyn Storage, layout: &Layout) -> Option<StreamId> {
    let entries = storage.list(&layout.root().join("manifest")).ok()?;
    let dirs = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    let mut ids = dirs.filter_map(|entry| {
        let is_number = entry.name.len() == 20 && entry.name.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| entry.name.parse().ok()).flatten().and_then(StreamId::from_random)
    });
    let id = ids.next()?;
    ids.next().is_none().then_some(id)
}

/// What opening says of a log that nothing identifies.
pub(crate) fn unidentified(layout: &Layout) -> AofError {
    let reason = "its stream file is lost or damaged, and nothing else tells which log it is; \
                  repair gives it a new id";
    AofError::NotALog { path: layout.root().to_owned(), reason: reason.into() }
}
