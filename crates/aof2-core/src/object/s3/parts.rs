//! Uploads in several requests, each as an endpoint of the given capabilities takes
//! it.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumType, CompletedMultipartUpload, CompletedPart};

use super::error::object_error;
use super::store::S3Store;
use super::write::{crc_text, read_body};
use crate::format::crc64;
use crate::object::body::ObjectBody;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::object::store::{Capabilities, ObjectMeta, Part, PutOutcome, UnfinishedUpload};

impl S3Store {
    pub(super) async fn begin(
        &self,
        capabilities: Capabilities,
        key: &str,
        meta: &ObjectMeta,
    ) -> ObjectResult<String> {
        let is_kept = capabilities.checksum_kept;
        let (sse, kms_key) = self.encryption.by_store();
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(key)
            .set_metadata(Some(self.metadata(meta)))
            .set_checksum_algorithm(is_kept.then_some(ChecksumAlgorithm::Crc64Nvme))
            .set_checksum_type(is_kept.then_some(ChecksumType::FullObject))
            .set_server_side_encryption(sse)
            .set_ssekms_key_id(kms_key)
            .set_sse_customer_algorithm(algorithm)
            .set_sse_customer_key(customer_key)
            .set_sse_customer_key_md5(md5);
        let op = ObjectOp::MultipartBegin;
        let answer = request.send().await.map_err(|error| object_error(op, key, &error))?;
        answer.upload_id.filter(|id| !id.is_empty()).ok_or_else(|| {
            ObjectError::new(ObjectErrorKind::Corrupt, op, key, "the answer names no upload")
        })
    }

    pub(super) async fn part(
        &self,
        capabilities: Capabilities,
        key: &str,
        upload_id: &str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectResult<Part> {
        let op = ObjectOp::MultipartPart;
        let len = body.len();
        let bytes = read_body(op, key, body).await?;
        let crc64nvme = crc64(&bytes);
        let is_kept = capabilities.checksum_kept;
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .upload_part()
            .bucket(&self.bucket)
            .key(key)
            .upload_id(upload_id)
            .part_number(i32::try_from(number).unwrap_or(i32::MAX))
            .set_checksum_crc64_nvme(is_kept.then(|| crc_text(crc64nvme)))
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
        let answer = sent.map_err(|error| object_error(op, key, &error))?;
        Ok(Part { number, etag: answer.e_tag.unwrap_or_default(), crc64nvme, len })
    }

    pub(super) async fn finish(
        &self,
        capabilities: Capabilities,
        key: &str,
        upload_id: &str,
        parts: &[Part],
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let op = ObjectOp::MultipartFinish;
        if !capabilities.conditional_finish && self.head_object(key).await?.is_some() {
            return Err(ObjectError::new(ObjectErrorKind::Exists, op, key, "the key is taken"));
        }
        let is_kept = capabilities.checksum_kept;
        let completed = parts.iter().map(|part| {
            CompletedPart::builder()
                .part_number(i32::try_from(part.number).unwrap_or(i32::MAX))
                .e_tag(&part.etag)
                .set_checksum_crc64_nvme(is_kept.then(|| crc_text(part.crc64nvme)))
                .build()
        });
        let upload =
            CompletedMultipartUpload::builder().set_parts(Some(completed.collect())).build();
        let len: u64 = parts.iter().map(|part| part.len).sum();
        let (algorithm, customer_key, md5) = self.encryption.by_customer();
        let request = self
            .client
            .complete_multipart_upload()
            .bucket(&self.bucket)
            .key(key)
            .upload_id(upload_id)
            .multipart_upload(upload)
            .mpu_object_size(i64::try_from(len).unwrap_or(i64::MAX))
            .set_if_none_match(capabilities.conditional_finish.then(|| "*".to_owned()))
            .set_checksum_type(is_kept.then_some(ChecksumType::FullObject))
            .set_checksum_crc64_nvme(is_kept.then(|| crc_text(meta.crc64nvme)))
            .set_sse_customer_algorithm(algorithm)
            .set_sse_customer_key(customer_key)
            .set_sse_customer_key_md5(md5);
        let answer = request.send().await.map_err(|error| object_error(op, key, &error))?;
        Ok(PutOutcome { etag: answer.e_tag.unwrap_or_default(), already_there: false })
    }

    pub(super) async fn abort(&self, key: &str, upload_id: &str) -> ObjectResult<()> {
        let op = ObjectOp::MultipartAbort;
        let request =
            self.client.abort_multipart_upload().bucket(&self.bucket).key(key).upload_id(upload_id);
        match request.send().await.map_err(|error| object_error(op, key, &error)) {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn list_uploads(&self, prefix: &str) -> ObjectResult<Vec<UnfinishedUpload>> {
        let op = ObjectOp::MultipartList;
        let request = self.client.list_multipart_uploads().bucket(&self.bucket).prefix(prefix);
        let answer = request.send().await.map_err(|error| object_error(op, prefix, &error))?;
        let uploads = answer.uploads.unwrap_or_default().into_iter();
        Ok(uploads
            .filter_map(|upload| {
                Some(UnfinishedUpload { key: upload.key?, upload_id: upload.upload_id? })
            })
            // The store was asked for these only; aborting others would be a disaster.
            .filter(|upload| upload.key.starts_with(prefix))
            .collect())
    }
}
