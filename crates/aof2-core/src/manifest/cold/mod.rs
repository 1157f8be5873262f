//! Chunks in the cold tier: what a store of chunks must do, a directory as one, and
//! bringing chunks back.

mod directory;
mod restore;
mod uploader;

pub use directory::DirectoryUploader;
pub use restore::{RestoreReport, restore_chunks};
pub(super) use uploader::stored_chunks;
pub use uploader::{ChunkMeta, ChunkUploader, StoredChunk, UploadError};
