//! Ending what was going to be done: by whoever did it, or at the start after a crash.
//!
//! | intent | at the start |
//! |---|---|
//! | upload | done if the object is there with this length and checksum; otherwise aborted, and the next try has another epoch |
//! | delete | deleted again, which is the same as once; then done, also if its row is gone |
//! | compaction | aborted: nothing was replaced before it was done |
//! | evict, promote | done: each node does it for itself |

use super::engine::Request;
use super::open::Catalog;
use super::records::{IntentRecord, IntentSegment, NamespaceRecord};
use super::state::refused;
use crate::error::{AofError, Result};
use crate::format::operation::{
    ObjectName, OperationBody as Body, OperationId, Phase, SegmentRef, Variant,
};
use crate::format::{SegmentId, StreamId};
use crate::object::{BlockingStore, ColdUrl};

/// What reaches the buckets that intents are about.
pub trait IntentHost {
    /// Whether the object is there and has this length and checksum.
    fn holds(&self, namespace: &NamespaceRecord, key: &str, bytes: u64, crc64: u64)
    -> Result<bool>;
    /// Deletes an object; one that is not there is deleted.
    fn delete(&self, namespace: &NamespaceRecord, key: &str) -> Result<()>;
}

/// The bucket that all namespaces are in.
impl IntentHost for BlockingStore {
    fn holds(
        &self,
        namespace: &NamespaceRecord,
        key: &str,
        bytes: u64,
        crc64: u64,
    ) -> Result<bool> {
        let head = self.head(&whole_key(namespace, key)?)?;
        Ok(head.is_some_and(|head| head.holds(bytes, crc64)))
    }

    fn delete(&self, namespace: &NamespaceRecord, key: &str) -> Result<()> {
        Ok(Self::delete(self, &whole_key(namespace, key)?)?)
    }
}

fn whole_key(namespace: &NamespaceRecord, key: &str) -> Result<String> {
    Ok(namespace.url.parse::<ColdUrl>()?.key(key))
}

/// How the intents that a crash left were ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledForward {
    /// What had been done, or was done now.
    pub done: Vec<OperationId>,
    /// What was given up.
    pub aborted: Vec<OperationId>,
    /// What could not be ended, and why. It stays open, and the next start tries it again.
    pub failed: Vec<(OperationId, String)>,
}

impl RolledForward {
    fn pass_over(&mut self, id: OperationId, error: &AofError) {
        tracing::warn!(%error, %id, "an intent of the catalog could not be ended");
        self.failed.push((id, error.to_string()));
    }
}

impl Catalog {
    /// Ends an intent: with `Done`, `Failed` or `Aborted`.
    pub fn end_intent(&self, intent: OperationId, phase: Phase) -> Result<super::Guard<()>> {
        let open = self.view()?.open_intents()?;
        let found = open.into_iter().find(|(id, _)| *id == intent);
        let (id, row) = found.ok_or_else(|| refused(format!("intent {intent} is not open")))?;
        self.submit(vec![outcome(id, &row, phase)?])
    }

    /// Ends every intent that has no outcome. For the start, before anybody begins new ones.
    /// One that cannot be ended is in the result and stops nothing; an error is one of the
    /// catalog itself.
    pub fn roll_forward(&self, host: &dyn IntentHost) -> Result<RolledForward> {
        let view = self.view()?;
        let mut report = RolledForward::default();
        for (id, intent) in view.open_intents()? {
            let namespace = view.namespace(intent.namespace_id)?;
            let judged = judge(host, &intent, namespace.as_ref())
                .and_then(|phase| Ok((phase, outcome(id, &intent, phase)?)));
            let (phase, request) = match judged {
                Ok(judged) => judged,
                Err(error) => {
                    report.pass_over(id, &error);
                    continue;
                }
            };
            match self.submit(vec![request])?.wait() {
                Ok(_) if phase == Phase::Done => report.done.push(id),
                Ok(_) => report.aborted.push(id),
                Err(error @ (AofError::Closed | AofError::Poisoned { .. } | AofError::Forked)) => {
                    return Err(error);
                }
                Err(error) => report.pass_over(id, &error),
            }
        }
        Ok(report)
    }
}

fn judge(
    host: &dyn IntentHost,
    intent: &IntentRecord,
    namespace: Option<&NamespaceRecord>,
) -> Result<Phase> {
    let body = body_of(intent)?;
    let segment = intent.segments.first();
    match (body, namespace, segment) {
        (Body::UploadToTier2 { key, .. }, Some(namespace), Some(segment)) => {
            match host.holds(namespace, &key, segment.bytes, segment.crc64)? {
                true => Ok(Phase::Done),
                false => Ok(Phase::Aborted),
            }
        }
        (Body::DeleteFromTier2 { key, .. }, Some(namespace), _) => {
            host.delete(namespace, &key)?;
            Ok(Phase::Done)
        }
        (Body::EvictToTier1 { .. } | Body::PromoteToTier0 { .. }, ..) => Ok(Phase::Done),
        _ => Ok(Phase::Aborted),
    }
}

/// What an intent was to do.
fn body_of(intent: &IntentRecord) -> Result<Body> {
    let db_id = intent.db_id;
    let nothing = ObjectName { origin_db: 0, chunk_id: 0, variant: Variant::BASE, generation: 0 };
    let object = intent.object.unwrap_or(nothing);
    let (namespace_id, key) = (intent.namespace_id, intent.key.clone());
    Ok(match intent.operation_type {
        1 => Body::EvictToTier1 { db_id },
        2 => Body::PromoteToTier0 { db_id },
        3 => Body::UploadToTier2 { db_id, namespace_id, object, key },
        4 => Body::DeleteFromTier2 { db_id, namespace_id, object, key },
        5 => Body::CompactRange { db_id, outputs: segments(&intent.outputs) },
        other => return Err(refused(format!("an intent of type {other} is not known"))),
    })
}

fn segments(rows: &[IntentSegment]) -> Vec<SegmentRef> {
    let segment = |row: &IntentSegment| SegmentRef {
        segment_id: SegmentId::from_u64(row.segment_id),
        crc64: row.crc64,
        bytes: row.bytes,
        epoch: row.epoch,
    };
    rows.iter().map(segment).collect()
}

pub(super) fn outcome(id: OperationId, intent: &IntentRecord, phase: Phase) -> Result<Request> {
    if !IntentRecord::OUTCOMES.contains(&phase) {
        return Err(refused("an intent ends as done, failed or aborted"));
    }
    Ok(Request {
        phase,
        intent: Some(id),
        stream_id: StreamId::from_random(intent.stream_id),
        segments: segments(&intent.segments),
        body: body_of(intent)?,
    })
}
