//! Heads, ranged reads and listings.

use std::ops::Range;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::types::ChecksumMode;
use aws_smithy_types::base64;
use bytes::{Bytes, BytesMut};

use super::error::object_error;
use super::store::S3Store;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::object::store::{CRC_METADATA_KEY, ListPage, ObjectEntry, ObjectHead, ObjectStore};

impl S3Store {
    /// What is known of an object, and the checksum that the store itself keeps.
    pub(super) async fn head_object(
        &self,
        key: &str,
    ) -> ObjectResult<Option<(ObjectHead, Option<u64>)>> {
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .head_object()
            .bucket(&self.bucket)
            .key(key)
            .checksum_mode(ChecksumMode::Enabled)
            .set_sse_customer_algorithm(algorithm)
            .set_sse_customer_key(customer_key)
            .set_sse_customer_key_md5(md5);
        let head = match request.send().await {
            Ok(head) => head,
            Err(error) => {
                let error = object_error(ObjectOp::Head, key, &error);
                return match error.kind {
                    ObjectErrorKind::NotFound => Ok(None),
                    ObjectErrorKind::Denied => Err(self.why_denied(key, error).await),
                    _ => Err(error),
                };
            }
        };
        let user = head.metadata.unwrap_or_default();
        let user = user.into_iter().map(|(k, v)| (k.to_ascii_lowercase(), v)).collect();
        let len = head.content_length.and_then(|len| u64::try_from(len).ok());
        let crc = head.checksum_crc64_nvme.as_deref().and_then(crc_from_text);
        let head = ObjectHead {
            len: len.ok_or_else(|| no_length(ObjectOp::Head, key))?,
            etag: head.e_tag.unwrap_or_default(),
            crc64nvme: crc.or_else(|| crc_from_metadata(&user)),
            user,
        };
        Ok(Some((head, crc)))
    }

    /// A refused head has no body that could say whether the credentials are wrong or
    /// only expired, so a read of one byte asks again.
    async fn why_denied(&self, key: &str, refused: ObjectError) -> ObjectError {
        match self.get(key, "bytes=0-0".to_owned()).await {
            Err(mut error) if error.kind == ObjectErrorKind::Denied => {
                error.op = ObjectOp::Head;
                error
            }
            // Not refused any more.
            _ => refused.retryable(true),
        }
    }

    pub(super) async fn get_bytes(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes> {
        let len = range.end.saturating_sub(range.start);
        if len == 0 {
            return Ok(Bytes::new());
        }
        let answer = self.get(key, format!("bytes={}-{}", range.start, range.end - 1)).await?;
        let (start, total_len) = placed(key, &answer)?;
        if start != range.start || total_len < range.end {
            let detail = format!("the object has {total_len} bytes, asked for {range:?}");
            let kind = ObjectErrorKind::InvalidRequest;
            return Err(ObjectError::new(kind, ObjectOp::Get, key, &detail));
        }
        collect(key, answer, len).await
    }

    pub(super) async fn get_last(&self, key: &str, len: u64) -> ObjectResult<(Bytes, u64)> {
        let asked = if self.capabilities().suffix_range {
            format!("bytes=-{}", len.max(1))
        } else {
            let Some((head, _)) = self.head_object(key).await? else {
                let detail = "there is no such object";
                return Err(ObjectError::new(
                    ObjectErrorKind::NotFound,
                    ObjectOp::Get,
                    key,
                    detail,
                ));
            };
            if head.len == 0 {
                return Ok((Bytes::new(), 0));
            }
            format!("bytes={}-{}", head.len.saturating_sub(len.max(1)), head.len - 1)
        };
        let answer = self.get(key, asked).await?;
        let (start, total_len) = placed(key, &answer)?;
        let got_len = len.max(1).min(total_len);
        if start != total_len - got_len {
            let detail = format!("asked for the last {len} bytes, got them from {start} on");
            return Err(ObjectError::new(ObjectErrorKind::Corrupt, ObjectOp::Get, key, &detail));
        }
        let bytes = collect(key, answer, got_len).await?;
        Ok((bytes.slice(bytes.len() - len.min(got_len) as usize..), total_len))
    }

    async fn get(&self, key: &str, range: String) -> ObjectResult<GetObjectOutput> {
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(key)
            .range(range)
            .set_sse_customer_algorithm(algorithm)
            .set_sse_customer_key(customer_key)
            .set_sse_customer_key_md5(md5);
        request.send().await.map_err(|error| object_error(ObjectOp::Get, key, &error))
    }

    pub(super) async fn list_objects(
        &self,
        prefix: &str,
        next: Option<&str>,
    ) -> ObjectResult<ListPage> {
        let request = self
            .client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(prefix)
            .set_continuation_token(next.map(str::to_owned));
        let answer =
            request.send().await.map_err(|error| object_error(ObjectOp::List, prefix, &error))?;
        let mut entries = Vec::new();
        for object in answer.contents.unwrap_or_default() {
            let Some(key) = object.key else { continue };
            let len = object.size.and_then(|len| u64::try_from(len).ok());
            entries.push(ObjectEntry {
                len: len.ok_or_else(|| no_length(ObjectOp::List, &key))?,
                etag: object.e_tag.unwrap_or_default(),
                key,
            });
        }
        let next = answer.next_continuation_token.filter(|_| answer.is_truncated == Some(true));
        Ok(ListPage { entries, next })
    }
}

/// Where the bytes of an answer start, and how long the object is.
fn placed(key: &str, answer: &GetObjectOutput) -> ObjectResult<(u64, u64)> {
    let parse = || {
        let (range, total) =
            answer.content_range.as_deref()?.strip_prefix("bytes ")?.split_once('/')?;
        let (start, _) = range.split_once('-')?;
        Some((start.trim().parse().ok()?, total.trim().parse().ok()?))
    };
    // A store that ignores ranges sends everything, from the start.
    let everything = || Some((0, u64::try_from(answer.content_length?).ok()?));
    parse().or_else(everything).ok_or_else(|| no_length(ObjectOp::Get, key))
}

/// All bytes of an answer and not one more or less than asked for.
async fn collect(key: &str, answer: GetObjectOutput, len: u64) -> ObjectResult<Bytes> {
    let fail = |kind, detail: &str| ObjectError::new(kind, ObjectOp::Get, key, detail);
    let mut body = answer.body;
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| {
            let detail = format!("the body broke off after {} bytes: {error}", bytes.len());
            fail(ObjectErrorKind::Unavailable, &detail)
        })?;
        if bytes.is_empty() && chunk.len() as u64 == len {
            return Ok(chunk);
        }
        if bytes.is_empty() {
            bytes.reserve(usize::try_from(len).unwrap_or(0));
        }
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > len {
            return Err(fail(ObjectErrorKind::Corrupt, "more bytes arrived than asked for"));
        }
    }
    if (bytes.len() as u64) < len {
        let detail = format!("{} of {len} bytes arrived", bytes.len());
        return Err(fail(ObjectErrorKind::Unavailable, &detail));
    }
    Ok(bytes.freeze())
}

fn crc_from_text(text: &str) -> Option<u64> {
    let bytes = base64::decode(text).ok()?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn crc_from_metadata(user: &std::collections::BTreeMap<String, String>) -> Option<u64> {
    u64::from_str_radix(user.get(CRC_METADATA_KEY)?, 16).ok()
}

fn no_length(op: ObjectOp, key: &str) -> ObjectError {
    ObjectError::new(ObjectErrorKind::Corrupt, op, key, "the answer has no length")
}
