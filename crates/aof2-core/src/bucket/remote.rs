//! One stream of a bucket, found by its address.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::object::ArchivedObject;
use super::source::ColdSource;
use super::tier::ColdTier;
use crate::error::{AofError, Result};
use crate::format::{SegmentId, StreamId, StreamIdentity};
use crate::object::ColdUrl;
use crate::segment::{Artifact, ArtifactSource};

/// The archived segments of one stream.
pub(crate) trait Archive: Send + Sync + Debug {
    /// Where the stream is: opens it again.
    fn url(&self) -> &Path;

    /// What is there, oldest first: the latest object of each segment.
    fn list(&self) -> Result<Vec<ArchivedObject>>;

    /// Reads the end of these objects, and says of each in turn what it is.
    fn open(
        &self,
        wanted: &[ArchivedObject],
        done: &mut dyn FnMut(&ArchivedObject, Result<Artifact>) -> Result<()>,
    ) -> Result<()>;

    /// The bytes of an object, whatever they are.
    fn source(&self, object: &ArchivedObject) -> Arc<dyn ArtifactSource>;

    /// An object as messages name it.
    fn name(&self, object: &ArchivedObject) -> std::path::PathBuf;

    /// The object of a segment that is missing, whichever upload it was.
    fn name_of_missing(&self, segment_id: SegmentId) -> std::path::PathBuf;
}

/// Streams that are named when one is missing.
const NAMED_MAX: usize = 10;

/// The prefix and the name in the address of a stream, `s3://bucket/prefix/NAME`.
pub(crate) fn split_url(url: &str) -> Result<(String, String)> {
    let whole: ColdUrl = url.parse().map_err(|error| match error {
        AofError::InvalidConfig { reason, .. } => AofError::InvalidConfig { field: "url", reason },
        error => error,
    })?;
    let (prefix, name) = match whole.prefix.rsplit_once('/') {
        Some((prefix, name)) => (prefix, name),
        None => ("", whole.prefix.as_str()),
    };
    if name.is_empty() {
        let reason = "must look like s3://bucket/prefix/NAME, with the name of a stream";
        return Err(AofError::InvalidConfig { field: "url", reason: reason.into() });
    }
    let (bucket, prefix) = (whole.bucket, prefix.to_owned());
    Ok((ColdUrl { bucket, prefix }.to_string(), name.to_owned()))
}

/// A stream that the bucket holds, and what of it.
#[derive(Debug)]
pub(crate) struct FoundStream {
    pub(crate) archive: Arc<StreamArchive>,
    /// As its object says; `None` if that was not needed to find it, or is missing.
    pub(crate) identity: Option<StreamIdentity>,
    pub(crate) listed: Vec<ArchivedObject>,
}

impl FoundStream {
    /// Finds a stream by its name, or by its id as keys have it.
    pub(crate) fn find(tier: &Arc<ColdTier>, name: &str) -> Result<Self> {
        if let Some(holder) = tier.name_holder(name)? {
            let found = Self::of_id(tier, holder.stream_id, name)?;
            return Ok(Self { identity: Some(holder), ..found });
        }
        // What was archived before names were kept, and lost its identity since.
        let legacy = Self::of_id(tier, StreamId::legacy_of_name(name), name)?;
        if !legacy.listed.is_empty() {
            return Ok(legacy);
        }
        let is_id = name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit());
        let id = u64::from_str_radix(name, 16).ok().filter(|_| is_id).map(StreamId::from_u64);
        if let Some(id) = id {
            let mut found = Self::of_id(tier, id, name)?;
            found.identity = tier.identity(id)?;
            if found.identity.is_some() || !found.listed.is_empty() {
                return Ok(found);
            }
        }
        Err(missing(tier, name))
    }

    fn of_id(tier: &Arc<ColdTier>, stream_id: StreamId, name: &str) -> Result<Self> {
        let url = PathBuf::from(format!("{}/{name}", tier.url()));
        let archive = Arc::new(StreamArchive { tier: Arc::clone(tier), stream_id, url });
        let listed = archive.list()?;
        Ok(Self { archive, identity: None, listed })
    }

    /// Its identity; as far as that was not asked for, what the address says.
    pub(crate) fn identity_or_derived(&self) -> StreamIdentity {
        self.identity.clone().unwrap_or_else(|| StreamIdentity {
            stream_id: self.archive.stream_id,
            name: self.archive.url.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            format: crate::format::SegmentFormat::Full,
            created_at_ns: 0,
            lineage: None,
        })
    }
}

fn missing(tier: &ColdTier, name: &str) -> AofError {
    let streams = match tier.streams() {
        Ok(streams) => streams,
        Err(error) => return error,
    };
    let named: Vec<String> =
        streams.iter().take(NAMED_MAX).map(|stream| format!("{:?}", stream.name)).collect();
    let more = match streams.len().saturating_sub(named.len()) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let url = tier.url();
    let reason = match named.is_empty() {
        true => format!("no stream was archived below {url}"),
        false => format!("below {url} there is {}{more}", named.join(", ")),
    };
    AofError::NotALog { path: format!("{url}/{name}").into(), reason }
}

/// The objects of one stream.
#[derive(Debug)]
pub(crate) struct StreamArchive {
    tier: Arc<ColdTier>,
    pub(crate) stream_id: StreamId,
    url: PathBuf,
}

impl Archive for StreamArchive {
    fn url(&self) -> &Path {
        &self.url
    }

    fn list(&self) -> Result<Vec<ArchivedObject>> {
        Ok(self.tier.view(self.stream_id)?.standing())
    }

    fn open(
        &self,
        wanted: &[ArchivedObject],
        done: &mut dyn FnMut(&ArchivedObject, Result<Artifact>) -> Result<()>,
    ) -> Result<()> {
        self.tier.indexes(self.stream_id, wanted, |object, index| {
            let artifact = index.map(|index| {
                let source = self.tier.source(&index, object.epoch);
                Artifact::with_index(source, index)
            });
            done(object, artifact)
        })
    }

    fn source(&self, object: &ArchivedObject) -> Arc<dyn ArtifactSource> {
        let key = self.tier.key(self.stream_id, object.segment_id, object.epoch);
        Arc::new(ColdSource::new(Arc::clone(&self.tier), key, object.len))
    }

    fn name_of_missing(&self, segment_id: SegmentId) -> PathBuf {
        let prefix = self.tier.stream_prefix(self.stream_id);
        self.tier.name(&format!("{prefix}{:020}-*.zst", segment_id.as_u64()))
    }

    fn name(&self, object: &ArchivedObject) -> PathBuf {
        self.tier.name(&self.tier.key(self.stream_id, object.segment_id, object.epoch))
    }
}
