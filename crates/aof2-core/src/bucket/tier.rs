//! One bucket and prefix, and what the tiers ask of it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::object::ArchivedObject;
use super::source::ColdSource;
use crate::error::{AofError, Result};
use crate::format::{
    ARTIFACT_TAIL_LEN_MAX, ArtifactIndex, ArtifactMetadata, ColdKey, ColdLocation, ColdTailName,
    SegmentId, StreamId, StreamIdentity,
};
use crate::io::{Clock, SystemClock};
use crate::object::{
    BlockingStore, Capabilities, ColdConfig, ColdUrl, ObjectBody, ObjectErrorKind, ObjectHead,
    ObjectMeta, ObjectMetrics, ObjectResult, ObjectStore, Outage, PutOutcome,
};
use crate::segment::ArtifactSource;

/// Read from the end of an object at first: the index of a segment of 450 MiB.
const TAIL_GUESS_LEN: u64 = 64 << 10;
/// Tails that are fetched at the same time.
const TAILS_IN_FLIGHT: usize = 16;
/// Object beside the segments of a stream: its identity file.
const IDENTITY_NAME: &str = "stream";

/// A bucket and a prefix.
#[derive(Debug)]
pub(crate) struct ColdTier {
    pub(super) store: BlockingStore,
    config: ColdConfig,
    url: ColdUrl,
    /// Whether nothing else ever writes below the prefix.
    is_exclusive: bool,
    probed: Mutex<Option<Capabilities>>,
}

/// An object that holds a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) key: String,
    pub(crate) etag: String,
    pub(crate) epoch: u32,
}

impl ColdTier {
    /// The bucket that a configuration names, the environment's overrides included.
    pub(crate) fn open(config: &ColdConfig) -> Result<Arc<Self>> {
        Self::open_with(config, Arc::new(SystemClock))
    }

    /// The same with the clock of its user.
    pub(crate) fn open_with(config: &ColdConfig, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let config = config.clone().with_env()?;
        let store = BlockingStore::open(config.clone(), clock)?;
        Self::assemble(store, config)
    }

    /// Any store.
    pub(crate) fn on(store: Arc<dyn ObjectStore>, config: &ColdConfig) -> Result<Arc<Self>> {
        Self::on_with(store, config, Arc::new(SystemClock))
    }

    /// The same with the clock of its user.
    pub(crate) fn on_with(
        store: Arc<dyn ObjectStore>,
        config: &ColdConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        Self::assemble(BlockingStore::new(store, config, clock)?, config.clone())
    }

    fn assemble(store: BlockingStore, config: ColdConfig) -> Result<Arc<Self>> {
        let url = config.location()?;
        ColdKey::check_prefix(&url.prefix).map_err(|error| AofError::InvalidConfig {
            field: "cold",
            reason: error.to_string(),
        })?;
        let is_exclusive = config.exclusive;
        Ok(Arc::new(Self { store, config, url, is_exclusive, probed: Mutex::default() }))
    }

    pub(crate) fn url(&self) -> &ColdUrl {
        &self.url
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// Where it is, for whoever opens the log later.
    pub(crate) fn location(&self) -> ColdLocation {
        ColdLocation {
            url: self.url.to_string(),
            endpoint: self.config.endpoint.clone(),
            region: self.config.region.clone(),
            path_style: self.config.path_style,
            sse: self.config.sse.to_string(),
        }
    }

    /// What was asked of the store so far.
    pub(crate) fn metrics(&self) -> ObjectMetrics {
        self.store.metrics()
    }

    /// The outage, while the store is known not to answer.
    pub(crate) fn outage(&self) -> Option<Outage> {
        self.store.outage()
    }

    /// Asks a store that does not answer whether it is back, if that is due.
    pub(crate) fn ask_if_due(&self) {
        self.store.ask_if_due();
    }

    /// How often that is.
    pub(crate) fn probe_ms(&self) -> u64 {
        self.config.probe_ms
    }

    /// Finds out what the endpoint can do, once.
    pub(crate) fn probe(&self) -> ObjectResult<Capabilities> {
        let mut probed = self.probed.lock();
        if let Some(known) = *probed {
            return Ok(known);
        }
        let found = self.store.probe()?;
        tracing::info!(url = %self.url, ?found, "the cold tier's endpoint was probed");
        *probed = Some(found);
        Ok(found)
    }

    /// What the endpoint can do, once it was asked.
    pub(crate) fn capabilities(&self) -> Option<Capabilities> {
        *self.probed.lock()
    }

    /// The key of a segment's object.
    pub(crate) fn key(&self, stream_id: StreamId, segment_id: SegmentId, epoch: u32) -> String {
        // The prefix was checked when the tier was opened.
        ColdKey::new(&self.url.prefix, stream_id, segment_id, epoch)
            .map_or_else(|_| String::new(), |key| key.to_string())
    }

    /// What the keys of a stream's objects start with.
    pub(crate) fn stream_prefix(&self, stream_id: StreamId) -> String {
        ColdKey::stream_prefix(&self.url.prefix, stream_id).unwrap_or_default()
    }

    /// The bytes of an object, asked for when they are read.
    pub(crate) fn source(
        self: &Arc<Self>,
        index: &ArtifactIndex,
        epoch: u32,
    ) -> Arc<dyn ArtifactSource> {
        let summary = &index.summary;
        let key = self.key(summary.stream_id, summary.segment_id, epoch);
        Arc::new(ColdSource::new(Arc::clone(self), key, index.artifact_len()))
    }

    /// Uploads an artifact. The bytes are there once this returns, however often it was
    /// tried; `Exists` when other bytes stand under the key.
    pub(crate) fn upload(
        &self,
        index: &ArtifactIndex,
        body: ObjectBody,
        crc64nvme: u64,
        epoch: u32,
    ) -> ObjectResult<StoredObject> {
        let summary = &index.summary;
        let key = self.key(summary.stream_id, summary.segment_id, epoch);
        let mut user = self.config.metadata.clone();
        user.extend(ArtifactMetadata::from(summary).encode());
        let put = self.store.put_new(&key, body, ObjectMeta { crc64nvme, user })?;
        Ok(StoredObject { key, etag: put.etag, epoch })
    }

    /// What the store says of an object; `None` when there is none.
    pub(crate) fn head(&self, key: &str) -> ObjectResult<Option<ObjectHead>> {
        self.store.head(key)
    }

    /// How long the object is; `None` when there is none.
    pub(crate) fn len_of(&self, key: &str) -> ObjectResult<Option<u64>> {
        Ok(self.store.head(key)?.map(|head| head.len))
    }

    /// The indexes of these objects, from one ranged read of each; an object that is
    /// gone, or not what its key says, gives an error of its own.
    pub(crate) fn indexes(
        &self,
        stream_id: StreamId,
        objects: &[ArchivedObject],
        mut done: impl FnMut(&ArchivedObject, Result<ArtifactIndex>) -> Result<()>,
    ) -> Result<()> {
        for group in objects.chunks(TAILS_IN_FLIGHT) {
            let coming: Vec<_> = group
                .iter()
                .map(|object| {
                    let key = self.key(stream_id, object.segment_id, object.epoch);
                    (object, self.store.fetch_suffix(&key, object.len.min(TAIL_GUESS_LEN)), key)
                })
                .collect();
            for (object, tail, key) in coming {
                let read = tail.wait().map_err(AofError::from);
                let index = read.and_then(|(tail, len)| self.decode(&key, tail.to_vec(), len));
                let index = index.and_then(|index| {
                    let summary = &index.summary;
                    match (summary.stream_id, summary.segment_id) == (stream_id, object.segment_id)
                    {
                        true => Ok(index),
                        false => Err(self.not_ours(&key, "it is of another segment")),
                    }
                });
                done(object, index)?;
            }
        }
        Ok(())
    }

    /// The index of one object.
    pub(crate) fn index_of(
        &self,
        stream_id: StreamId,
        segment_id: SegmentId,
        epoch: u32,
    ) -> Result<ArtifactIndex> {
        let key = self.key(stream_id, segment_id, epoch);
        let missing = || self.not_ours(&key, "it is missing");
        let len = self.len_of(&key)?.ok_or_else(missing)?;
        let mut found = Err(missing());
        self.indexes(stream_id, &[ArchivedObject { segment_id, epoch, len }], |_, index| {
            found = index;
            Ok(())
        })?;
        found
    }

    /// The index of the object that a kept end is of; `None` if it cannot be had.
    pub(crate) fn index_named(
        &self,
        stream_id: StreamId,
        name: &ColdTailName,
    ) -> Option<ArtifactIndex> {
        let found = self.index_of(stream_id, name.artifact.segment_id, name.epoch);
        found.inspect_err(|error| tracing::warn!(%error, "an index cannot be fetched")).ok()
    }

    fn decode(&self, key: &str, mut tail: Vec<u8>, len: u64) -> Result<ArtifactIndex> {
        let bad = |error: crate::format::FormatError| {
            self.not_ours(key, &format!("its index does not decode ({error})"))
        };
        let tail_len = ArtifactIndex::tail_len(&tail).map_err(bad)?;
        if tail_len > len.min(ARTIFACT_TAIL_LEN_MAX) {
            return Err(self.not_ours(key, "its index is longer than itself"));
        }
        if tail_len > tail.len() as u64 {
            tail = self.store.get_range(key, len - tail_len..len)?.to_vec();
        }
        ArtifactIndex::decode_tail(&tail, len).map_err(bad)
    }

    pub(super) fn not_ours(&self, key: &str, reason: &str) -> AofError {
        AofError::Foreign { path: self.name(key), reason: reason.to_owned() }
    }

    /// An object as messages name it.
    pub(super) fn name(&self, key: &str) -> std::path::PathBuf {
        format!("s3://{}/{key}", self.url.bucket).into()
    }

    /// Removes an object; one that is gone is fine.
    pub(crate) fn delete(&self, key: &str) -> ObjectResult<()> {
        self.store.delete(key)
    }

    /// Gives up what an earlier writer began to upload in parts.
    pub(crate) fn abort_unfinished(&self, stream_id: StreamId) -> ObjectResult<u64> {
        self.store.abort_unfinished(&self.stream_prefix(stream_id))
    }

    fn identity_key(&self, stream_id: StreamId) -> String {
        format!("{}{IDENTITY_NAME}", self.stream_prefix(stream_id))
    }

    /// The identity of a stream, if it was ever archived here.
    pub(crate) fn identity(&self, stream_id: StreamId) -> Result<Option<StreamIdentity>> {
        self.load_identity(&self.identity_key(stream_id))
    }

    /// Says whose objects these are.
    pub(super) fn store_identity(&self, identity: &StreamIdentity) -> Result<()> {
        let key = self.identity_key(identity.stream_id);
        if self.store.head(&key)?.is_some() {
            return Ok(());
        }
        match self.put_text(&key, identity.encode()) {
            Ok(_) => Ok(()),
            // Another machine that opens the same log was quicker.
            Err(error) if error.kind == ObjectErrorKind::Exists => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a small object; `Exists` when other bytes stand under the key.
    pub(super) fn put_text(&self, key: &str, bytes: Vec<u8>) -> ObjectResult<PutOutcome> {
        let crc64nvme = crate::format::crc64(&bytes);
        let meta = ObjectMeta { crc64nvme, user: self.config.metadata.clone() };
        self.store.put_new(key, bytes::Bytes::from(bytes).into(), meta)
    }

    /// The bytes of a small object; `None` if there is none.
    pub(super) fn load_text(&self, key: &str, len_max: usize) -> Result<Option<bytes::Bytes>> {
        let Some(head) = self.store.head(key)? else { return Ok(None) };
        if head.len == 0 || head.len > len_max as u64 {
            return Err(self.not_ours(key, &format!("it has {} bytes", head.len)));
        }
        match self.store.get_range(key, 0..head.len) {
            Ok(bytes) => Ok(Some(bytes)),
            // Removed in between.
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The streams that were archived below the prefix, by name.
    pub(crate) fn streams(&self) -> Result<Vec<StreamIdentity>> {
        let prefix = match self.url.prefix.is_empty() {
            true => String::new(),
            false => format!("{}/", self.url.prefix),
        };
        let ending = format!("/{IDENTITY_NAME}");
        let mut streams = Vec::new();
        for entry in self.store.list(&prefix)? {
            let rest = entry.key.strip_prefix(&prefix).and_then(|key| key.strip_suffix(&ending));
            let id =
                rest.filter(|id| id.len() == 16).and_then(|id| u64::from_str_radix(id, 16).ok());
            if let Some(id) = id {
                streams.extend(self.identity(StreamId::from_u64(id))?);
            }
        }
        streams.sort_by(|a: &StreamIdentity, b| a.name.cmp(&b.name));
        Ok(streams)
    }
}

/// The latest object of each segment, of objects in order.
pub(super) fn latest<'a>(
    objects: impl IntoIterator<Item = &'a ArchivedObject>,
) -> Vec<ArchivedObject> {
    let mut latest: Vec<ArchivedObject> = Vec::new();
    for object in objects {
        match latest.last_mut().filter(|last| last.segment_id == object.segment_id) {
            Some(last) => *last = object.clone(),
            None => latest.push(object.clone()),
        }
    }
    latest
}
