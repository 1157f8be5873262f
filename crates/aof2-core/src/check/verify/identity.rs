//! Which log a directory is, also if its identity file is damaged or gone.

use std::path::Path;

use super::ends::Ends;
use crate::error::{AofError, Result};
use crate::format::{
    STREAM_IDENTITY_LEN_MAX, SegmentFormat, StreamIdentity, WATERMARK_HEADER_LEN, WatermarkHeader,
};
use crate::io::{OpenMode, Storage};
use crate::store::{Layout, draw_id, recorded_id, recorded_lineage};
use crate::write::AofConfig;

/// The beginning of a file; `None` if there is none.
pub(super) fn read_prefix(
    storage: &dyn Storage,
    path: &Path,
    len_max: usize,
) -> Result<Option<Vec<u8>>> {
    let file = match storage.open(path, OpenMode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(AofError::io("open", path))?,
    };
    let len = file.len().map_err(AofError::io("read", path))?;
    let mut bytes = vec![0; len.min(len_max as u64) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", path))?;
    Ok(Some(bytes))
}

/// The identity file's contents, if they are valid to the last byte.
pub(super) fn load_identity(
    storage: &dyn Storage,
    layout: &Layout,
) -> Result<Option<StreamIdentity>> {
    // One byte more than allowed, so that a longer file shows.
    let bytes = read_prefix(storage, &layout.stream_file(), STREAM_IDENTITY_LEN_MAX + 1)?;
    Ok(bytes.and_then(|bytes| StreamIdentity::decode(&bytes).ok()))
}

/// The stream that this is: what its file says unless the segments agree on another,
/// or else what can be pieced together.
pub(super) fn find_identity(
    storage: &dyn Storage,
    layout: &Layout,
    stored: Option<&StreamIdentity>,
    ends: &[Ends],
    watermark: Option<&[u8]>,
) -> Result<StreamIdentity> {
    let mut ids = ends.iter().filter_map(Ends::stream_id);
    let first = ids.next();
    let agreed = first.filter(|first| ids.all(|id| id == *first));
    if let Some(identity) = stored {
        // A single segment of another stream is a foreign segment.
        let several = ends.iter().any(|e| e.given.segment_id != ends[0].given.segment_id);
        let outvoted = agreed.is_some_and(|id| id != identity.stream_id) && several;
        if !outvoted {
            return Ok(identity.clone());
        }
    }
    if stored.is_none() {
        let damaged = read_prefix(storage, &layout.stream_file(), STREAM_IDENTITY_LEN_MAX)?;
        if let Some(identity) = damaged.and_then(mend_identity) {
            return Ok(identity);
        }
    }
    let in_watermark = watermark
        .and_then(|bytes| WatermarkHeader::decode(bytes.get(..WATERMARK_HEADER_LEN)?).ok())
        .map(|header| header.stream_id);
    let told = agreed.or(first).or(in_watermark).or_else(|| recorded_id(storage, layout));
    let oldest = ends.iter().find(|e| e.valid_header().is_some());
    Ok(StreamIdentity {
        // What nothing identifies gets a new id: its records carry none.
        stream_id: told.map_or_else(|| draw_id(storage, layout.root()), Ok)?,
        name: AofConfig::new(layout.root()).stream_name(),
        format: oldest.map_or(SegmentFormat::Full, |e| e.format),
        created_at_ns: oldest.map_or(0, |e| e.name.created_at_ns),
        lineage: recorded_lineage(storage, layout)?.map(|lineage| lineage.checksum()),
    })
}

/// A file with one flipped bit: there is only one bit that makes the checksum fit.
fn mend_identity(mut bytes: Vec<u8>) -> Option<StreamIdentity> {
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            if let Ok(identity) = StreamIdentity::decode(&bytes) {
                return Some(identity);
            }
            bytes[at] ^= 1 << bit;
        }
    }
    None
}
