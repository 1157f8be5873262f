//! The file `cold/location`: where a log's cold segments are.

use std::path::Path;
use std::str::FromStr;

use crate::error::{AofError, Result};
use crate::format::{COLD_LOCATION_LEN_MAX, ColdLocation};
use crate::io::{OpenMode, OsStorage, Storage};
use crate::object::{ColdConfig, Sse};
use crate::store::kept_index;
use crate::store::layout::Layout;

/// Where the cold segments of the log in this directory are; `None` if it never had a
/// cold tier.
pub fn cold_location(root: impl AsRef<Path>) -> Result<Option<ColdLocation>> {
    load(&OsStorage, &Layout::new(root.as_ref()))
}

/// What the log says of its cold tier, if it has one.
pub(super) fn load(storage: &dyn Storage, layout: &Layout) -> Result<Option<ColdLocation>> {
    let path = layout.cold_location_file();
    if !storage.exists(&path).map_err(AofError::io("look for", &path))? {
        return Ok(None);
    }
    let file = storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
    let len = file.len().map_err(AofError::io("read", &path))?;
    let mut bytes = vec![0; len.min(COLD_LOCATION_LEN_MAX as u64) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", &path))?;
    ColdLocation::decode(&bytes).map(Some).map_err(|error| AofError::Foreign {
        reason: format!("it does not say where the cold tier is ({error})"),
        path,
    })
}

/// Writes it if it says something else. A log whose segments are in one place is not
/// told that they are in another: they would be lost from sight.
pub(crate) fn store_location(
    storage: &dyn Storage,
    layout: &Layout,
    now: &ColdLocation,
) -> Result<()> {
    let known = match load(storage, layout) {
        Ok(known) => known,
        // Damaged: the tails tell the same, and the configuration says where they are.
        Err(AofError::Foreign { .. }) => None,
        Err(error) => return Err(error),
    };
    if known.as_ref() == Some(now) {
        return Ok(());
    }
    if let Some(known) = known.filter(|known| known.url != now.url)
        && !kept_index::list(storage, layout)?.is_empty()
    {
        let (old, new) = (known.url, &now.url);
        let reason = format!("segments of this log are in {old}; open it with that, not {new}");
        return Err(AofError::InvalidConfig { field: "cold", reason });
    }
    layout.ensure_dir(storage, &layout.cold_dir())?;
    let bytes = now
        .encode()
        .map_err(|error| AofError::InvalidConfig { field: "cold", reason: error.to_string() })?;
    layout.replace_file(storage, &layout.cold_location_file(), &bytes)
}

/// A configuration that reaches the place.
pub(super) fn config(location: &ColdLocation) -> Result<ColdConfig> {
    let mut config = ColdConfig::new(&location.url);
    config.endpoint.clone_from(&location.endpoint);
    config.region.clone_from(&location.region);
    config.path_style = location.path_style;
    config.sse = Sse::from_str(&location.sse)?;
    Ok(config)
}
