//! Checking a log: verifying and repairing a directory, scrubbing every copy, comparing the
//! manifest with the files.

mod agreement;
mod fetch_all;
mod restore;
pub(crate) mod scrub;
mod url;
pub(crate) mod verify;

pub use agreement::{Disagreement, compare_manifest};
pub use restore::{
    MissingSegment, RestoreOptions, RestoreProgress, RestoreReport, restore, restore_on,
};
pub use scrub::{
    SCRUB_SCHEMA_ID, ScrubFinding, ScrubOptions, ScrubOutcome, ScrubProgress, ScrubReport,
    ScrubUnreached, scrub_bucket_on, scrub_url,
};
pub(crate) use scrub::{ScrubCounters, ScrubHost, ScrubState, scrub_next, scrub_now};
pub use url::{verify_bucket_on, verify_url};
pub use verify::{
    LostRange, Problem, ProblemKind, Progress, RepairAction, RepairReport, SegmentCheck, Severity,
    VerifyProgress, VerifyReport, repair, repair_with, verify, verify_with,
};
