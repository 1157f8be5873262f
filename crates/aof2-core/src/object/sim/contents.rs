//! What a simulated bucket holds, and what a request does to it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::format::crc64;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::object::store::{Capabilities, ObjectMeta, Part, PutOutcome, UnfinishedUpload};

/// An object as the bucket holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimObject {
    /// Its bytes.
    pub bytes: Bytes,
    /// What is stored beside them.
    pub meta: ObjectMeta,
    pub(super) etag: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Upload {
    pub(super) parts: BTreeMap<u32, (Bytes, String)>,
}

/// What every machine sees.
pub(super) struct Contents {
    pub(super) objects: BTreeMap<String, SimObject>,
    pub(super) uploads: BTreeMap<UnfinishedUpload, Upload>,
    pub(super) capabilities: Capabilities,
    pub(super) page_count: usize,
    /// Tags and upload names are numbered, for all time.
    pub(super) next_id: u64,
    /// What was created and deleted, in order.
    pub(super) changes: Vec<String>,
}

impl Contents {
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn store(&mut self, key: &str, bytes: Bytes, meta: ObjectMeta) -> String {
        let etag = format!("\"{:08x}\"", self.id());
        let object = SimObject { bytes, meta, etag: etag.clone() };
        self.objects.insert(key.to_owned(), object);
        etag
    }

    pub(super) fn create(
        &mut self,
        op: ObjectOp,
        key: &str,
        bytes: Bytes,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let is_parts = op == ObjectOp::MultipartFinish;
        let is_verified = if is_parts {
            self.capabilities.multipart_checksum_verified
        } else {
            self.capabilities.checksum_verified
        };
        if self.objects.contains_key(key) {
            // Where an endpoint cannot refuse, its client asks first.
            return Err(ObjectError::new(ObjectErrorKind::Exists, op, key, "the key is taken"));
        }
        if is_verified && crc64(&bytes) != meta.crc64nvme {
            return Err(ObjectError::new(ObjectErrorKind::Corrupt, op, key, "bad digest"));
        }
        let etag = self.store(key, bytes, meta.clone());
        self.changes.push(format!("+ {key}"));
        Ok(PutOutcome { etag, already_there: false })
    }

    pub(super) fn object(&self, op: ObjectOp, key: &str) -> ObjectResult<&SimObject> {
        let missing = || ObjectError::new(ObjectErrorKind::NotFound, op, key, "no such key");
        self.objects.get(key).ok_or_else(missing)
    }

    pub(super) fn finish(
        &mut self,
        key: &str,
        upload_id: &str,
        parts: &[Part],
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let op = ObjectOp::MultipartFinish;
        let id = upload(key, upload_id);
        let Some(stored) = self.uploads.get(&id) else {
            return Err(ObjectError::new(ObjectErrorKind::NotFound, op, key, "no such upload"));
        };
        let mut bytes = Vec::new();
        for part in parts {
            match stored.parts.get(&part.number) {
                Some((part_bytes, etag)) if *etag == part.etag => {
                    bytes.extend_from_slice(part_bytes)
                }
                _ => {
                    return Err(ObjectError::new(
                        ObjectErrorKind::Corrupt,
                        op,
                        key,
                        "invalid part",
                    ));
                }
            }
        }
        let outcome = self.create(op, key, bytes.into(), meta)?;
        self.uploads.remove(&id);
        Ok(outcome)
    }
}

pub(super) fn upload(key: &str, upload_id: &str) -> UnfinishedUpload {
    UnfinishedUpload { key: key.to_owned(), upload_id: upload_id.to_owned() }
}
