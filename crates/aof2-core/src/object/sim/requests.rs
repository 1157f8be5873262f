//! Each request to a simulated bucket.

use std::ops::Range;

use bytes::Bytes;

use super::SimBucket;
use super::contents::{Upload, upload};
use super::faults::arrived;
use crate::format::{Crc64, crc64};
use crate::object::body::ObjectBody;
use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use crate::object::store::{
    Capabilities, ListPage, ObjectEntry, ObjectFuture, ObjectHead, ObjectMeta, ObjectStore, Part,
    PutOutcome, UnfinishedUpload,
};

fn read(op: ObjectOp, key: &str, body: &ObjectBody) -> ObjectResult<Bytes> {
    body.read().map_err(|error| {
        ObjectError::new(ObjectErrorKind::InvalidRequest, op, key, &error.to_string())
    })
}

impl ObjectStore for SimBucket {
    fn put_new<'a>(
        &'a self,
        key: &'a str,
        body: ObjectBody,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        Box::pin(async move {
            let op = ObjectOp::Put;
            let bytes = read(op, key, &body)?;
            let forgotten = || PutOutcome { etag: String::new(), already_there: false };
            self.call(op, key, forgotten, |state, fault| {
                state.create(op, key, arrived(bytes, fault), meta)
            })
            .await
        })
    }

    fn head<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, Option<ObjectHead>> {
        Box::pin(self.call(
            ObjectOp::Head,
            key,
            || None,
            |state, _| {
                Ok(state.objects.get(key).map(|object| ObjectHead {
                    len: object.bytes.len() as u64,
                    etag: object.etag.clone(),
                    crc64nvme: Some(object.meta.crc64nvme),
                    user: object.meta.user.clone(),
                }))
            },
        ))
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> ObjectFuture<'a, Bytes> {
        Box::pin(self.call(ObjectOp::Get, key, Bytes::new, move |state, fault| {
            let object = state.object(ObjectOp::Get, key)?;
            if range.end > object.bytes.len() as u64 || range.start > range.end {
                let kind = ObjectErrorKind::InvalidRequest;
                return Err(ObjectError::new(kind, ObjectOp::Get, key, "invalid range"));
            }
            Ok(arrived(object.bytes.slice(range.start as usize..range.end as usize), fault))
        }))
    }

    fn get_suffix<'a>(&'a self, key: &'a str, len: u64) -> ObjectFuture<'a, (Bytes, u64)> {
        Box::pin(self.call(
            ObjectOp::Get,
            key,
            move || (Bytes::new(), len),
            move |state, fault| {
                let object = state.object(ObjectOp::Get, key)?;
                let total_len = object.bytes.len() as u64;
                let start = total_len.saturating_sub(len) as usize;
                Ok((arrived(object.bytes.slice(start..), fault), total_len))
            },
        ))
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        next: Option<&'a str>,
    ) -> ObjectFuture<'a, ListPage> {
        Box::pin(self.call(ObjectOp::List, prefix, ListPage::default, move |state, _| {
            let mut entries: Vec<ObjectEntry> = state
                .objects
                .iter()
                .filter(|(key, _)| key.starts_with(prefix) && next.is_none_or(|n| key.as_str() > n))
                .take(state.page_count + 1)
                .map(|(key, object)| ObjectEntry {
                    key: key.clone(),
                    len: object.bytes.len() as u64,
                    etag: object.etag.clone(),
                })
                .collect();
            let is_cut = entries.len() > state.page_count;
            entries.truncate(state.page_count);
            let next = entries.last().filter(|_| is_cut).map(|entry| entry.key.clone());
            Ok(ListPage { entries, next })
        }))
    }

    fn delete<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(self.call(
            ObjectOp::Delete,
            key,
            || (),
            move |state, _| {
                if state.objects.remove(key).is_some() {
                    state.changes.push(format!("- {key}"));
                }
                Ok(())
            },
        ))
    }

    fn multipart_begin<'a>(
        &'a self,
        key: &'a str,
        _meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, String> {
        Box::pin(self.call(
            ObjectOp::MultipartBegin,
            key,
            || "forgotten".to_owned(),
            |state, _| {
                let upload_id = format!("upload-{:08x}", state.id());
                state.uploads.insert(upload(key, &upload_id), Upload::default());
                Ok(upload_id)
            },
        ))
    }

    fn multipart_part<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectFuture<'a, Part> {
        Box::pin(async move {
            let op = ObjectOp::MultipartPart;
            let bytes = read(op, key, &body)?;
            let mut crc = Crc64::new();
            crc.update(&bytes);
            let part = Part {
                number,
                etag: "forgotten".to_owned(),
                crc64nvme: crc.finish(),
                len: body.len(),
            };
            let forgotten = || part.clone();
            self.call(op, key, forgotten, |state, fault| {
                let etag = format!("\"{:08x}\"", state.id());
                let is_verified = state.capabilities.multipart_checksum_verified;
                let Some(stored) = state.uploads.get_mut(&upload(key, upload_id)) else {
                    let kind = ObjectErrorKind::NotFound;
                    return Err(ObjectError::new(kind, op, key, "no such upload"));
                };
                let bytes = arrived(bytes, fault);
                if is_verified && crc64(&bytes) != part.crc64nvme {
                    return Err(ObjectError::new(ObjectErrorKind::Corrupt, op, key, "bad digest"));
                }
                stored.parts.insert(number, (bytes, etag.clone()));
                Ok(Part { etag, ..part.clone() })
            })
            .await
        })
    }

    fn multipart_finish<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        parts: &'a [Part],
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        let forgotten = || PutOutcome { etag: String::new(), already_there: false };
        Box::pin(self.call(ObjectOp::MultipartFinish, key, forgotten, move |state, _| {
            state.finish(key, upload_id, parts, meta)
        }))
    }

    fn multipart_abort<'a>(&'a self, key: &'a str, upload_id: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(self.call(
            ObjectOp::MultipartAbort,
            key,
            || (),
            move |state, _| {
                state.uploads.remove(&upload(key, upload_id));
                Ok(())
            },
        ))
    }

    fn multipart_list<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, Vec<UnfinishedUpload>> {
        Box::pin(self.call(ObjectOp::MultipartList, prefix, Vec::new, move |state, _| {
            let uploads = state.uploads.keys().filter(|upload| upload.key.starts_with(prefix));
            Ok(uploads.take(state.page_count).cloned().collect())
        }))
    }

    fn probe(&self) -> ObjectFuture<'_, Capabilities> {
        Box::pin(self.call(
            ObjectOp::Probe,
            "",
            || Capabilities::MINIMAL,
            |state, _| Ok(state.capabilities),
        ))
    }

    fn capabilities(&self) -> Capabilities {
        self.contents.lock().capabilities
    }
}
