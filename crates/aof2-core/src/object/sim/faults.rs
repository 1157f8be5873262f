//! What goes wrong with requests: faults, and power cuts of the machine that asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::object::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};

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

type Predicate = Box<dyn Fn(&BucketCall<'_>) -> Option<BucketFault> + Send + Sync>;
type OnCrash = Box<dyn FnOnce() + Send>;
type OnCall = Arc<dyn Fn(&BucketCall<'_>) + Send + Sync>;

/// One machine that asks, and what happens to its requests.
#[derive(Default)]
pub(super) struct Asker {
    pub(super) calls: u64,
    pub(super) fail_at: BTreeMap<u64, BucketFault>,
    pub(super) fail_when: Vec<Predicate>,
    pub(super) crash_at: Option<u64>,
    pub(super) crash_after: Option<u64>,
    pub(super) on_crash: Option<OnCrash>,
    pub(super) on_call: Option<OnCall>,
    pub(super) is_crashed: bool,
}

/// What to do with a request before and after it is carried out.
pub(super) enum Verdict {
    Run(Option<BucketFault>),
    CrashAfter,
}

impl Asker {
    pub(super) fn enter(&mut self, op: ObjectOp, key: &str) -> ObjectResult<Verdict> {
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
    pub(super) fn crash(&mut self, op: ObjectOp, key: &str) -> ObjectError {
        self.is_crashed = true;
        if let Some(action) = self.on_crash.take() {
            action();
        }
        let error = ObjectError::new(ObjectErrorKind::Unavailable, op, key, "simulated power cut");
        error.retryable(false)
    }
}

/// Bytes after a way on which they may suffer.
pub(super) fn arrived(bytes: Bytes, fault: Option<BucketFault>) -> Bytes {
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
