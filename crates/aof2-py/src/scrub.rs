//! `Aof.scrub`: every copy checked, damage healed; and `scrub`, of an address.

use std::ops::Range;

use aof2_core::{
    Aof, Residency, ScrubFinding, ScrubOptions, ScrubOutcome, ScrubProgress, ScrubReport,
    ScrubUnreached,
};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::args::{Maybe, flag_or, text, unsigned_if, wrong_type, wrong_value};
use crate::bucket;
use crate::error::to_py;
use crate::path::FsPath;
use crate::report::{Built, Fields, list};
use crate::tiers::explain;
use crate::wait::{self, Progress};

const TIERS: [(&str, Residency); 3] =
    [("hot", Residency::Hot), ("warm", Residency::Warm), ("cold", Residency::Cold)];

/// Which copies, which segments, how fast, and whether to heal.
pub fn options(
    tiers: &Maybe<'_>,
    first_segment: &Maybe<'_>,
    end_segment: &Maybe<'_>,
    bytes_per_second: &Maybe<'_>,
    heal: &Maybe<'_>,
) -> PyResult<ScrubOptions> {
    let default = ScrubOptions::default();
    let mut chosen = default.clone();
    if let Some(given) = tiers {
        let expected = "a sequence of \"hot\", \"warm\" and \"cold\"";
        if given.is_instance_of::<PyString>() {
            return Err(wrong_type("tiers", expected, given));
        }
        (chosen.hot, chosen.warm, chosen.cold) = (false, false, false);
        for item in given.try_iter().map_err(|_| wrong_type("tiers", expected, given))? {
            let item = item?;
            let word = text("tiers", expected, &item)?;
            match TIERS.iter().find(|(known, _)| *known == word).map(|(_, tier)| tier) {
                Some(Residency::Hot) => chosen.hot = true,
                Some(Residency::Warm) => chosen.warm = true,
                Some(Residency::Cold) => chosen.cold = true,
                None => return Err(wrong_value("tiers", expected, &item)),
            }
        }
    }
    let first = unsigned_if("first_segment", first_segment)?.unwrap_or(0);
    let end = unsigned_if("end_segment", end_segment)?.unwrap_or(u64::MAX);
    chosen.segments = first..end;
    chosen.bytes_per_second = unsigned_if("bytes_per_second", bytes_per_second)?;
    chosen.heal = flag_or("heal", heal, default.heal)?;
    Ok(chosen)
}

/// Runs it, tells how far it has got, and lets signal handlers run.
pub fn run<'py>(
    py: Python<'py>,
    log: &Aof,
    options: &ScrubOptions,
    progress: &Maybe<'py>,
) -> Built<'py> {
    let progress = Progress::of(progress, progress_of)?;
    let found = wait::here(py, &progress, |tell| log.scrub(options, &mut |at| tell(*at)))?;
    report(py, &found.map_err(explain)?)
}

/// Reads every object of a log in an object store, `s3://bucket/prefix/name`, compares it
/// with its checksum, and returns a `ScrubReport`. Nothing of the log need be here.
///
/// It only looks: what is damaged or gone has the outcome "damaged". `Aof.scrub` of the
/// log in its directory heals objects from the copies there. first_segment and
/// end_segment say which segments, bytes_per_second how fast; `progress` is called with a
/// `ScrubProgress`. Raises `NotALog`, `ColdError`.
#[pyfunction]
#[pyo3(
    signature = (url, *, first_segment = None, end_segment = None, bytes_per_second = None,
        progress = None),
    text_signature = "(url, *, first_segment=0, end_segment=None, bytes_per_second=None, progress=None)"
)]
pub fn scrub<'py>(
    py: Python<'py>,
    url: &Bound<'py, PyAny>,
    first_segment: Maybe<'py>,
    end_segment: Maybe<'py>,
    bytes_per_second: Maybe<'py>,
    progress: Maybe<'py>,
) -> Built<'py> {
    let url = bucket::url(url)?;
    let options = options(&None, &first_segment, &end_segment, &bytes_per_second, &None)?;
    let options = ScrubOptions { heal: false, ..options };
    let progress = Progress::of(&progress, progress_of)?;
    let found = wait::aside(py, "aof2-scrub", &progress, move |tell| {
        aof2_core::scrub_url(&url, &options, &mut |at| tell(*at))
    })?;
    report(py, &found.map_err(to_py)?)
}

fn progress_of(py: Python<'_>, at: ScrubProgress) -> Built<'_> {
    Fields::new(py)
        .set("segment_id", at.segment_id)?
        .set("segments", at.segments)?
        .set("segments_total", at.segments_total)?
        .set("bytes", at.bytes)?
        .set("damage_found", at.damage_found)?
        .set("healed", at.healed)?
        .build("ScrubProgress")
}

fn report<'py>(py: Python<'py>, found: &ScrubReport) -> Built<'py> {
    Fields::new(py)
        .set("segments", found.segments)?
        .set("copies", found.copies)?
        .set("bytes", found.bytes)?
        .set("findings", list(py, &found.findings, finding)?)?
        .set("unreached", list(py, &found.unreached, unreached)?)?
        .set("is_complete", found.is_complete)?
        .set("is_clean", found.is_clean())?
        .build("ScrubReport")
}

fn finding<'py>(py: Python<'py>, found: &ScrubFinding) -> Built<'py> {
    let (from, reason) = match &found.outcome {
        ScrubOutcome::Healed { from } => (Some(from.as_str()), None),
        ScrubOutcome::NeedsRepair { reason } => (None, Some(reason.as_str())),
        _ => (None, None),
    };
    Fields::new(py)
        .set("segment_id", found.segment_id)?
        .set("tier", found.tier.as_str())?
        .set("place", &found.place)?
        .set("problem", &found.problem)?
        .set("outcome", found.outcome.as_str())?
        .set("healed_from", from)?
        .set("reason", reason)?
        .set("quarantined", found.quarantined.as_deref().map(FsPath))?
        .set("unreadable", ranges(py, &found.unreadable)?)?
        .build("ScrubFinding")
}

fn ranges<'py>(py: Python<'py>, of: &[Range<u64>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, of.iter().map(|range| (range.start, range.end)))
}

fn unreached<'py>(py: Python<'py>, copy: &ScrubUnreached) -> Built<'py> {
    Fields::new(py)
        .set("segment_id", copy.segment_id)?
        .set("tier", copy.tier.as_str())?
        .set("place", &copy.place)?
        .set("error", &copy.error)?
        .build("ScrubUnreached")
}
