//! The log over simulated storage, driven step by step from one thread: every
//! outcome of every crash is compared with a model.

mod crash;
mod damage;
mod driver;
mod faults;
mod model;
mod pieces;
#[cfg(feature = "planted-bugs")]
mod planted;
mod wakeups;
