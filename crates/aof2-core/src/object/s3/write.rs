//! Uploads in one request, and deletes.

use std::collections::HashMap;

use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_types::base64;
use bytes::Bytes;

use super::error::object_error;
use super::store::S3Store;
use crate::object::body::ObjectBody;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::object::store::{CRC_METADATA_KEY, Capabilities, ObjectMeta, ObjectStore, PutOutcome};

/// A checksum as S3's headers want it.
pub(super) fn crc_text(crc64nvme: u64) -> String {
    base64::encode(crc64nvme.to_be_bytes())
}

impl S3Store {
    pub(super) async fn put(
        &self,
        key: &str,
        body: ObjectBody,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let capabilities = self.capabilities();
        if !capabilities.conditional_create && self.head_object(key).await?.is_some() {
            let detail = "the key is taken";
            return Err(ObjectError::new(ObjectErrorKind::Exists, ObjectOp::Put, key, detail));
        }
        let bytes = read_body(ObjectOp::Put, key, body).await?;
        self.put_as(capabilities, key, bytes, meta).await
    }

    /// A put as an endpoint of these capabilities takes it.
    pub(super) async fn put_as(
        &self,
        capabilities: Capabilities,
        key: &str,
        bytes: Bytes,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let (sse, kms_key) = self.encryption.by_store();
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .set_metadata(Some(self.metadata(meta)))
            .set_if_none_match(capabilities.conditional_create.then(|| "*".to_owned()))
            .set_checksum_crc64_nvme(capabilities.checksum_kept.then(|| crc_text(meta.crc64nvme)))
            .set_server_side_encryption(sse)
            .set_ssekms_key_id(kms_key)
            .set_sse_customer_algorithm(algorithm)
            .set_sse_customer_key(customer_key)
            .set_sse_customer_key_md5(md5)
            .content_length(bytes.len() as i64)
            .body(ByteStream::from(bytes));
        let sent = if self.is_body_signed() {
            request.send().await
        } else {
            request.customize().disable_payload_signing().send().await
        };
        let answer = sent.map_err(|error| object_error(ObjectOp::Put, key, &error))?;
        Ok(PutOutcome { etag: answer.e_tag.unwrap_or_default(), already_there: false })
    }

    /// The object's own metadata, everybody's, and the checksum.
    pub(super) fn metadata(&self, meta: &ObjectMeta) -> HashMap<String, String> {
        let mut all: HashMap<_, _> = self.config.metadata.clone().into_iter().collect();
        all.extend(meta.user.clone());
        all.insert(CRC_METADATA_KEY.to_owned(), format!("{:016x}", meta.crc64nvme));
        all
    }

    pub(super) async fn delete_object(&self, key: &str) -> ObjectResult<()> {
        let request = self.client.delete_object().bucket(&self.bucket).key(key);
        match request.send().await.map_err(|error| object_error(ObjectOp::Delete, key, &error)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The bytes of a body, read where blocking is allowed.
pub(super) async fn read_body(op: ObjectOp, key: &str, body: ObjectBody) -> ObjectResult<Bytes> {
    if let ObjectBody::Bytes(bytes) = body {
        return Ok(bytes);
    }
    let what = format!("{body:?}");
    let bytes = match tokio::task::spawn_blocking(move || body.read()).await {
        Ok(bytes) => bytes.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    bytes.map_err(|error| {
        let detail = format!("{what} cannot be read: {error}");
        ObjectError::new(ObjectErrorKind::InvalidRequest, op, key, &detail)
    })
}
