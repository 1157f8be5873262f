//! A bucket behind an endpoint.

use std::fmt;
use std::ops::Range;

use arc_swap::ArcSwap;
use aws_sdk_s3::Client;
use bytes::Bytes;
use std::sync::Arc;

use super::client::client;
use super::encrypt::Encryption;
use crate::error::Result;
use crate::object::body::ObjectBody;
use crate::object::config::ColdConfig;
use crate::object::secret::ColdSecrets;
use crate::object::store::{
    Capabilities, ListPage, ObjectFuture, ObjectHead, ObjectMeta, ObjectStore, Part, PutOutcome,
    UnfinishedUpload,
};

/// A bucket of S3 or of a store that speaks like it.
///
/// Opening sends no request to the store; [`ObjectStore::probe`] finds out what it
/// can do, and until then it is taken for S3 itself.
pub struct S3Store {
    pub(super) client: Client,
    pub(super) config: ColdConfig,
    pub(super) bucket: String,
    /// Where probes write.
    pub(super) prefix: String,
    pub(super) encryption: Encryption,
    pub(super) capabilities: ArcSwap<Capabilities>,
}

impl S3Store {
    /// Opens a bucket with what the environment says (`AOF2_COLD_*`, then the
    /// standard chain).
    pub async fn open(config: ColdConfig) -> Result<Self> {
        Self::open_with(config.with_env()?, &ColdSecrets::from_env()).await
    }

    /// Opens a bucket with these secrets; what they leave open comes from the
    /// standard chain.
    pub async fn open_with(config: ColdConfig, secrets: &ColdSecrets) -> Result<Self> {
        config.validate()?;
        let location = config.location()?;
        Ok(Self {
            client: client(&config, secrets).await?,
            encryption: Encryption::new(&config, secrets)?,
            bucket: location.bucket,
            prefix: location.prefix,
            capabilities: ArcSwap::from_pointee(Capabilities::FULL),
            config,
        })
    }

    /// The configuration in force, the environment's overrides included.
    pub fn config(&self) -> &ColdConfig {
        &self.config
    }

    /// On plain HTTP the signature covers the body.
    pub(super) fn is_body_signed(&self) -> bool {
        self.config.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"))
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Store")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.config.endpoint)
            .field("capabilities", &**self.capabilities.load())
            .finish_non_exhaustive()
    }
}

impl ObjectStore for S3Store {
    fn put_new<'a>(
        &'a self,
        key: &'a str,
        body: ObjectBody,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        Box::pin(self.put(key, body, meta))
    }

    fn head<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, Option<ObjectHead>> {
        Box::pin(async move { Ok(self.head_object(key).await?.map(|(head, _)| head)) })
    }

    fn get_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> ObjectFuture<'a, Bytes> {
        Box::pin(self.get_bytes(key, range))
    }

    fn get_suffix<'a>(&'a self, key: &'a str, len: u64) -> ObjectFuture<'a, (Bytes, u64)> {
        Box::pin(self.get_last(key, len))
    }

    fn list_page<'a>(
        &'a self,
        prefix: &'a str,
        next: Option<&'a str>,
    ) -> ObjectFuture<'a, ListPage> {
        Box::pin(self.list_objects(prefix, next))
    }

    fn delete<'a>(&'a self, key: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(self.delete_object(key))
    }

    fn multipart_begin<'a>(
        &'a self,
        key: &'a str,
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, String> {
        Box::pin(self.begin(self.capabilities(), key, meta))
    }

    fn multipart_part<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        number: u32,
        body: ObjectBody,
    ) -> ObjectFuture<'a, Part> {
        Box::pin(self.part(self.capabilities(), key, upload_id, number, body))
    }

    fn multipart_finish<'a>(
        &'a self,
        key: &'a str,
        upload_id: &'a str,
        parts: &'a [Part],
        meta: &'a ObjectMeta,
    ) -> ObjectFuture<'a, PutOutcome> {
        Box::pin(self.finish(self.capabilities(), key, upload_id, parts, meta))
    }

    fn multipart_abort<'a>(&'a self, key: &'a str, upload_id: &'a str) -> ObjectFuture<'a, ()> {
        Box::pin(self.abort(key, upload_id))
    }

    fn multipart_list<'a>(&'a self, prefix: &'a str) -> ObjectFuture<'a, Vec<UnfinishedUpload>> {
        Box::pin(self.list_uploads(prefix))
    }

    fn probe(&self) -> ObjectFuture<'_, Capabilities> {
        Box::pin(async move {
            let found = self.probe_endpoint().await?;
            self.capabilities.store(Arc::new(found));
            Ok(found)
        })
    }

    fn capabilities(&self) -> Capabilities {
        **self.capabilities.load()
    }
}
