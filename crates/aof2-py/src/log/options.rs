//! What to read: places in the log, visibility, what to do about damage.

use aof2_core::{End, Hydrate, Level, OnCorruption, ScanOptions, Start, Visibility};
use pyo3::exceptions::PyDeprecationWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyString};

use crate::args::{Maybe, unsigned, word, word_or, wrong_type, wrong_value};
use crate::record::RecordId;
use crate::time::from_datetime;

/// `"earliest"`, `"latest"`, an offset, a `RecordId` or a moment.
pub fn start(given: &Maybe<'_>, default: Start) -> PyResult<Start> {
    let Some(given) = given else { return Ok(default) };
    if given.is_instance_of::<PyString>() {
        let words = [("earliest", Start::Earliest), ("latest", Start::Latest)];
        return word("start", given, &words).map_err(|_| {
            wrong_value("start", "\"earliest\", \"latest\" or a place in the log", given)
        });
    }
    if let Ok(id) = given.cast::<RecordId>() {
        return Ok(Start::Id(id.get().core()));
    }
    if let Ok(moment) = given.cast::<PyDateTime>() {
        return from_datetime("start", moment).map(Start::Timestamp);
    }
    unsigned("start", given).map(Start::Offset).map_err(|error| {
        explain(error, "start", "\"earliest\", \"latest\", an int, RecordId or datetime", given)
    })
}

/// Nothing, `"now"`, an offset, a `RecordId` or a moment; the end is not included.
fn end(given: &Maybe<'_>) -> PyResult<End> {
    let Some(given) = given else { return Ok(End::Visible) };
    if given.is_instance_of::<PyString>() {
        return word("end", given, &[("now", End::Now)])
            .map_err(|_| wrong_value("end", "\"now\" or a place in the log", given));
    }
    if let Ok(id) = given.cast::<RecordId>() {
        return Ok(End::Id(id.get().core()));
    }
    if let Ok(moment) = given.cast::<PyDateTime>() {
        return from_datetime("end", moment).map(End::Timestamp);
    }
    unsigned("end", given).map(End::Offset).map_err(|error| {
        explain(error, "end", "None, \"now\", an int, RecordId or datetime", given)
    })
}

/// Milliseconds since the epoch, or a moment.
pub fn timestamp(name: &str, given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(moment) = given.cast::<PyDateTime>() {
        return from_datetime(name, moment);
    }
    unsigned(name, given).map_err(|error| {
        explain(error, name, "a datetime or an int of milliseconds since the epoch", given)
    })
}

/// Says everything that would have been right, where a type was wrong.
fn explain(error: PyErr, name: &str, expected: &str, given: &Bound<'_, PyAny>) -> PyErr {
    match error.is_instance_of::<pyo3::exceptions::PyTypeError>(given.py()) {
        true => wrong_type(name, expected, given),
        false => error,
    }
}

/// `"durable"` or `"appended"`.
pub fn visibility_if(given: &Maybe<'_>) -> PyResult<Option<Visibility>> {
    let words = [("durable", Visibility::Durable), ("appended", Visibility::Appended)];
    given.as_ref().map(|given| word("visibility", given, &words)).transpose()
}

/// [`visibility_if`], by default what the core's scans see.
pub fn visibility(given: &Maybe<'_>) -> PyResult<Visibility> {
    Ok(visibility_if(given)?.unwrap_or_default())
}

/// `"fail"` or `"skip"`.
fn on_corruption(given: &Maybe<'_>, default: OnCorruption) -> PyResult<OnCorruption> {
    let words = [("fail", OnCorruption::Fail), ("skip", OnCorruption::Skip)];
    word_or("on_corruption", given, &words, default)
}

/// `"auto"`, `"never"` or `"always"`.
pub fn hydrate(given: &Maybe<'_>, default: Hydrate) -> PyResult<Hydrate> {
    let words = [("auto", Hydrate::Auto), ("never", Hydrate::Never), ("always", Hydrate::Always)];
    word_or("hydrate", given, &words, default)
}

/// What a wait ends with.
#[derive(Clone, Copy)]
pub enum Until {
    Offset(u64),
    Record(aof2_core::RecordId),
}

/// `(level, offset)` or `(level, record id)`; the other way round only for one more release.
pub fn level_and_until(
    first: &Bound<'_, PyAny>,
    second: &Bound<'_, PyAny>,
) -> PyResult<(Level, Until)> {
    let (given_level, given_until) = match second.is_instance_of::<PyString>() {
        true if !first.is_instance_of::<PyString>() => {
            let py = first.py();
            let told =
                c"wait takes the level first: wait(\"archived\", record_id); the other order \
                         goes with the next release";
            PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), told, 1)?;
            (second, first)
        }
        _ => (first, second),
    };
    let level = level(given_level)?;
    if let Ok(id) = given_until.cast::<RecordId>() {
        return Ok((level, Until::Record(id.get().core())));
    }
    let offset = unsigned("offset", given_until)
        .map_err(|error| explain(error, "offset", "an int or a RecordId", given_until))?;
    Ok((level, Until::Offset(offset)))
}

fn level(given: &Bound<'_, PyAny>) -> PyResult<Level> {
    let levels =
        [("appended", Level::Appended), ("durable", Level::Durable), ("archived", Level::Archived)];
    word("level", given, &levels)
}

/// What a scan or a follow is told.
pub fn scan_options(
    first: Start,
    end_given: &Maybe<'_>,
    visibility_given: &Maybe<'_>,
    on_corruption_given: &Maybe<'_>,
) -> PyResult<ScanOptions> {
    let default = ScanOptions::default();
    Ok(ScanOptions {
        start: first,
        end: end(end_given)?,
        visibility: visibility_if(visibility_given)?.unwrap_or(default.visibility),
        on_corruption: on_corruption(on_corruption_given, default.on_corruption)?,
        ..default
    })
}

/// Names of columns, or nothing for the usual ones.
pub fn columns(given: &Maybe<'_>) -> PyResult<Option<Vec<String>>> {
    let Some(given) = given else { return Ok(None) };
    // A string is a sequence of strings, too, but hardly meant.
    let names = match given.is_instance_of::<PyString>() {
        true => None,
        false => given.extract::<Vec<String>>().ok(),
    };
    names.map(Some).ok_or_else(|| wrong_type("columns", "a sequence of str or None", given))
}
