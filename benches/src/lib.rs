//! Other append-only logs, each with the settings its authors recommend for speed.

mod okaywal;
mod raft_engine;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod walrus;

use aof2_bench::{Engine, Result, Scratch};

/// All of them, in the order of the table.
pub fn all(scratch: &Scratch) -> Result<Vec<Box<dyn Engine>>> {
    Ok(vec![
        Box::new(raft_engine::RaftEngine),
        Box::new(walrus::WalrusRust::new(scratch)?),
        Box::new(okaywal::OkayWal),
        #[cfg(feature = "rocksdb")]
        Box::new(rocksdb::RocksDbWal),
    ])
}
