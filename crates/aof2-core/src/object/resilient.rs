//! The store that the rest of the crate uses: every request with a deadline, a
//! bounded number of tries, a turn among those in flight, and a count. While the store
//! answers nobody ([`Availability`]), no operation is begun, and those that were begun wait
//! for it as long as their tries last.
//!
//! What was asked for is done once however often it is tried. Reads, listings and
//! deletes may be repeated as they are. An upload is a conditional create, so that
//! a second try of one that was carried out without an answer finds the key taken
//! and recognises its own bytes by length and checksum.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use super::admission::{PROBE_NAME, is_continued, no_answer};
use super::availability::Availability;
use super::body::ObjectBody;
use super::config::ColdConfig;
use super::counters::{Counters, ObjectMetrics};
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::store::{
    Capabilities, ListPage, ObjectFuture, ObjectHead, ObjectMeta, ObjectStore, Part, PutOutcome,
    UnfinishedUpload,
};
use crate::error::Result;
use crate::format::Crc64;
use crate::io::{Clock, SystemClock};

/// Uploads that arrived damaged or vanished are begun anew this often.
const RESTARTS_MAX: u32 = 3;
/// Bytes read at once when an object is checked after its upload.
const CHECK_LEN: u64 = 8 << 20;

/// A store that keeps trying. Clones share everything.
#[derive(Clone, Debug)]
pub struct ResilientStore {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub store: Arc<dyn ObjectStore>,
    pub config: ColdConfig,
    permits: Semaphore,
    pub availability: Availability,
    /// What a probe asks about; there need be nothing.
    pub probe_key: String,
    pub counters: Counters,
    jitter: Mutex<Rng>,
}

/// Why a try ended without an answer.
struct Failure {
    error: ObjectError,
    /// Whether a request was sent.
    is_sent: bool,
}

impl ResilientStore {
    /// Wraps a store with the limits of a configuration.
    pub fn new(store: Arc<dyn ObjectStore>, config: &ColdConfig) -> Result<Self> {
        Self::with_clock(store, config, Arc::new(SystemClock))
    }

    /// The same with another clock for the pauses between probes.
    pub fn with_clock(
        store: Arc<dyn ObjectStore>,
        config: &ColdConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        Self::with_seed(store, config, clock, fastrand::u64(..))
    }

    /// The same with chosen jitter, for runs that must repeat.
    pub fn with_seed(
        store: Arc<dyn ObjectStore>,
        config: &ColdConfig,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self> {
        config.validate()?;
        let shared = Shared {
            store,
            permits: Semaphore::new(config.concurrency_max),
            availability: Availability::new(config, clock),
            probe_key: config.location()?.key(PROBE_NAME),
            counters: Counters::default(),
            jitter: Mutex::new(Rng::with_seed(seed)),
            config: config.clone(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What was asked of the store so far.
    pub fn metrics(&self) -> ObjectMetrics {
        let shared = &self.shared;
        let idle = shared.permits.available_permits();
        let (outages, probes) = shared.availability.counts();
        ObjectMetrics {
            in_flight: shared.config.concurrency_max.saturating_sub(idle) as u64,
            down_since_ms: self.outage().map(|outage| outage.since_ms),
            outages,
            probes,
            ..shared.counters.snapshot()
        }
    }

    /// Sends a request until it is answered, cannot succeed, or time is up. Says
    /// how many tries there were before.
    pub(super) async fn run<'a, T>(
        &'a self,
        op: ObjectOp,
        key: &'a str,
        sent_len: u64,
        request: impl Fn() -> ObjectFuture<'a, T>,
    ) -> ObjectResult<(T, u32)> {
        let shared = &*self.shared;
        let deadline = Instant::now() + Duration::from_millis(shared.config.operation_timeout_ms);
        let mut retries = 0;
        // What others like it were answered before this failed first.
        let mut answers_before = None;
        loop {
            let Failure { error, is_sent } =
                match self.attempt(op, key, sent_len, retries > 0, deadline, &request).await {
                    Ok(answer) => return Ok((answer, retries)),
                    Err(failure) => failure,
                };
            // What was begun goes on for as long as its tries last: the store may be back.
            if !is_sent && retries == 0 {
                return Err(error);
            }
            let answers_before =
                *answers_before.get_or_insert_with(|| shared.availability.answers(op));
            let wait = self.backoff(retries, error.retry_after_ms);
            let is_last = !is_worth_repeating(&error)
                || retries >= shared.config.retries_max
                || Instant::now() + wait >= deadline;
            if is_last && !(is_sent && error.is_of_store()) {
                return Err(error);
            }
            if is_last {
                let is_alone = shared.availability.gave_up(&error, answers_before);
                let is_outage = self.find_outage(deadline).await.is_some();
                if !(is_outage && is_continued(op)) || Instant::now() >= deadline {
                    return Err(error.blame_store(is_outage, is_alone));
                }
            } else {
                tracing::debug!(%error, ?wait, "trying again");
                self.pause(wait).await;
                retries += 1;
            }
        }
    }

    async fn attempt<'a, T>(
        &'a self,
        op: ObjectOp,
        key: &'a str,
        sent_len: u64,
        is_retry: bool,
        deadline: Instant,
        request: &impl Fn() -> ObjectFuture<'a, T>,
    ) -> std::result::Result<T, Failure> {
        let shared = &*self.shared;
        let unsent = |error| Failure { error, is_sent: false };
        let _permit = loop {
            self.admit(op, key, deadline).await.map_err(unsent)?;
            let Ok(Ok(permit)) = timeout_at(deadline, shared.permits.acquire()).await else {
                let detail = "too many requests are in flight";
                return Err(unsent(ObjectError::new(ObjectErrorKind::Timeout, op, key, detail)));
            };
            // Whoever waited for a turn may have waited for others to fail.
            if shared.availability.is_open() {
                break permit;
            }
        };
        shared.counters.request(op, is_retry, sent_len);
        let start = Instant::now();
        let limit = match op {
            // Many requests in one.
            ObjectOp::Probe => deadline,
            _ => deadline.min(start + Duration::from_millis(shared.config.request_timeout_ms)),
        };
        let answer = timeout_at(limit, request()).await;
        let answer = answer.unwrap_or_else(|_| Err(no_answer(op, key, start)));
        let is_failure = answer
            .as_ref()
            .is_err_and(|e| !matches!(e.kind, ObjectErrorKind::NotFound | ObjectErrorKind::Exists));
        shared.counters.answer(op, start.elapsed(), is_failure);
        match &answer {
            Err(error) if error.is_of_store() => shared.availability.failed(error),
            _ => shared.availability.answered(op),
        }
        answer.map_err(|error| Failure { error, is_sent: true })
    }

    /// Doubles with every retry, and is a random half of that, so that clients that
    /// failed together do not return together. What the store asks for counts too.
    fn backoff(&self, retries: u32, retry_after_ms: Option<u64>) -> Duration {
        let config = &self.shared.config;
        let doubled = config.backoff_ms.saturating_mul(1 << retries.min(20));
        let full_ms = doubled.min(config.backoff_ms_max);
        let wait_ms = full_ms / 2 + self.shared.jitter.lock().u64(..=full_ms - full_ms / 2);
        let asked_ms = retry_after_ms.unwrap_or(0).min(config.backoff_ms_max);
        Duration::from_millis(wait_ms.max(asked_ms))
    }

    /// Uploads, begins anew what arrived damaged, and checks what the store did not.
    async fn put(
        &self,
        key: &str,
        body: ObjectBody,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let mut restarts = 0;
        loop {
            let error = match self.put_once(key, &body, meta).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            // An upload can vanish under its parts; the bucket's rules may abort it.
            let is_lost = error.kind == ObjectErrorKind::NotFound
                && matches!(error.op, ObjectOp::MultipartPart | ObjectOp::MultipartFinish);
            if restarts == RESTARTS_MAX || !(is_lost || error.kind == ObjectErrorKind::Corrupt) {
                return Err(error);
            }
            tracing::warn!(%error, "the upload begins anew");
            restarts += 1;
            sleep(self.backoff(restarts, None)).await;
        }
    }

    async fn put_once(
        &self,
        key: &str,
        body: &ObjectBody,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let is_parts = body.len() > self.shared.config.multipart_bytes;
        let outcome = if is_parts {
            self.put_parts(key, body, meta).await?
        } else {
            self.put_single(key, body, meta).await?
        };
        let capabilities = self.capabilities();
        let is_verified = if is_parts {
            capabilities.multipart_checksum_verified
        } else {
            capabilities.checksum_verified
        };
        if !is_verified {
            self.check_stored(key, body.len(), meta.crc64nvme).await?;
        }
        Ok(outcome)
    }

    async fn put_single(
        &self,
        key: &str,
        body: &ObjectBody,
        meta: &ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let store = &self.shared.store;
        let request = || store.put_new(key, body.clone(), meta);
        match self.run(ObjectOp::Put, key, body.len(), request).await {
            Ok((outcome, _)) => Ok(outcome),
            Err(error) if error.kind == ObjectErrorKind::Exists => {
                self.recognise(key, body.len(), meta, error).await
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the object that is in the way is the one to be stored; `otherwise`
    /// if not.
    pub(super) async fn recognise(
        &self,
        key: &str,
        len: u64,
        meta: &ObjectMeta,
        otherwise: ObjectError,
    ) -> ObjectResult<PutOutcome> {
        match self.head(key).await? {
            Some(head) if head.holds(len, meta.crc64nvme) => {
                self.shared.counters.uploads_recognised.fetch_add(1, Relaxed);
                Ok(PutOutcome { etag: head.etag, already_there: true })
            }
            _ => Err(otherwise),
        }
    }

    /// Reads an object back and removes it when it is not what was sent: its key
    /// says that it is ours, and the bytes to replace it with are at hand.
    async fn check_stored(&self, key: &str, len: u64, crc64nvme: u64) -> ObjectResult<()> {
        let mut crc = Crc64::new();
        let stored_len = self.head(key).await?.map_or(0, |head| head.len);
        let mut done = 0;
        while done < len && stored_len == len {
            let end = len.min(done + CHECK_LEN);
            crc.update(&self.get_range(key, done..end).await?);
            done = end;
        }
        if stored_len == len && crc.finish() == crc64nvme {
            return Ok(());
        }
        self.delete(key).await?;
        let detail = "what was stored is not what was sent; it is removed";
        Err(ObjectError::new(ObjectErrorKind::Corrupt, ObjectOp::Put, key, detail))
    }
}

/// A finish that found damaged parts will find them again.
fn is_worth_repeating(error: &ObjectError) -> bool {
    let is_damaged = error.kind == ObjectErrorKind::Corrupt;
    error.is_retryable() && !(is_damaged && error.op == ObjectOp::MultipartFinish)
}

impl ObjectStore for ResilientStore {
    fn put_new<'a>(
        &'a self,
        key: &'a str,
        body: ObjectBody,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        Box::pin(self.put(key, body, meta))
    }

    fn head<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, Option<ObjectHead>> {
        Box::pin(async move {
            Ok(self.run(ObjectOp::Head, key, 0, || self.shared.store.head(key)).await?.0)
        })
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> ObjectFuture<'a, Bytes> {
        Box::pin(async move {
            let len = range.end.saturating_sub(range.start);
            let request = || -> ObjectFuture<'a, Bytes> {
                let range = range.clone();
                Box::pin(async move {
                    let bytes = self.shared.store.get_range(key, range).await?;
                    whole(key, bytes, len)
                })
            };
            let (bytes, _) = self.run(ObjectOp::Get, key, 0, request).await?;
            self.shared.counters.bytes_in.fetch_add(len, Relaxed);
            Ok(bytes)
        })
    }

    fn get_suffix<'a>(&'a self, key: &'a str, len: u64) -> ObjectFuture<'a, (Bytes, u64)> {
        Box::pin(async move {
            let request = || -> ObjectFuture<'a, (Bytes, u64)> {
                Box::pin(async move {
                    let (bytes, total_len) = self.shared.store.get_suffix(key, len).await?;
                    Ok((whole(key, bytes, len.min(total_len))?, total_len))
                })
            };
            let (answer, _) = self.run(ObjectOp::Get, key, 0, request).await?;
            self.shared.counters.bytes_in.fetch_add(answer.0.len() as u64, Relaxed);
            Ok(answer)
        })
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        next: Option<&'a str>,
    ) -> ObjectFuture<'a, ListPage> {
        Box::pin(async move {
            let request = || self.shared.store.list_page(prefix, next);
            Ok(self.run(ObjectOp::List, prefix, 0, request).await?.0)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(async move {
            self.run(ObjectOp::Delete, key, 0, || self.shared.store.delete(key)).await?;
            Ok(())
        })
    }

    fn multipart_begin<'a>(
        &'a self,
        key: &'a str,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, String> {
        Box::pin(async move { Ok(self.begin(key, meta).await?.0) })
    }

    fn multipart_part<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectFuture<'a, Part> {
        Box::pin(self.part(key, upload_id, number, body))
    }

    fn multipart_finish<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        parts: &'a [Part],
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        Box::pin(self.finish(key, upload_id, parts, meta))
    }

    fn multipart_abort<'a>(&'a self, key: &'a str, upload_id: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(async move {
            let request = || self.shared.store.multipart_abort(key, upload_id);
            self.run(ObjectOp::MultipartAbort, key, 0, request).await?;
            Ok(())
        })
    }

    fn multipart_list<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, Vec<UnfinishedUpload>> {
        Box::pin(async move {
            let request = || self.shared.store.multipart_list(prefix);
            Ok(self.run(ObjectOp::MultipartList, prefix, 0, request).await?.0)
        })
    }

    fn probe(&self) -> ObjectFuture<'_, Capabilities> {
        Box::pin(async move {
            Ok(self.run(ObjectOp::Probe, "", 0, || self.shared.store.probe()).await?.0)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.store.capabilities()
    }
}

fn whole(key: &str, bytes: Bytes, len: u64) -> ObjectResult<Bytes> {
    if bytes.len() as u64 == len {
        return Ok(bytes);
    }
    let detail = format!("{} of {len} bytes arrived", bytes.len());
    Err(ObjectError::new(ObjectErrorKind::Corrupt, ObjectOp::Get, key, &detail))
}
