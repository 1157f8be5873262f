//! S3 and what speaks like it. Feature `s3`.
//!
//! [`S3Store`] carries every request out once and says exactly what became of it;
//! [`ResilientStore`](crate::object::resilient::ResilientStore) goes around it. The AWS SDK
//! signs, sends and parses; its own retries, timeouts and default checksums are
//! switched off, because all three are decided here or there.
//!
//! Integrity: CRC-64/NVME of the whole object goes with every upload and is checked
//! by the store, for uploads in parts as well. What the SDK would do on top (hashing
//! the body for its signature) is done on plain HTTP only, where nothing else
//! protects bytes from being changed on purpose.

mod client;
mod encrypt;
mod error;
mod parts;
mod probe;
mod read;
mod store;
mod write;

pub use store::S3Store;
