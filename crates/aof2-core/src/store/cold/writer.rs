//! The right of this process to write a log that is archived: names, claims, fencing.
//!
//! With the bucket at hand a log is claimed while it is opened (`cold::claim`). A log that
//! is here already is also opened while the bucket is out of reach: nothing is uploaded or
//! deleted then until it was claimed ([`reconcile`](super::reconcile)).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::place::store_location;
use super::recover::claim;
use super::store::ColdStore;
use crate::bucket::Claim;
use crate::bucket::ColdTier;
use crate::bucket::{ANOTHER_PREFIX, RECOVER};
use crate::error::{AofError, Result};
use crate::format::{LastClaim, SegmentId, StreamIdentity};
use crate::io::{Clock, Storage};
use crate::planted::{self, TierBug};
use crate::store::Store;
use crate::store::layout::Layout;

/// Why a log without a cold tier is not opened to be recovered: there is nothing that it
/// could be recovered from, and a new log must not look like one that came back.
const NEEDS_COLD: &str = "needs a cold tier: a manager with TierConfig::cold";

/// How a log may be opened for writing.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    /// Nothing but its directory is asked.
    Local,
    /// There is no such log yet, here or elsewhere.
    New,
    /// The log that is here.
    Known(StreamIdentity),
    /// The log that is here; whether others write it cannot be asked now, and why not.
    Unreached(AofError),
    /// A log that the object store holds comes back to an empty directory.
    Returning(StreamIdentity),
}

/// What a stream knows of its right to write.
#[derive(Debug, Default)]
pub(crate) struct Writer {
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

    pub(crate) fn claim(&self) -> Option<Claim> {
        self.claim.lock().clone()
    }

    /// The epoch of the claim; `None` before there is one.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.claim.lock().as_ref().map(|claim| claim.epoch)
    }

    /// The same where nothing may be done without one.
    pub(super) fn claimed_epoch(&self) -> Result<u32> {
        self.epoch().ok_or(AofError::Timeout { what: "the claim of the log" })
    }

    /// Whether nobody reads this object, whatever becomes of its segment.
    pub(crate) fn is_leftover(&self, segment_id: SegmentId, epoch: u32) -> bool {
        self.leftovers.lock().contains(&(segment_id, epoch))
    }

    pub(crate) fn start(&self) -> SegmentId {
        SegmentId::from_u64(self.start.load(Ordering::Acquire))
    }

    pub(super) fn set_start(&self, start: SegmentId) {
        self.start.fetch_max(start.as_u64(), Ordering::AcqRel);
    }
}

impl ColdStore {
    /// Whether this directory may become, or go on as, the log called `name`. `local` is the
    /// log that is here; `recover` says that a log that only the bucket holds may come back.
    /// Changes nothing anywhere.
    pub(crate) fn admit(
        &self,
        local: Option<StreamIdentity>,
        name: String,
        recover: bool,
    ) -> Result<Admission> {
        let Some(cold) = self.tier() else {
            return match recover {
                true => {
                    Err(AofError::InvalidConfig { field: "recover", reason: NEEDS_COLD.into() })
                }
                false => Ok(Admission::Local),
            };
        };
        let Some(local) = local else {
            return match cold.name_holder(&name)? {
                None => Ok(Admission::New),
                Some(holder) if recover || planted::in_tier(TierBug::AdoptUnasked) => {
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
                Ok(Admission::Unreached(AofError::Cold(error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes this process the writer of an admitted log, if the object store can be asked,
    /// and brings back what is only known there. Called before anything of the log is read,
    /// with the writer's lock held.
    pub(crate) fn claim_admitted(
        &self,
        storage: &Arc<dyn Storage>,
        clock: &dyn Clock,
        layout: &Layout,
        admission: &Admission,
    ) -> Result<()> {
        let identity = match admission {
            Admission::Local | Admission::New => return Ok(()),
            Admission::Unreached(error) => {
                check_claimed_whole(&**storage, layout, error)?;
                return self.remember_place(&**storage, layout);
            }
            Admission::Known(identity) | Admission::Returning(identity) => identity,
        };
        let claimed = self.claim(storage, clock, layout, identity);
        match (claimed, admission) {
            (Err(AofError::Cold(error)), Admission::Known(_)) => {
                check_claimed_whole(&**storage, layout, &AofError::Cold(error.clone()))?;
                tracing::warn!(%error, stream = identity.name, "to be claimed later");
                Ok(())
            }
            (claimed, _) => claimed,
        }
    }

    /// Whoever opens the log later finds its bucket.
    fn remember_place(&self, storage: &dyn Storage, layout: &Layout) -> Result<()> {
        match self.tier() {
            Some(cold) => store_location(storage, layout, &cold.location()),
            None => Ok(()),
        }
    }

    /// Makes this process the writer of a log that has its identity.
    pub(crate) fn claim(
        &self,
        storage: &Arc<dyn Storage>,
        clock: &dyn Clock,
        layout: &Layout,
        identity: &StreamIdentity,
    ) -> Result<()> {
        let Some(cold) = self.tier() else { return Ok(()) };
        self.writer.hold(claim(cold, storage, clock, layout, identity, self)?);
        Ok(())
    }
}

impl Store {
    /// Looks for a later claim. If there is one, this writer is fenced: it does nothing
    /// more, and everybody who waits for it is told.
    pub(crate) fn check_claim(&self, cold: &ColdTier) -> Result<()> {
        let epoch = self.cold().writer.claimed_epoch()?;
        let Some(writer) = cold.later_claim(self.stream_id(), epoch)? else {
            return Ok(());
        };
        let error = AofError::Fenced { path: self.layout().root().to_owned(), writer };
        self.fence(&error);
        Err(error)
    }
}

/// A directory that was cut behind another writer, and has not all of what follows, is opened
/// only with the bucket: otherwise records would seem to be lost that are there.
fn check_claimed_whole(storage: &dyn Storage, layout: &Layout, outage: &AofError) -> Result<()> {
    match layout.load_last_claim(storage)? {
        Some(last) if last.epoch == LastClaim::UNDER_WAY => Err(outage.clone()),
        _ => Ok(()),
    }
}

fn taken(cold: &ColdTier, name: String, holder: &StreamIdentity, remedy: &'static str) -> AofError {
    AofError::NameTaken { name, url: cold.url().to_string(), holder: holder.stream_id, remedy }
}
