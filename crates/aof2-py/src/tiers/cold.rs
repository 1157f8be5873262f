//! The object store of a `Tiers`, and the one that a log left word of.

use std::str::FromStr;

use aof2_core::AofError;
use aof2_core::object::{ColdConfig, Sse};
use pyo3::prelude::*;

use crate::args::{self, Maybe, flag_or, text, text_if, wrong_type};
use crate::error::to_py;
use crate::report::Fields;

/// What an address or a name may be, as messages say it.
const EXPECTED: &str = "a str or None";

/// How to get to an object store, as given.
pub struct Reach<'py> {
    pub endpoint: Maybe<'py>,
    pub region: Maybe<'py>,
    pub path_style: Maybe<'py>,
    pub sse: Maybe<'py>,
    pub metadata: Maybe<'py>,
    pub exclusive: Maybe<'py>,
}

impl Reach<'_> {
    /// The store that `cold` names. The rest is refused without it: it would say nothing.
    pub fn config(&self, cold: &Maybe<'_>) -> PyResult<Option<ColdConfig>> {
        let Some(url) = cold else {
            let given = [
                ("cold_endpoint", &self.endpoint),
                ("cold_region", &self.region),
                ("cold_path_style", &self.path_style),
                ("cold_metadata", &self.metadata),
            ];
            let mut refused =
                given.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
            let is_exclusive = flag_or("cold_exclusive", &self.exclusive, false)?;
            return match refused.next().or(is_exclusive.then_some("cold_exclusive")) {
                Some(name) => {
                    Err(to_py(AofError::InvalidConfig { field: name, reason: "needs cold".into() }))
                }
                None => Ok(None),
            };
        };
        let mut config = ColdConfig::new(&text("cold", EXPECTED, url)?);
        config.endpoint = text_if("cold_endpoint", EXPECTED, &self.endpoint)?;
        config.region = text_if("cold_region", EXPECTED, &self.region)?;
        if self.path_style.is_some() {
            config.path_style = Some(flag_or("cold_path_style", &self.path_style, false)?);
        }
        if let Some(sse) = text_if("cold_sse", EXPECTED, &self.sse)? {
            config.sse = Sse::from_str(&sse).map_err(to_py)?;
        }
        config.exclusive = flag_or("cold_exclusive", &self.exclusive, config.exclusive)?;
        if let Some(given) = &self.metadata {
            config.metadata = given
                .extract()
                .map_err(|_| wrong_type("cold_metadata", "a dict of str to str or None", given))?;
        }
        Ok(Some(config))
    }
}

/// Where the archived segments of the log in this directory are, as its writer left
/// word; `None` if it never had a cold tier.
///
/// >>> import aof2
/// >>> aof2.Aof.open("data/orders").close()
/// >>> print(aof2.cold_location("data/orders"))
/// None
#[pyfunction]
pub fn cold_location<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let path = args::path("path", path)?;
    let Some(found) = py.detach(|| aof2_core::cold_location(path)).map_err(to_py)? else {
        return Ok(None);
    };
    let location = Fields::new(py)
        .set("url", found.url)?
        .set("endpoint", found.endpoint)?
        .set("region", found.region)?
        .set("path_style", found.path_style)?
        .set("sse", found.sse)?
        .build("ColdLocation")?;
    Ok(Some(location))
}
