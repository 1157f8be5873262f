//! Where a log is cut.

use aof2_core::ForkAt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyString};

use crate::args::{Maybe, text, unsigned, wrong_type};
use crate::record::RecordId;
use crate::time::from_datetime;

const EXPECTED: &str = "an int, RecordId, datetime, the name of a snapshot or None";

/// An offset, a `RecordId`, a moment, the name of a snapshot; nothing is the end.
pub fn place(given: &Maybe<'_>) -> PyResult<ForkAt> {
    let Some(given) = given else { return Ok(ForkAt::End) };
    if given.is_instance_of::<PyString>() {
        return text("at", EXPECTED, given).map(ForkAt::Snapshot);
    }
    if let Ok(id) = given.cast::<RecordId>() {
        return Ok(ForkAt::Id(id.get().core()));
    }
    if let Ok(moment) = given.cast::<PyDateTime>() {
        return from_datetime("at", moment).map(ForkAt::Timestamp);
    }
    unsigned("at", given).map(ForkAt::Offset).map_err(|error| {
        match error.is_instance_of::<PyTypeError>(given.py()) {
            true => wrong_type("at", EXPECTED, given),
            false => error,
        }
    })
}
