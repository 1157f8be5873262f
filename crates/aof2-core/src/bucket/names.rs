//! Which log has a name below a prefix.
//!
//! A log is its id; the name is a label that is given once. `names/{name}` holds the
//! identity of the log that has it, is created conditionally and never changed. Before
//! there were such objects the id of a log followed from its name: such a log still has
//! its name.

use std::time::Duration;

use super::tier::ColdTier;
use crate::error::{AofError, Result};
use crate::format::{STREAM_IDENTITY_LEN_MAX, StreamId, StreamIdentity, name_key};
use crate::object::ObjectErrorKind;

/// How long a log that is here waits for its bucket to answer when it is opened.
const REACH_WAIT: Duration = Duration::from_secs(3);

/// What a directory that holds another log can do: it keeps the name it was created with.
pub(crate) const ANOTHER_PREFIX: &str = "archive this one below another prefix (cold=)";
/// What a directory that holds no log can do.
pub(crate) const RECOVER: &str = "bring that log back with recover=True or with aof2 restore, \
     or use another name or prefix (name=, cold=)";

impl ColdTier {
    fn key_of_name(&self, name: &str) -> String {
        self.url().key(&name_key(name))
    }

    /// Whether the store answers soon. For whoever can go on without it.
    pub(crate) fn reach(&self, name: &str) -> Result<()> {
        self.store.head_soon(&self.key_of_name(name), REACH_WAIT)?;
        Ok(())
    }

    /// The log that has a name; `None` while it is free.
    pub(crate) fn name_holder(&self, name: &str) -> Result<Option<StreamIdentity>> {
        if let Some(holder) = self.load_identity(&self.key_of_name(name))? {
            return Ok(Some(holder));
        }
        self.legacy_holder(name)
    }

    /// The log that had a name before names were kept.
    fn legacy_holder(&self, name: &str) -> Result<Option<StreamIdentity>> {
        let legacy = self.identity(StreamId::legacy_of_name(name))?;
        Ok(legacy.filter(|identity| identity.name == name))
    }

    /// Gives the log its name, unless another one has it.
    pub(crate) fn take_name(&self, identity: &StreamIdentity) -> Result<()> {
        let refused = |holder: StreamId| AofError::NameTaken {
            name: identity.name.clone(),
            url: self.url().to_string(),
            holder,
            remedy: ANOTHER_PREFIX,
        };
        let key = self.key_of_name(&identity.name);
        let ours = identity.stream_id;
        match self.load_identity(&key)?.map(|holder| holder.stream_id) {
            Some(holder) if holder == ours => return Ok(()),
            Some(holder) => return Err(refused(holder)),
            None => {}
        }
        let other = self.legacy_holder(&identity.name)?.map(|holder| holder.stream_id);
        if let Some(other) = other.filter(|other| *other != ours) {
            return Err(refused(other));
        }
        match self.put_text(&key, identity.encode()) {
            Ok(_) => Ok(()),
            Err(error) if error.kind == ObjectErrorKind::Exists => {
                match self.load_identity(&key)? {
                    // An identity file that was lost is made again with another date.
                    Some(holder) if holder.stream_id == identity.stream_id => Ok(()),
                    Some(holder) => Err(refused(holder.stream_id)),
                    None => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The identity that stands under a key; `None` if nothing does.
    pub(super) fn load_identity(&self, key: &str) -> Result<Option<StreamIdentity>> {
        let Some(bytes) = self.load_text(key, STREAM_IDENTITY_LEN_MAX)? else { return Ok(None) };
        let identity = StreamIdentity::decode(&bytes).map_err(|error| {
            self.not_ours(key, &format!("it is not the identity of a stream ({error})"))
        })?;
        Ok(Some(identity))
    }
}
