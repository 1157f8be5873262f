//! Other append-only logs, each with the settings its authors recommend for speed.

mod okaywal;
mod raft_engine;
mod rocksdb;
mod walrus;

use crate::engine::{Engine, Result};
use crate::scratch::Scratch;

pub fn all(scratch: &Scratch) -> Result<Vec<Box<dyn Engine>>> {
    Ok(vec![
        Box::new(raft_engine::RaftEngine),
        Box::new(walrus::WalrusRust::new(scratch)?),
        Box::new(okaywal::OkayWal),
        Box::new(rocksdb::RocksDbWal),
    ])
}
