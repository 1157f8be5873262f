//! What an endpoint really does, found out by asking.
//!
//! A few requests about objects below `{prefix}/.probe/`, all of them removed
//! again. An endpoint that accepts what it should refuse is worse than one that
//! says no: both count as not having it.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::store::S3Store;
use crate::format::crc64;
use crate::object::body::ObjectBody;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectResult};
use crate::object::store::{Capabilities, ObjectMeta, ObjectStore, PutOutcome};

const BYTES: &[u8] = b"aof2 finds out what this endpoint does";

impl S3Store {
    pub(super) async fn probe_endpoint(&self) -> ObjectResult<Capabilities> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let dir = if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) };
        let dir = format!("{dir}.probe/{now:020}-{}", std::process::id());
        let found = self.probe_keys(&dir).await;
        let mut removed = Ok(());
        for name in ["plain", "checked", "wrong", "parts", "wrong-parts"] {
            let key = format!("{dir}/{name}");
            removed = removed.and(self.delete_object(&key).await);
            if name.ends_with("parts") {
                removed = removed.and(self.abort_unfinished(&key).await.map(|_| ()));
            }
        }
        let found = found?;
        removed?;
        Ok(found)
    }

    async fn probe_keys(&self, dir: &str) -> ObjectResult<Capabilities> {
        let meta = ObjectMeta { crc64nvme: crc64(BYTES), ..ObjectMeta::default() };
        let wrong = ObjectMeta { crc64nvme: !meta.crc64nvme, ..ObjectMeta::default() };
        let key = |name: &str| format!("{dir}/{name}");
        let body = Bytes::from_static(BYTES);
        let mut found = Capabilities::MINIMAL;

        // Without it nothing works, so its error is the answer.
        self.put_as(found, &key("plain"), body.clone(), &meta).await?;

        let kept = Capabilities { checksum_kept: true, ..found };
        if was_done(self.put_as(kept, &key("checked"), body.clone(), &meta).await)? {
            let head = self.head_object(&key("checked")).await?;
            found.checksum_kept = head.and_then(|(_, own)| own) == Some(meta.crc64nvme);
        }
        if found.checksum_kept {
            found.checksum_verified =
                was_refused(self.put_as(kept, &key("wrong"), body.clone(), &wrong).await)?;
        }

        let again = Capabilities { conditional_create: true, ..found };
        let answer = self.put_as(again, &key("plain"), body.clone(), &meta).await;
        found.conditional_create = answer.as_ref().is_err_and(is_exists);
        unless_down(answer)?;

        found.suffix_range = self.probe_suffix(&key("plain")).await?;
        self.probe_parts(&key("parts"), &key("wrong-parts"), &mut found, &meta, &wrong).await?;
        Ok(found)
    }

    async fn probe_suffix(&self, key: &str) -> ObjectResult<bool> {
        let answer = self.get_last(key, 4).await;
        let is_right = answer.as_ref().is_ok_and(|(bytes, len)| {
            bytes[..] == BYTES[BYTES.len() - 4..] && *len == BYTES.len() as u64
        });
        unless_down(answer)?;
        Ok(is_right)
    }

    async fn probe_parts(
        &self,
        key: &str,
        wrong_key: &str,
        found: &mut Capabilities,
        meta: &ObjectMeta,
        wrong: &ObjectMeta,
    ) -> ObjectResult<()> {
        self.probe_upload(*found, key, meta).await?;
        let conditional = Capabilities { conditional_finish: true, ..*found };
        let answer = self.probe_upload(conditional, key, meta).await;
        found.conditional_finish = answer.as_ref().is_err_and(is_exists);
        unless_down(answer)?;
        if found.checksum_kept {
            found.multipart_checksum_verified =
                was_refused(self.probe_upload(*found, wrong_key, wrong).await)?;
        }
        Ok(())
    }

    async fn probe_upload(
        &self,
        capabilities: Capabilities,
        key: &str,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let upload_id = self.begin(capabilities, key, meta).await?;
        let body = ObjectBody::Bytes(Bytes::from_static(BYTES));
        let part = self.part(capabilities, key, &upload_id, 1, body).await?;
        self.finish(capabilities, key, &upload_id, &[part], meta).await
    }
}

fn is_exists(error: &ObjectError) -> bool {
    error.kind == ObjectErrorKind::Exists
}

/// Whether it was done; a refusal is an answer, a failure is none.
fn was_done<T>(answer: ObjectResult<T>) -> ObjectResult<bool> {
    let is_done = answer.is_ok();
    unless_down(answer)?;
    Ok(is_done)
}

fn was_refused<T>(answer: ObjectResult<T>) -> ObjectResult<bool> {
    was_done(answer).map(|is_done| !is_done)
}

/// An endpoint that is down or refuses us says nothing about what it can do.
fn unless_down<T>(answer: ObjectResult<T>) -> ObjectResult<()> {
    match answer {
        Err(error)
            if matches!(
                error.kind,
                ObjectErrorKind::Denied
                    | ObjectErrorKind::Throttled
                    | ObjectErrorKind::Unavailable
                    | ObjectErrorKind::Timeout
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
