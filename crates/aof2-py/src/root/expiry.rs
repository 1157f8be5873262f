//! When a snapshot goes by itself.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDelta, PyDeltaAccess};

use crate::args::{Maybe, wrong_type, wrong_value};
use crate::time::from_datetime;

/// A span from now on, or a moment, in milliseconds since the epoch; nothing is never.
pub fn expiry(given: &Maybe<'_>) -> PyResult<Option<u64>> {
    let Some(given) = given else { return Ok(None) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let expires_ms = if let Ok(span) = given.cast::<PyDelta>() {
        now_ms.saturating_add_signed(milliseconds(span))
    } else if let Ok(moment) = given.cast::<PyDateTime>() {
        from_datetime("expires", moment)?
    } else {
        return Err(wrong_type("expires", "a timedelta, a datetime or None", given));
    };
    match expires_ms > now_ms {
        true => Ok(Some(expires_ms)),
        false => Err(wrong_value("expires", "later than now", given)),
    }
}

/// Rather a moment too long than too short.
fn milliseconds(span: &Bound<'_, PyDelta>) -> i64 {
    let seconds = i64::from(span.get_days()) * 86_400 + i64::from(span.get_seconds());
    // Never negative: a span of less than nothing has negative days.
    let microseconds = span.get_microseconds().unsigned_abs();
    seconds * 1000 + i64::from(microseconds.div_ceil(1000))
}
