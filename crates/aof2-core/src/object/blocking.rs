//! The object store for threads.
//!
//! Requests run on a small runtime of their own, so that a caller may block wherever it
//! stands, inside another runtime's task included, without keeping the request from
//! being answered. Every wait ends: each operation has its deadline.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;

use super::availability::Outage;
use super::body::ObjectBody;
use super::config::ColdConfig;
use super::counters::ObjectMetrics;
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::resilient::ResilientStore;
use super::store::{Capabilities, ObjectEntry, ObjectHead, ObjectMeta, ObjectStore, PutOutcome};
use crate::error::{AofError, Result};
use crate::io::Clock;
use crate::io::threads::OwnRuntime;

/// Threads that carry requests: one signs and checks while the other waits.
const WORKER_THREADS: usize = 2;

/// A bucket whose calls block.
#[derive(Debug)]
pub struct BlockingStore {
    /// Goes first: what it still does ends before the store that it does it with.
    runtime: OwnRuntime,
    store: ResilientStore,
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Coming<T> {
    answer: Receiver<ObjectResult<T>>,
    op: ObjectOp,
    key: String,
}

impl<T> Coming<T> {
    /// Waits for it.
    pub fn wait(self) -> ObjectResult<T> {
        let Self { answer, op, key } = self;
        // The sender is dropped unsent only when the runtime is shutting down.
        answer.recv().unwrap_or_else(|_| {
            Err(ObjectError::new(ObjectErrorKind::Unavailable, op, &key, "the log was closed"))
        })
    }
}

impl BlockingStore {
    /// Any store, with the limits of a configuration. The clock tells when a store that
    /// does not answer is asked again.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        config: &ColdConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        Self::on(runtime()?, store, config, clock)
    }

    fn on(
        runtime: OwnRuntime,
        store: Arc<dyn ObjectStore>,
        config: &ColdConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let store = ResilientStore::with_clock(store, config, clock)?;
        Ok(Self { store, runtime })
    }

    /// The bucket that a configuration and the environment name. Sends no request to it;
    /// where credentials come from a service, asks that.
    #[cfg(feature = "s3")]
    pub fn open(config: ColdConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let runtime = runtime()?;
        let (say, answer) = sync_channel(1);
        let handle = runtime.handle().ok_or(AofError::Forked)?;
        handle.spawn(async move {
            let _ = say.send(crate::object::s3::S3Store::open(config).await);
        });
        let store = answer.recv().map_err(|_| AofError::Closed)??;
        let config = store.config().clone();
        Self::on(runtime, Arc::new(store), &config, clock)
    }

    /// Without the feature `s3` there is nothing to open.
    #[cfg(not(feature = "s3"))]
    pub fn open(_config: ColdConfig, _clock: Arc<dyn Clock>) -> Result<Self> {
        Err(AofError::InvalidConfig {
            field: "cold",
            reason: "this program was built without the cargo feature s3".into(),
        })
    }

    /// What was asked of the store so far.
    pub fn metrics(&self) -> ObjectMetrics {
        self.store.metrics()
    }

    /// The outage, while the store is known not to answer.
    pub fn outage(&self) -> Option<Outage> {
        self.store.outage()
    }

    /// Asks a store that does not answer whether it is back, if that is due.
    pub fn ask_if_due(&self) {
        let store = self.store.clone();
        let asked = self.start(ObjectOp::Probe, "", async move {
            store.ask_if_due().await;
            Ok(())
        });
        // What came of it is what `outage` says.
        let _ = asked.wait();
    }

    /// What is assumed or known of the endpoint.
    pub fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn start<T, F>(&self, op: ObjectOp, key: &str, request: F) -> Coming<T>
    where
        T: Send + 'static,
        F: Future<Output = ObjectResult<T>> + Send + 'static,
    {
        let (say, answer) = sync_channel(1);
        match self.runtime.handle() {
            Some(handle) => {
                handle.spawn(async move {
                    let _ = say.send(request.await);
                });
            }
            None => {
                let detail = "this handle was opened before fork(); open the log again";
                let error = ObjectError::new(ObjectErrorKind::InvalidRequest, op, key, detail);
                let _ = say.send(Err(error));
            }
        }
        Coming { answer, op, key: key.to_owned() }
    }

    /// Creates an object, or recognises it as there.
    pub fn put_new(
        &self,
        key: &str,
        body: ObjectBody,
        meta: ObjectMeta,
    ) -> ObjectResult<PutOutcome> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        let request = async move { store.put_new(&owned, body, &meta).await };
        self.start(ObjectOp::Put, key, request).wait()
    }

    /// What is known of an object; `None` when there is none.
    pub fn head(&self, key: &str) -> ObjectResult<Option<ObjectHead>> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        self.start(ObjectOp::Head, key, async move { store.head(&owned).await }).wait()
    }

    /// The same, if the answer comes within this time; `Timeout` otherwise.
    pub fn head_soon(&self, key: &str, wait: Duration) -> ObjectResult<Option<ObjectHead>> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        let request = async move {
            tokio::time::timeout(wait, store.head(&owned)).await.unwrap_or_else(|_| {
                let detail = format!("waited {} ms", wait.as_millis());
                Err(ObjectError::new(ObjectErrorKind::Timeout, ObjectOp::Head, &owned, &detail))
            })
        };
        self.start(ObjectOp::Head, key, request).wait()
    }

    /// Exactly these bytes of an object.
    pub fn get_range(&self, key: &str, range: Range<u64>) -> ObjectResult<Bytes> {
        self.fetch_range(key, range).wait()
    }

    /// Asks for bytes and does not wait for them.
    pub fn fetch_range(&self, key: &str, range: Range<u64>) -> Coming<Bytes> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        self.start(ObjectOp::Get, key, async move { store.get_range(&owned, range).await })
    }

    /// Asks for the last bytes of an object, and its length, and does not wait for them.
    pub fn fetch_suffix(&self, key: &str, len: u64) -> Coming<(Bytes, u64)> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        self.start(ObjectOp::Get, key, async move { store.get_suffix(&owned, len).await })
    }

    /// All objects whose keys start with `prefix`, in order.
    pub fn list(&self, prefix: &str) -> ObjectResult<Vec<ObjectEntry>> {
        let (store, owned) = (self.store.clone(), prefix.to_owned());
        self.start(ObjectOp::List, prefix, async move { store.list(&owned).await }).wait()
    }

    /// Removes an object; one that is not there is fine.
    pub fn delete(&self, key: &str) -> ObjectResult<()> {
        let (store, owned) = (self.store.clone(), key.to_owned());
        self.start(ObjectOp::Delete, key, async move { store.delete(&owned).await }).wait()
    }

    /// Aborts the unfinished uploads whose keys start with `prefix`; how many.
    pub fn abort_unfinished(&self, prefix: &str) -> ObjectResult<u64> {
        let (store, owned) = (self.store.clone(), prefix.to_owned());
        let request = async move { store.abort_unfinished(&owned).await };
        self.start(ObjectOp::MultipartAbort, prefix, request).wait()
    }

    /// Finds out what the endpoint can do.
    pub fn probe(&self) -> ObjectResult<Capabilities> {
        let store = self.store.clone();
        self.start(ObjectOp::Probe, "", async move { store.probe().await }).wait()
    }
}

fn runtime() -> Result<OwnRuntime> {
    OwnRuntime::start("aof2-cold", |runtime| runtime.worker_threads(WORKER_THREADS).enable_all())
        .map_err(AofError::io("start background threads", std::path::Path::new("")))
}
