//! The manifest's chunks in the object store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::tier::ColdTier;
use crate::format::crc64;
use crate::manifest::{ChunkMeta, ChunkUploader, StoredChunk, UploadError};
use crate::object::{ObjectError, ObjectErrorKind, ObjectMeta};

const CHUNK_CRC: &str = "aof2-chunk-crc64";
const BASE_RECORD: &str = "aof2-base-record";
const RECORD_COUNT: &str = "aof2-record-count";
const SNAPSHOT_ID: &str = "aof2-snapshot-id";

/// Keeps chunks beside the segments they tell of.
#[derive(Debug)]
pub(crate) struct ColdChunks {
    tier: Arc<ColdTier>,
    lineage: Arc<AtomicU32>,
}

impl ColdChunks {
    /// For a writer, whose lineage is known once it has claimed the log.
    pub(crate) fn writing(tier: &Arc<ColdTier>, lineage: &Arc<AtomicU32>) -> Self {
        Self { tier: Arc::clone(tier), lineage: Arc::clone(lineage) }
    }

    /// For whoever only fetches.
    pub(crate) fn reading(tier: &Arc<ColdTier>) -> Self {
        Self { tier: Arc::clone(tier), lineage: Arc::default() }
    }
}

fn failed(error: ObjectError) -> UploadError {
    UploadError { reason: error.reason(), detail: error.to_string() }
}

fn encode(meta: &ChunkMeta) -> BTreeMap<String, String> {
    [
        (CHUNK_CRC, format!("{:016x}", meta.chunk_crc64)),
        (BASE_RECORD, meta.base_record.to_string()),
        (RECORD_COUNT, meta.record_count.to_string()),
        (SNAPSHOT_ID, meta.snapshot_id.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

fn decode(user: &BTreeMap<String, String>) -> Option<ChunkMeta> {
    let number = |key: &str, radix| u64::from_str_radix(user.get(key)?, radix).ok();
    Some(ChunkMeta {
        chunk_crc64: number(CHUNK_CRC, 16)?,
        base_record: number(BASE_RECORD, 10)?,
        record_count: number(RECORD_COUNT, 10)?,
        snapshot_id: number(SNAPSHOT_ID, 10)?,
    })
}

impl ChunkUploader for ColdChunks {
    fn lineage(&self) -> u32 {
        self.lineage.load(Ordering::Acquire)
    }

    fn upload(
        &self,
        _chunk_index: u64,
        key: &str,
        bytes: &[u8],
        meta: &ChunkMeta,
    ) -> Result<String, UploadError> {
        let body = bytes::Bytes::copy_from_slice(bytes);
        let meta = ObjectMeta { crc64nvme: crc64(bytes), user: encode(meta) };
        Ok(self.tier.store.put_new(key, body.into(), meta).map_err(failed)?.etag)
    }

    fn head(&self, key: &str) -> Result<Option<StoredChunk>, UploadError> {
        let Some(head) = self.tier.store.head(key).map_err(failed)? else { return Ok(None) };
        // Without its description it is not one of ours: told as other bytes.
        let unknown = ChunkMeta { chunk_crc64: 0, base_record: 0, record_count: 0, snapshot_id: 0 };
        let meta = decode(&head.user).unwrap_or(unknown);
        Ok(Some(StoredChunk { len: head.len, etag: head.etag, meta }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, UploadError> {
        let entries = self.tier.store.list(prefix).map_err(failed)?;
        Ok(entries.into_iter().map(|entry| entry.key).collect())
    }

    fn fetch(&self, key: &str, len_max: u64) -> Result<Option<Vec<u8>>, UploadError> {
        let Some(head) = self.tier.store.head(key).map_err(failed)? else { return Ok(None) };
        if head.len > len_max {
            let detail = format!("{key}: {} bytes, at most {len_max} are expected", head.len);
            return Err(UploadError { reason: crate::format::manifest::ReasonCode::CODEC, detail });
        }
        match self.tier.store.get_range(key, 0..head.len) {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}
