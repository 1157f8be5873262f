//! What a bucket can be asked.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};

use super::body::ObjectBody;
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::format::Crc64;

/// An answer to come. Dropping it abandons the request, which may be carried out
/// all the same.
pub type ObjectFuture<'a, T> = Pin<Box<dyn Future<Output = ObjectResult<T>> + Send + 'a>>;

/// The metadata key under which an object's CRC-64/NVME is kept in 16 hexadecimal
/// digits, for endpoints that do not keep the checksum themselves.
pub const CRC_METADATA_KEY: &str = "aof2-crc64nvme";

/// What is stored beside the bytes of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// CRC-64/NVME of all bytes.
    pub crc64nvme: u64,
    /// Metadata, keys in lower case.
    pub user: BTreeMap<String, String>,
}

/// How an upload ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOutcome {
    /// The store's tag of the object.
    pub etag: String,
    /// The same bytes were there before this request: an earlier try that was
    /// carried out without an answer, or an earlier run.
    pub already_there: bool,
}

/// What is known of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHead {
    /// Its length.
    pub len: u64,
    /// The store's tag of it.
    pub etag: String,
    /// CRC-64/NVME of all bytes: the store's own, or else the one in the metadata.
    pub crc64nvme: Option<u64>,
    /// Metadata, keys in lower case.
    pub user: BTreeMap<String, String>,
}

impl ObjectHead {
    /// Whether this is an object of these bytes.
    pub fn holds(&self, len: u64, crc64nvme: u64) -> bool {
        self.len == len && self.crc64nvme == Some(crc64nvme)
    }
}

/// One object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Its key.
    pub key: String,
    /// Its length.
    pub len: u64,
    /// The store's tag of it.
    pub etag: String,
}

/// A piece of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Objects in the order of their keys.
    pub entries: Vec<ObjectEntry>,
    /// What to ask for the next page with; `None` at the end.
    pub next: Option<String>,
}

/// One stored part of a multipart upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 1.
    pub number: u32,
    /// The store's tag of it.
    pub etag: String,
    /// CRC-64/NVME of its bytes.
    pub crc64nvme: u64,
    /// Its length.
    pub len: u64,
}

/// A multipart upload that was begun and neither finished nor aborted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfinishedUpload {
    /// The key it would create.
    pub key: String,
    /// The store's name for the upload.
    pub upload_id: String,
}

/// What an endpoint turned out to do when it was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// A put of a key that is taken is refused by the store itself. Without it an
    /// upload asks first, and two writers of one key could both succeed.
    pub conditional_create: bool,
    /// The same for finishing a multipart upload.
    pub conditional_finish: bool,
    /// The store keeps CRC-64/NVME with an object and tells it. Without it the
    /// checksum is kept in the metadata.
    pub checksum_kept: bool,
    /// The store refuses bytes that do not match the checksum. Without it every
    /// object is read back once after it was uploaded.
    pub checksum_verified: bool,
    /// The same for an object uploaded in parts.
    pub multipart_checksum_verified: bool,
    /// The last bytes of an object can be asked for without knowing its length.
    pub suffix_range: bool,
}

impl Capabilities {
    /// What S3 itself does; assumed until an endpoint was probed.
    pub const FULL: Self = Self {
        conditional_create: true,
        conditional_finish: true,
        checksum_kept: true,
        checksum_verified: true,
        multipart_checksum_verified: true,
        suffix_range: true,
    };

    /// An endpoint that can only put, get, list and delete.
    pub const MINIMAL: Self = Self {
        conditional_create: false,
        conditional_finish: false,
        checksum_kept: false,
        checksum_verified: false,
        multipart_checksum_verified: false,
        suffix_range: false,
    };
}

/// A bucket.
///
/// Every method without a body here is one request (two where an endpoint lacks
/// what S3 has), carried out once: retrying is [`ResilientStore`](crate::object::resilient::ResilientStore)'s
/// work. Futures are lazy and may be dropped at any point.
pub trait ObjectStore: Send + Sync + Debug + 'static {
    /// Creates an object from all of `body`; [`ObjectErrorKind::Exists`] when the
    /// key is taken.
    fn put_new<'a>(
        &'a self,
        key: &'a str,
        body: ObjectBody,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome>;

    /// What is known of an object; `None` when there is none.
    fn head<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, Option<ObjectHead>>;

    /// Exactly these bytes of an object; anything less is an error.
    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> ObjectFuture<'a, Bytes>;

    /// The last `len` bytes of an object, fewer if it is shorter, and its length.
    fn get_suffix<'a>(&'a self, key: &'a str, len: u64) -> ObjectFuture<'a, (Bytes, u64)>;

    /// Objects whose keys start with `prefix`, in order, from where the last page
    /// ended.
    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        next: Option<&'a str>,
    ) -> ObjectFuture<'a, ListPage>;

    /// Removes an object; one that is not there is fine.
    fn delete<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, ()>;

    /// Begins an upload in parts and names it.
    fn multipart_begin<'a>(
        &'a self,
        key: &'a str,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, String>;

    /// Stores one part, replacing an earlier one of the same number.
    fn multipart_part<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectFuture<'a, Part>;

    /// Makes the parts an object; [`ObjectErrorKind::Exists`] when the key is taken,
    /// [`ObjectErrorKind::NotFound`] when the upload is over,
    /// [`ObjectErrorKind::Corrupt`] when parts are missing or damaged.
    fn multipart_finish<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        parts: &'a [Part],
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome>;

    /// Gives an upload and its parts up; one that is over is fine.
    fn multipart_abort<'a>(&'a self, key: &'a str, upload_id: &'a str) -> ObjectFuture<'a, ()>;

    /// Some of the unfinished uploads whose keys start with `prefix`; none when
    /// there are none.
    fn multipart_list<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, Vec<UnfinishedUpload>>;

    /// Finds out what the endpoint can do, with objects of its own that are gone
    /// afterwards, and remembers it.
    fn probe(&self) -> ObjectFuture<'_, Capabilities>;

    /// What is assumed or known of the endpoint.
    fn capabilities(&self) -> Capabilities;

    /// All objects whose keys start with `prefix`, in order.
    fn list<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, Vec<ObjectEntry>> {
        Box::pin(async move {
            let mut entries = Vec::new();
            let mut next: Option<String> = None;
            loop {
                let page = self.list_page(prefix, next.as_deref()).await?;
                entries.extend(page.entries);
                match page.next {
                    // A server that repeats itself must not keep us for ever.
                    Some(token) if next.as_ref() != Some(&token) => next = Some(token),
                    _ => return Ok(entries),
                }
            }
        })
    }

    /// Aborts the unfinished uploads whose keys start with `prefix`; how many.
    /// Nobody else may be uploading there.
    fn abort_unfinished<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, u64> {
        Box::pin(async move {
            let mut aborted = std::collections::BTreeSet::new();
            loop {
                let mut is_new = false;
                for upload in self.multipart_list(prefix).await? {
                    self.multipart_abort(&upload.key, &upload.upload_id).await?;
                    is_new |= aborted.insert(upload);
                }
                if !is_new {
                    return Ok(aborted.len() as u64);
                }
            }
        })
    }
}

/// Bytes asked for at once when a whole object is read.
const READ_LEN: u64 = 8 << 20;

/// A whole object with its head, checked against its checksum. For objects that
/// fit in memory: `len_max` bounds what is accepted.
pub async fn read_whole(
    store: &dyn ObjectStore,
    key: &str,
    len_max: u64,
) -> ObjectResult<(ObjectHead, Bytes)> {
    let fail = |kind, detail: &str| ObjectError::new(kind, ObjectOp::Get, key, detail);
    let Some(head) = store.head(key).await? else {
        return Err(fail(ObjectErrorKind::NotFound, "there is no such object"));
    };
    if head.len > len_max {
        let detail = format!("it is {} bytes, at most {len_max} are expected", head.len);
        return Err(fail(ObjectErrorKind::InvalidRequest, &detail));
    }
    let mut bytes = BytesMut::with_capacity(head.len as usize);
    while (bytes.len() as u64) < head.len {
        let start = bytes.len() as u64;
        let end = head.len.min(start + READ_LEN);
        bytes.extend_from_slice(&store.get_range(key, start..end).await?);
    }
    let mut crc = Crc64::new();
    crc.update(&bytes);
    match head.crc64nvme {
        Some(expected) if expected != crc.finish() => {
            let detail = format!("checksum is {:016x}, not {expected:016x}", crc.finish());
            Err(fail(ObjectErrorKind::Corrupt, &detail))
        }
        _ => Ok((head, bytes.freeze())),
    }
}
