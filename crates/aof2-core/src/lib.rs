//! aof2: an embedded, append-only log.
pub mod format;
