//! The manifest over simulated storage, driven step by step from one thread: every
//! outcome of every crash is compared with a model.

mod crash;
mod damage;
mod driver;
mod faults;
mod limits;
mod live;
mod matrix;
mod model;
#[cfg(feature = "planted-bugs")]
mod planted;
mod tiers;
mod torn;
mod uploads;
mod wakeups;
