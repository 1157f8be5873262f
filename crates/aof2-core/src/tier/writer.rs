//! The right of this process to write a log that is archived: names, claims, fencing.
//!
//! With the bucket at hand a log is claimed while it is opened (`cold::claim`). A log that
//! is here already is also opened while the bucket is out of reach: nothing is uploaded or
//! deleted then until it was claimed ([`reconcile`](super::reconcile)).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::{SegmentId, StreamIdentity};
use crate::io::{Clock, Storage};
use crate::planted;
use crate::planted::TierBug;
use crate::store::{ANOTHER_PREFIX, Claim, ColdTier, RECOVER, claim, store_location};
use crate::store::{Admission, Layout};
use crate::write::{AofConfig, Stream};

/// What a stream knows of its right to write.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// Its claim, once it has one.
    claim: Mutex<Option<Claim>>,
    pub(super) lineage: Arc<AtomicU32>,
    /// The first segment of the log, as the bucket says.
    start: AtomicU64,
    /// Objects that nobody reads, by segment and epoch, as found when the log was claimed.
    leftovers: Mutex<BTreeSet<(SegmentId, u32)>>,
}

impl Writer {
    pub(super) fn hold(&self, claim: Claim) {
        self.lineage.store(claim.lineage, Ordering::Release);
        self.start.store(claim.view.start().as_u64(), Ordering::Release);
        let leftovers = claim.view.leftovers();
        *self.leftovers.lock() = leftovers.iter().map(|o| (o.segment_id, o.epoch)).collect();
        *self.claim.lock() = Some(claim);
    }

    pub(super) fn claim(&self) -> Option<Claim> {
        self.claim.lock().clone()
    }

    /// The epoch of the claim; `None` before there is one.
    pub(super) fn epoch(&self) -> Option<u32> {
        self.claim.lock().as_ref().map(|claim| claim.epoch)
    }

    /// The same where nothing may be done without one.
    pub(super) fn claimed_epoch(&self) -> Result<u32> {
        self.epoch().ok_or(AofError::Timeout { what: "the claim of the log" })
    }

    /// Whether nobody reads this object, whatever becomes of its segment.
    pub(super) fn is_leftover(&self, segment_id: SegmentId, epoch: u32) -> bool {
        self.leftovers.lock().contains(&(segment_id, epoch))
    }

    pub(super) fn start(&self) -> SegmentId {
        SegmentId::from_u64(self.start.load(Ordering::Acquire))
    }

    pub(super) fn set_start(&self, start: SegmentId) {
        self.start.fetch_max(start.as_u64(), Ordering::AcqRel);
    }
}

impl StreamTiers {
    /// Whether this directory may become, or go on as, the log that was asked for. Changes
    /// nothing anywhere.
    pub(super) fn admit_log(
        &self,
        local: Option<StreamIdentity>,
        config: &AofConfig,
    ) -> Result<Admission> {
        let Some(cold) = self.coordinator.cold() else { return Ok(Admission::Local) };
        let Some(local) = local else {
            let name = config.stream_name();
            return match cold.name_holder(&name)? {
                None => Ok(Admission::New),
                Some(holder) if config.recover || planted::in_tier(TierBug::AdoptUnasked) => {
                    Ok(Admission::Returning(holder))
                }
                Some(holder) => Err(taken(cold, name, &holder, RECOVER)),
            };
        };
        let name = local.name.clone();
        let asked = cold.reach(&name).and_then(|()| cold.name_holder(&name));
        match asked {
            Ok(Some(holder)) if holder.stream_id != local.stream_id => {
                Err(taken(cold, name, &holder, ANOTHER_PREFIX))
            }
            Ok(_) => Ok(Admission::Known(local)),
            Err(AofError::Cold(error)) => {
                tracing::warn!(%error, stream = name, "opened without the object store");
                Ok(Admission::Unreached)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes this process the writer of an admitted log, if the object store can be asked.
    pub(super) fn claim_log(
        &self,
        storage: &Arc<dyn Storage>,
        clock: &dyn Clock,
        layout: &Layout,
        admission: &Admission,
    ) -> Result<()> {
        let identity = match admission {
            Admission::Local | Admission::New => return Ok(()),
            Admission::Unreached => return self.remember_place(&**storage, layout),
            Admission::Known(identity) | Admission::Returning(identity) => identity,
        };
        let claimed = self.claim_now(storage, clock, layout, identity);
        match (claimed, admission) {
            (Err(AofError::Cold(error)), Admission::Known(_)) => {
                tracing::warn!(%error, stream = identity.name, "to be claimed later");
                Ok(())
            }
            (claimed, _) => claimed,
        }
    }

    /// Whoever opens the log later finds its bucket.
    fn remember_place(&self, storage: &dyn Storage, layout: &Layout) -> Result<()> {
        match self.coordinator.cold() {
            Some(cold) => store_location(storage, layout, &cold.location()),
            None => Ok(()),
        }
    }

    pub(super) fn claim_now(
        &self,
        storage: &Arc<dyn Storage>,
        clock: &dyn Clock,
        layout: &Layout,
        identity: &StreamIdentity,
    ) -> Result<()> {
        let Some(cold) = self.coordinator.cold() else { return Ok(()) };
        self.writer.hold(claim(cold, storage, clock, layout, identity, self)?);
        Ok(())
    }

    /// Looks for a later claim. If there is one, this writer is fenced: it does nothing
    /// more, and everybody who waits for it is told.
    pub(super) fn check_claim(&self, cold: &ColdTier, stream: &Stream) -> Result<()> {
        let epoch = self.writer.claimed_epoch()?;
        let Some(writer) = cold.later_claim(stream.identity.stream_id, epoch)? else {
            return Ok(());
        };
        let error = AofError::Fenced { path: stream.layout.root().to_owned(), writer };
        stream.fence(&error);
        Err(error)
    }
}

fn taken(cold: &ColdTier, name: String, holder: &StreamIdentity, remedy: &'static str) -> AofError {
    AofError::NameTaken { name, url: cold.url().to_string(), holder: holder.stream_id, remedy }
}
