//! A model of a bucket, which fails on demand.
//!
//! [`SimBucket`] is an [`ObjectStore`] in memory. It is another machine than the
//! one that loses power: what a request did stays. A request can fail before it is
//! carried out or after, hang, come back damaged, or be acknowledged and forgotten
//! ([`BucketFault`]); and the machine that asks can lose power at a request
//! ([`SimBucket::crash_at`], [`SimBucket::crash_after`]). Everything happens when a
//! future is first polled, without waiting for anything, so that it is
//! deterministic under any runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::body::ObjectBody;
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::store::{
    Capabilities, ListPage, ObjectEntry, ObjectFuture, ObjectHead, ObjectMeta, ObjectStore, Part,
    PutOutcome, UnfinishedUpload,
};
use crate::format::{Crc64, crc64};

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketFault {
    /// With this error, before it is carried out.
    Before(ObjectErrorKind),
    /// With this error, after it was carried out: the answer is lost.
    After(ObjectErrorKind),
    /// No answer ever comes; it is not carried out.
    HangBefore,
    /// No answer ever comes; it is carried out.
    HangAfter,
    /// Half of the bytes arrive: of an upload at the store, of a read here.
    Truncate,
    /// One byte arrives changed: of an upload at the store, of a read here.
    Flip,
    /// Success is reported, and nothing was done.
    Forget,
}

/// One request to the bucket.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BucketCall<'a> {
    /// Number of requests before it: the first one is 0.
    pub index: u64,
    /// What is asked for.
    pub op: ObjectOp,
    /// Key or prefix it is about.
    pub key: &'a str,
}

/// An object as the bucket holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimObject {
    /// Its bytes.
    pub bytes: Bytes,
    /// What is stored beside them.
    pub meta: ObjectMeta,
    etag: String,
}

#[derive(Clone, Debug, Default)]
struct Upload {
    parts: BTreeMap<u32, (Bytes, String)>,
}

type Predicate = Box<dyn Fn(&BucketCall<'_>) -> Option<BucketFault> + Send + Sync>;
type OnCrash = Box<dyn FnOnce() + Send>;
type OnCall = Arc<dyn Fn(&BucketCall<'_>) + Send + Sync>;

/// What every machine sees.
struct Contents {
    objects: BTreeMap<String, SimObject>,
    uploads: BTreeMap<UnfinishedUpload, Upload>,
    capabilities: Capabilities,
    page_count: usize,
    /// Tags and upload names are numbered, for all time.
    next_id: u64,
    /// What was created and deleted, in order.
    changes: Vec<String>,
}

/// One machine that asks, and what happens to its requests.
#[derive(Default)]
struct Asker {
    calls: u64,
    fail_at: BTreeMap<u64, BucketFault>,
    fail_when: Vec<Predicate>,
    crash_at: Option<u64>,
    crash_after: Option<u64>,
    on_crash: Option<OnCrash>,
    on_call: Option<OnCall>,
    is_crashed: bool,
}

/// A bucket in memory, as one machine sees it. Clones are the same machine's.
#[derive(Clone)]
pub struct SimBucket {
    contents: Arc<Mutex<Contents>>,
    asker: Arc<Mutex<Asker>>,
}

impl fmt::Debug for SimBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.contents.lock();
        f.debug_struct("SimBucket")
            .field("objects", &contents.objects.len())
            .field("uploads", &contents.uploads.len())
            .field("calls", &self.asker.lock().calls)
            .finish_non_exhaustive()
    }
}

impl Default for SimBucket {
    fn default() -> Self {
        Self::new()
    }
}

/// What to do with a request before and after it is carried out.
enum Verdict {
    Run(Option<BucketFault>),
    CrashAfter,
}

impl SimBucket {
    /// An empty bucket that does all that S3 does.
    pub fn new() -> Self {
        Self::with_capabilities(Capabilities::FULL)
    }

    /// An empty bucket of a lesser endpoint.
    pub fn with_capabilities(capabilities: Capabilities) -> Self {
        Self::from_contents(BTreeMap::new(), BTreeMap::new(), capabilities, 0)
    }

    fn from_contents(
        objects: BTreeMap<String, SimObject>,
        uploads: BTreeMap<UnfinishedUpload, Upload>,
        capabilities: Capabilities,
        next_id: u64,
    ) -> Self {
        let changes = Vec::new();
        let contents =
            Contents { objects, uploads, capabilities, page_count: 1000, next_id, changes };
        Self { contents: Arc::new(Mutex::new(contents)), asker: Arc::default() }
    }

    /// A bucket of its own with the contents of this one, without its faults: what
    /// a machine finds that is powered on again.
    #[must_use]
    pub fn image(&self) -> Self {
        let contents = self.contents.lock();
        let (objects, uploads) = (contents.objects.clone(), contents.uploads.clone());
        Self::from_contents(objects, uploads, contents.capabilities, contents.next_id)
    }

    /// The same bucket as another machine sees it, with faults and crashes of its own.
    #[must_use]
    pub fn for_another_machine(&self) -> Self {
        Self { contents: Arc::clone(&self.contents), asker: Arc::default() }
    }

    /// Calls this before and after every request is carried out: time in which the machine
    /// that asks stands still, and others may do something. It may use the bucket as
    /// another machine.
    pub fn on_call(&self, action: impl Fn(&BucketCall<'_>) + Send + Sync + 'static) {
        self.asker.lock().on_call = Some(Arc::new(action));
    }

    /// Objects in a page of a listing; 1000 unless set.
    pub fn set_page_count(&self, page_count: usize) {
        self.contents.lock().page_count = page_count.max(1);
    }

    /// Number of requests so far, those that failed included.
    pub fn calls(&self) -> u64 {
        self.asker.lock().calls
    }

    /// Makes the request with this [`BucketCall::index`] fail.
    pub fn fail_at(&self, call: u64, fault: BucketFault) {
        self.asker.lock().fail_at.insert(call, fault);
    }

    /// Makes requests fail for which the predicate says so. It must not use the
    /// bucket itself.
    pub fn fail_when(
        &self,
        predicate: impl Fn(&BucketCall<'_>) -> Option<BucketFault> + Send + Sync + 'static,
    ) {
        self.asker.lock().fail_when.push(Box::new(predicate));
    }

    /// The machine that asks loses power when it sends this request, which is not
    /// carried out. This and every later request fails.
    pub fn crash_at(&self, call: u64) {
        self.asker.lock().crash_at = Some(call);
    }

    /// The machine that asks loses power when this request was carried out. This and
    /// every later request fails.
    pub fn crash_after(&self, call: u64) {
        self.asker.lock().crash_after = Some(call);
    }

    /// What happens at that instant: taking the image of the machine's own storage.
    pub fn on_crash(&self, action: impl FnOnce() + Send + 'static) {
        self.asker.lock().on_crash = Some(Box::new(action));
    }

    /// Whether the machine that asks lost power.
    pub fn is_crashed(&self) -> bool {
        self.asker.lock().is_crashed
    }

    /// Forgets planned faults and crashes. A crash that happened stays.
    pub fn clear_faults(&self) {
        let mut state = self.asker.lock();
        state.fail_at.clear();
        state.fail_when.clear();
        state.crash_at = None;
        state.crash_after = None;
    }

    /// Everything in the bucket. Not a request.
    pub fn objects(&self) -> BTreeMap<String, SimObject> {
        self.contents.lock().objects.clone()
    }

    /// What requests created (`+ key`) and deleted (`- key`), in order, for whoever looks
    /// into a failure. Not a request.
    pub fn changes(&self) -> Vec<String> {
        self.contents.lock().changes.clone()
    }

    /// Unfinished uploads. Not a request.
    pub fn uploads(&self) -> Vec<UnfinishedUpload> {
        self.contents.lock().uploads.keys().cloned().collect()
    }

    /// Puts an object there that nobody uploaded. Not a request.
    pub fn insert(&self, key: &str, bytes: Bytes, meta: ObjectMeta) {
        let mut state = self.contents.lock();
        state.store(key, bytes, meta);
    }

    /// Leaves an upload in parts there that nobody will finish. Not a request.
    pub fn leave_upload(&self, key: &str) {
        let mut state = self.contents.lock();
        let upload_id = state.id().to_string();
        state.uploads.insert(upload(key, &upload_id), Upload::default());
    }

    /// Loses an object; whether it was there. Not a request.
    pub fn remove(&self, key: &str) -> bool {
        self.contents.lock().objects.remove(key).is_some()
    }

    /// Flips bits of one byte of an object where it lies; whether there is such a
    /// byte. Its checksum stays as it was. Not a request.
    pub fn damage(&self, key: &str, offset: u64, mask: u8) -> bool {
        let mut state = self.contents.lock();
        let Some(object) = state.objects.get_mut(key) else { return false };
        let mut bytes = object.bytes.to_vec();
        let Some(byte) = bytes.get_mut(offset as usize) else { return false };
        *byte ^= mask;
        object.bytes = bytes.into();
        true
    }

    /// Lets others do something while a request is on its way.
    fn pause(&self, op: ObjectOp, key: &str) {
        let asker = self.asker.lock();
        let (action, index) = (asker.on_call.clone(), asker.calls);
        drop(asker);
        if let Some(action) = action {
            action(&BucketCall { index, op, key });
        }
    }

    /// Carries a request out, as its faults say.
    async fn call<T>(
        &self,
        op: ObjectOp,
        key: &str,
        forgotten: impl FnOnce() -> T,
        run: impl FnOnce(&mut Contents, Option<BucketFault>) -> ObjectResult<T>,
    ) -> ObjectResult<T> {
        self.pause(op, key);
        let answer = self.carry_out(op, key, forgotten, run).await;
        self.pause(op, key);
        answer
    }

    async fn carry_out<T>(
        &self,
        op: ObjectOp,
        key: &str,
        forgotten: impl FnOnce() -> T,
        run: impl FnOnce(&mut Contents, Option<BucketFault>) -> ObjectResult<T>,
    ) -> ObjectResult<T> {
        let fail = |kind| Err(ObjectError::new(kind, op, key, "injected fault"));
        let (fault, answer) = {
            let mut asker = self.asker.lock();
            let mut contents = self.contents.lock();
            match asker.enter(op, key)? {
                Verdict::CrashAfter => {
                    let _ = run(&mut contents, None);
                    return Err(asker.crash(op, key));
                }
                Verdict::Run(fault @ Some(BucketFault::Before(_) | BucketFault::HangBefore)) => {
                    (fault, None)
                }
                Verdict::Run(Some(BucketFault::Forget)) => return Ok(forgotten()),
                Verdict::Run(fault) => (fault, Some(run(&mut contents, fault))),
            }
        };
        match (fault, answer) {
            (Some(BucketFault::Before(kind) | BucketFault::After(kind)), _) => fail(kind),
            (Some(BucketFault::HangBefore | BucketFault::HangAfter), _) => {
                std::future::pending().await
            }
            (_, Some(answer)) => answer,
            (_, None) => fail(ObjectErrorKind::Unavailable),
        }
    }
}

impl Asker {
    fn enter(&mut self, op: ObjectOp, key: &str) -> ObjectResult<Verdict> {
        let index = self.calls;
        self.calls += 1;
        if self.is_crashed || self.crash_at == Some(index) {
            return Err(self.crash(op, key));
        }
        if self.crash_after == Some(index) {
            return Ok(Verdict::CrashAfter);
        }
        let call = BucketCall { index, op, key };
        let planned = self.fail_at.get(&index).copied();
        Ok(Verdict::Run(planned.or_else(|| self.fail_when.iter().find_map(|when| when(&call)))))
    }

    /// The bucket is busy while the action runs: it must not use the bucket.
    fn crash(&mut self, op: ObjectOp, key: &str) -> ObjectError {
        self.is_crashed = true;
        if let Some(action) = self.on_crash.take() {
            action();
        }
        let error = ObjectError::new(ObjectErrorKind::Unavailable, op, key, "simulated power cut");
        error.retryable(false)
    }
}

impl Contents {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn store(&mut self, key: &str, bytes: Bytes, meta: ObjectMeta) -> String {
        let etag = format!("\"{:08x}\"", self.id());
        let object = SimObject { bytes, meta, etag: etag.clone() };
        self.objects.insert(key.to_owned(), object);
        etag
    }

    fn create(
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

    fn object(&self, op: ObjectOp, key: &str) -> ObjectResult<&SimObject> {
        let missing = || ObjectError::new(ObjectErrorKind::NotFound, op, key, "no such key");
        self.objects.get(key).ok_or_else(missing)
    }

    fn finish(
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

fn upload(key: &str, upload_id: &str) -> UnfinishedUpload {
    UnfinishedUpload { key: key.to_owned(), upload_id: upload_id.to_owned() }
}

/// Bytes after a way on which they may suffer.
fn arrived(bytes: Bytes, fault: Option<BucketFault>) -> Bytes {
    match fault {
        Some(BucketFault::Truncate) => bytes.slice(..bytes.len() / 2),
        Some(BucketFault::Flip) if !bytes.is_empty() => {
            let mut flipped = bytes.to_vec();
            let middle = flipped.len() / 2;
            flipped[middle] ^= 1;
            flipped.into()
        }
        _ => bytes,
    }
}

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
