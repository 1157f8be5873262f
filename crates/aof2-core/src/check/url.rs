//! Checking every byte of a log in an object store, found by its address.

use std::sync::Arc;

use super::verify::Progress;
use super::verify::VerifyReport;
use super::verify::verify_archive;
use crate::bucket::Archive;
use crate::bucket::{ColdTier, FoundStream, split_url};
use crate::error::{AofError, Result};
use crate::object::{ColdConfig, ObjectStore};

/// [`verify`](crate::check::verify::verify) of a log in an object store, `s3://bucket/prefix/NAME`, with
/// nothing of it here. Every object is read as a whole. Credentials and endpoint are those
/// of this process.
///
/// Progress counts the bytes of objects. A store that cannot be reached is an error, and
/// says nothing about the log.
pub fn verify_url(url: &str, progress: Progress<'_>) -> Result<VerifyReport> {
    let (prefix, name) = split_url(url)?;
    run(&ColdTier::open(&ColdConfig::new(prefix))?, &name, progress)
}

/// [`verify_url`] of the stream with this name or id in any object store.
pub fn verify_bucket_on(
    store: Arc<dyn ObjectStore>,
    cold: &ColdConfig,
    name: &str,
    progress: Progress<'_>,
) -> Result<VerifyReport> {
    run(&ColdTier::on(store, cold)?, name, progress)
}

fn run(tier: &Arc<ColdTier>, name: &str, progress: Progress<'_>) -> Result<VerifyReport> {
    let found = FoundStream::find(tier, name)?;
    let derived = found.identity_or_derived();
    // Of two copies, beside the segments and under the name, the name's is known already.
    let (identity, flaw) = match tier.identity(derived.stream_id) {
        Ok(Some(stored)) if stored.stream_id == derived.stream_id => (stored, None),
        Ok(Some(stored)) => {
            (derived, Some(format!("its identity names another stream, {}", stored.stream_id)))
        }
        Ok(None) => (derived, Some("the object with its identity is missing".to_owned())),
        Err(AofError::Foreign { reason, .. }) => {
            (derived, Some(format!("the object with its identity is damaged: {reason}")))
        }
        Err(error) => return Err(error),
    };
    let archive: &dyn Archive = &*found.archive;
    verify_archive(archive, identity, flaw, &found.listed, progress)
}
