//! What the machine can do at best: the same bytes with no log around them.
//!
//! Each bound does the least that its row cannot do without, so that a ratio of
//! one would mean a log for free.

mod append;
mod durable;
mod open;
mod prepared_file;
mod read;
mod record;
mod sustained;

use std::rc::Rc;

use crate::engine::{Kind, Plan};
use crate::measure::Subject;
use crate::payload::Payloads;
use crate::scratch::Scratch;

/// The bound of a plan, and what it is in a few words.
pub fn bound_for(plan: &Plan, scratch: &Rc<Scratch>) -> (&'static str, Box<dyn Subject>) {
    let (plan, scratch, payloads) = (*plan, scratch.clone(), Payloads::new(plan.payload_len));
    match plan.kind {
        Kind::Append => (
            "copy + CRC-64/NVME of each record into a faulted-in mapping",
            Box::new(append::AppendBound::new(plan, scratch, payloads)),
        ),
        Kind::Sustained => (
            "the same into 256 MiB files that a second thread allocates and faults in",
            Box::new(sustained::SustainedBound::new(plan, scratch, payloads)),
        ),
        Kind::Durable => (
            "pwrite + fdatasync, one batch of all callers' records at a time, into a file prepared as a segment is",
            Box::new(durable::DurableBound::new(plan, scratch, payloads)),
        ),
        Kind::Scan => (
            "CRC-64/NVME over the mapped bytes, 1 MiB at a time",
            Box::new(read::ScanBound::new(plan, scratch, payloads)),
        ),
        Kind::RandomRead => (
            "follow an offset into the mapping, CRC-64/NVME of the record there",
            Box::new(read::RandomReadBound::new(plan, scratch, payloads)),
        ),
        Kind::Open => (
            "open, read one page and close each file",
            Box::new(open::OpenBound::new(plan, scratch)),
        ),
        Kind::Recovery => (
            "map the file afresh, CRC-64/NVME over its bytes, 1 MiB at a time",
            Box::new(read::RecoveryBound::new(plan, scratch, payloads)),
        ),
    }
}
