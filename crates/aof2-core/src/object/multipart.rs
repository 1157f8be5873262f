//! Uploads in parts: several in flight, each read when its turn comes, so that
//! memory is bounded by the requests in flight and not by the object.
//!
//! A crash or a dropped future leaves an unfinished upload, which holds space in
//! the store and is in nobody's way; `abort_unfinished` removes it at the next
//! start.

use tokio::task::JoinSet;

use super::body::ObjectBody;
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::resilient::ResilientStore;
use super::store::{ObjectMeta, ObjectStore, Part, PutOutcome};

/// S3 takes this many parts.
const PART_COUNT_MAX: u64 = 10_000;

impl ResilientStore {
    pub(super) async fn put_parts(
        &self,
        key: &str,
        body: &ObjectBody,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        // The condition is checked at the end only: asking first costs less than
        // sending everything for nothing.
        if self.head(key).await?.is_some() {
            let error = ObjectError::new(ObjectErrorKind::Exists, ObjectOp::Put, key, "");
            return self.recognise(key, body.len(), meta, error).await;
        }
        let (upload_id, retries) = self.begin(key, meta).await?;
        let outcome = match self.send_parts(key, &upload_id, body).await {
            Ok(parts) => self.finish(key, &upload_id, &parts, meta).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() || retries > 0 {
            // Whatever is left of this upload, and of beginnings without an answer.
            self.abort_leftovers(key).await;
        }
        outcome
    }

    pub(super) async fn begin(&self, key: &str, meta: &ObjectMeta) -> ObjectResult<(String, u32)> {
        let request = || self.shared.store.multipart_begin(key, meta);
        self.run(ObjectOp::MultipartBegin, key, 0, request).await
    }

    pub(super) async fn part(
        &self,
        key: &str,
        upload_id: &str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectResult<Part> {
        let store = &self.shared.store;
        let request = || store.multipart_part(key, upload_id, number, body.clone());
        Ok(self.run(ObjectOp::MultipartPart, key, body.len(), request).await?.0)
    }

    async fn send_parts(
        &self,
        key: &str,
        upload_id: &str,
        body: &ObjectBody,
    ) -> ObjectResult<Vec<Part>> {
        let part_len = self.shared.config.multipart_bytes.max(body.len().div_ceil(PART_COUNT_MAX));
        let part_count = u32::try_from(body.len().div_ceil(part_len)).unwrap_or(u32::MAX);
        let mut parts: Vec<Part> = Vec::new();
        // Dropping the set, on an error or with the future, ends what is in flight.
        let mut sending = JoinSet::new();
        for number in 1..=part_count {
            if sending.len() >= self.shared.config.concurrency_max {
                parts.push(joined(key, sending.join_next().await)?);
            }
            let start = u64::from(number - 1) * part_len;
            let part = body.slice(start..start + part_len);
            let (store, key, upload_id) = (self.clone(), key.to_owned(), upload_id.to_owned());
            sending.spawn(async move { store.part(&key, &upload_id, number, part).await });
        }
        while !sending.is_empty() {
            parts.push(joined(key, sending.join_next().await)?);
        }
        parts.sort_unstable_by_key(|part| part.number);
        Ok(parts)
    }

    /// An upload that is over may have been finished by a try without an answer.
    pub(super) async fn finish(
        &self,
        key: &str,
        upload_id: &str,
        parts: &[Part],
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let store = &self.shared.store;
        let request = || store.multipart_finish(key, upload_id, parts, meta);
        match self.run(ObjectOp::MultipartFinish, key, 0, request).await {
            Ok((outcome, _)) => Ok(outcome),
            Err(error)
                if matches!(error.kind, ObjectErrorKind::Exists | ObjectErrorKind::NotFound) =>
            {
                let len = parts.iter().map(|part| part.len).sum();
                self.recognise(key, len, meta, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Best effort: what stays is found by `abort_unfinished`.
    async fn abort_leftovers(&self, key: &str) {
        let aborted = async {
            for upload in self.multipart_list(key).await? {
                if upload.key == key {
                    self.multipart_abort(key, &upload.upload_id).await?;
                }
            }
            ObjectResult::Ok(())
        };
        if let Err(error) = aborted.await {
            tracing::warn!(%error, "an unfinished upload stays until the next start");
        }
    }
}

fn joined(
    key: &str,
    ended: Option<Result<ObjectResult<Part>, tokio::task::JoinError>>,
) -> ObjectResult<Part> {
    match ended {
        Some(Ok(part)) => part,
        // The runtime is shutting down, or the task panicked.
        other => {
            let detail = other.map_or_else(String::new, |_| "the upload was cut short".to_owned());
            let op = ObjectOp::MultipartPart;
            Err(ObjectError::new(ObjectErrorKind::Unavailable, op, key, &detail))
        }
    }
}
