//! `Aof`: a log open for appending. Its methods by what they are about.

mod append;
mod batch;
mod durability;
mod manifest;
mod metrics;
mod open;
mod options;
mod segments;
mod tiers;

use aof2_core::AofError;
use aof2_core::io::ForkStamp;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::log::{ReadableLog, check_not_forked};

/// A log open for appending and reading, from `Aof.open`. Threads may share it. One
/// process writes a log at a time; any number may read it, see `open`.
///
/// >>> import aof2
/// >>> with aof2.Aof.open("data/orders") as orders:
/// ...     rid = orders.append(b"hello")     # safe from the death of this process
/// ...     orders.flush()                    # safe from a power cut
/// ...     bytes(orders.read(rid))
/// b'hello'
#[pyclass(module = "aof2", frozen, extends = ReadableLog)]
pub struct Aof {
    log: aof2_core::Aof,
    stamp: ForkStamp,
}

impl Aof {
    /// The log, if the handle may be used.
    fn live(&self) -> PyResult<&aof2_core::Aof> {
        check_not_forked(self.stamp).map_err(to_py)?;
        match self.log.is_closed() {
            true => Err(to_py(AofError::Closed)),
            false => Ok(&self.log),
        }
    }
}
