//! Scrubbing: every byte of every copy of every sealed segment is read and compared with
//! its checksum, and a copy that is damaged or gone is made again from one that is not.
//!
//! A segment has up to three copies: the segment file, the compressed file, the object.
//! [`check`] says of each whether it is good, [`heal`] replaces those that are not, from
//! one that was just found good; what has no good copy is left as it is and reported.
//! The replaced file stays in `quarantine/`. Users start a scrub with [`crate::manager::Aof::scrub`];
//! [`background`] runs one at the interval that the configuration names; [`bucket`] looks
//! at the objects of a log that is not here.

mod background;
mod bucket;
mod check;
mod copies;
mod heal;
mod host;
mod options;
mod pace;
mod passed_over;
mod progress;
mod report;
mod run;
mod saved;

pub(crate) use background::{ScrubState, scrub_next};
pub use bucket::{scrub_bucket_on, scrub_url};
pub(crate) use host::{ScrubCounters, ScrubHost};
pub use options::ScrubOptions;
pub use report::{
    SCRUB_SCHEMA_ID, ScrubFinding, ScrubOutcome, ScrubProgress, ScrubReport, ScrubUnreached,
};
pub(crate) use run::scrub_now;
