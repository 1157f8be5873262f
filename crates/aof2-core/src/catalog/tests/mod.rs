//! The catalog over simulated storage, driven from one thread: every outcome is compared with
//! a model, and with what the operation log adds up to.

mod crash;
mod driver;
mod feed;
mod history;
mod model;
#[cfg(feature = "planted-bugs")]
mod planted;
mod recovery;
mod replay;
mod rules;
mod scenario;
mod versions;
