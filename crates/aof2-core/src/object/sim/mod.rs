//! A model of a bucket, which fails on demand.
//!
//! [`SimBucket`] is an [`ObjectStore`](super::ObjectStore) in memory. It is another machine than the
//! one that loses power: what a request did stays. A request can fail before it is
//! carried out or after, hang, come back damaged, or be acknowledged and forgotten
//! ([`BucketFault`]); and the machine that asks can lose power at a request
//! ([`SimBucket::crash_at`], [`SimBucket::crash_after`]). Everything happens when a
//! future is first polled, without waiting for anything, so that it is
//! deterministic under any runtime.

mod contents;
mod faults;
mod requests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::store::{Capabilities, ObjectMeta, UnfinishedUpload};

pub use contents::SimObject;
use contents::{Contents, Upload, upload};
use faults::{Asker, Verdict};
pub use faults::{BucketCall, BucketFault};

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
