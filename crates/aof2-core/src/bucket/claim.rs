//! One writer, also across machines: claiming a log in the object store.
//!
//! ```text
//! look           who claimed it last; if that was not this directory, whether the two agree
//! claim          writer/{epoch} is created conditionally: the next number, ours alone
//! list           what the bucket holds from now on: whatever was reported as archived by
//!                an earlier writer was put, and looked after, before the claim
//! compare        what is not known here; what contradicts the directory is refused
//! .from          where this writer continues: later objects of earlier writers are void
//! look again     for a later claim; if there is one, all of this counts for nothing, and
//!                the next number is claimed
//! adopt          what is not known here
//! remove         what earlier writers left below writer/
//! ```
//!
//! Looking again makes sure that whoever ever puts an object had its `.from` in place
//! before any later claim. Without it a writer that was taken over between its claim and
//! its `.from` could put an object that hides one which the later writer counts on.
//!
//! A writer counts an object as archived only if, after it was put, no higher claim is
//! listed ([`ColdTier::later_claim`]). So an object is counted before a claim, and then
//! the claimant lists it, or never. No clock is involved.
//!
//! What a crash leaves: a claim without `.from`, which fences the writer before and voids
//! nothing. The next opening claims the next number; a number is never used again,
//! because the highest claim is never removed.

use super::object::ArchivedObject;
use super::tier::ColdTier;
use super::view::StreamView;
use crate::error::{AofError, Result};
use crate::format::{
    ArtifactIndex, LastClaim, SegmentId, StreamId, StreamIdentity, WRITER_CLAIM_LEN_MAX,
    WRITER_EPOCH_MAX, WriterClaim, WriterKey,
};
use crate::io::{Clock, Storage, host_name};
use crate::object::{ObjectErrorKind, ObjectResult};
use crate::planted;
use crate::planted::TierBug;

/// Others that may claim the log while we try.
const TRIES_MAX: u32 = 64;

/// What is known here of a log that is claimed.
pub(crate) trait Claimant {
    /// The claim that was made here last.
    fn last(&self) -> Result<Option<LastClaim>>;

    /// Remembers a claim.
    fn remember(&self, claim: LastClaim) -> Result<()>;

    /// Those of these objects whose index is not known here.
    fn unknown(&self, objects: Vec<ArchivedObject>, is_alone: bool) -> Result<Vec<ArchivedObject>>;

    /// Refuses an object that contradicts what is here.
    fn agree(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()>;

    /// Makes an object that agrees known here.
    fn adopt(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()>;

    /// Refuses what is here of segments before the start of the log, unless it was archived
    /// once: then another writer let it go, and it goes here, too, if asked to.
    fn cut(&self, start: SegmentId, goes: bool) -> Result<()>;

    /// An object that is not what its key says is left aside.
    fn refuse(&self, object: &ArchivedObject, error: AofError);
}

/// The right to write a log.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) epoch: u32,
    pub(crate) lineage: u32,
    /// What the bucket held just after.
    pub(crate) view: StreamView,
}

impl ColdTier {
    /// What the bucket holds of a stream.
    pub(crate) fn view(&self, stream_id: StreamId) -> ObjectResult<StreamView> {
        let prefix = self.stream_prefix(stream_id);
        Ok(StreamView::of(&prefix, &self.store.list(&prefix)?))
    }

    /// Who writes it: one small listing.
    fn claims(&self, stream_id: StreamId) -> ObjectResult<StreamView> {
        let prefix = self.stream_prefix(stream_id);
        let below = format!("{prefix}{}", WriterKey::directory());
        Ok(StreamView::of(&prefix, &self.store.list(&below)?))
    }

    /// The writer that claimed the stream after `epoch`, if there is one.
    pub(crate) fn later_claim(
        &self,
        stream_id: StreamId,
        epoch: u32,
    ) -> ObjectResult<Option<String>> {
        let later = self.claims(stream_id)?.last_claim().filter(|last| *last > epoch);
        Ok(later.map(|later| self.describe_claim(stream_id, later)))
    }

    /// A writer as messages name it.
    fn describe_claim(&self, stream_id: StreamId, epoch: u32) -> String {
        let key = self.control_key(stream_id, WriterKey::Claim { epoch });
        let bytes = self.load_text(&key, WRITER_CLAIM_LEN_MAX).ok().flatten();
        match bytes.and_then(|bytes| WriterClaim::decode(&bytes).ok()) {
            Some(WriterClaim { host, process, .. }) => {
                format!("process {process} on {host} (claim {epoch})")
            }
            None => format!("another writer (claim {epoch})"),
        }
    }

    fn control_key(&self, stream_id: StreamId, key: WriterKey) -> String {
        format!("{}{}", self.stream_prefix(stream_id), key.format())
    }

    /// Says that the log begins later than before. Whoever claims it from now on counts
    /// on nothing before that.
    pub(crate) fn publish_start(
        &self,
        stream_id: StreamId,
        epoch: u32,
        start: SegmentId,
    ) -> ObjectResult<()> {
        let key = self.control_key(stream_id, WriterKey::Start { epoch, start });
        self.put_text(&key, Vec::from(*b"start\n")).map(drop)
    }

    /// Removes what this writer and earlier ones said about the start before.
    pub(crate) fn remove_older_starts(
        &self,
        stream_id: StreamId,
        epoch: u32,
        start: SegmentId,
    ) -> ObjectResult<()> {
        let prefix = self.stream_prefix(stream_id);
        let below = format!("{prefix}{}", WriterKey::directory());
        for entry in self.store.list(&below)? {
            let key = entry.key.strip_prefix(&prefix).and_then(WriterKey::parse);
            let is_older = matches!(key, Some(WriterKey::Start { epoch: by, start: old })
                if by <= epoch && old < start);
            if is_older {
                self.store.delete(&entry.key)?;
            }
        }
        Ok(())
    }

    /// A store that replaces what it should refuse to create cannot be shared: two writers
    /// could both believe that a claim is theirs.
    pub(crate) fn check_claims_hold(&self) -> Result<()> {
        let found = self.probe()?;
        if found.conditional_create || self.is_exclusive() {
            return Ok(());
        }
        let reason = format!(
            "{} does not support conditional creation, so two writers of one log could both \
             succeed; set cold_exclusive=True if nothing else ever writes below this prefix",
            self.url()
        );
        Err(AofError::InvalidConfig { field: "cold_exclusive", reason })
    }

    /// Takes the log over. The earlier writer, if there is one, is fenced when this returns.
    pub(crate) fn take_over(
        &self,
        identity: &StreamIdentity,
        machine: &dyn Storage,
        clock: &dyn Clock,
        claimant: &dyn Claimant,
    ) -> Result<Claim> {
        let stream_id = identity.stream_id;
        self.check_claims_hold()?;
        if !planted::in_tier(TierBug::NameNotClaimed) {
            self.take_name(identity)?;
        }
        self.store_identity(identity)?;
        let last = claimant.last()?;
        let mut highest = self.claims(stream_id)?.last_claim();
        let is_alone = last.map(|last| last.epoch) == highest;
        let early = planted::in_tier(TierBug::ClaimAfterListing);
        let early = early.then(|| self.view(stream_id)).transpose()?;
        if !is_alone {
            // Before anybody is fenced: a directory that has diverged stays out.
            let view = self.view(stream_id)?;
            self.compare(stream_id, &view, claimant, is_alone, false)?;
        }
        let mut tries = 0..TRIES_MAX;
        let (epoch, view) = loop {
            let is_reused = planted::in_tier(TierBug::EpochReused);
            let epoch = highest.map_or(1, |highest| match is_reused {
                true => highest,
                false => highest.saturating_add(1),
            });
            if tries.next().is_none() || epoch > WRITER_EPOCH_MAX {
                let path = self.name(&self.stream_prefix(stream_id));
                let writer = format!("others, again and again (claim {epoch})");
                return Err(AofError::Fenced { path, writer });
            }
            if !self.put_claim(stream_id, epoch, machine, clock)? && !is_reused {
                highest = self.claims(stream_id)?.last_claim();
                continue;
            }
            let view = match &early {
                Some(early) => early.clone(),
                None => self.view(stream_id)?,
            };
            if let Some(later) = view.last_claim().filter(|last| *last > epoch) {
                highest = Some(later);
                continue;
            }
            self.compare(stream_id, &view, claimant, is_alone, false)?;
            let from = WriterKey::From(view.continuation(epoch));
            self.put_text(&self.control_key(stream_id, from), Vec::from(*b"from\n"))?;
            let skips = planted::in_tier(TierBug::NoCheckAfterFrom);
            let later = self.claims(stream_id)?.last_claim().filter(|last| *last > epoch);
            match later.filter(|_| !skips) {
                Some(later) => highest = Some(later),
                None => break (epoch, view),
            }
        };
        self.compare(stream_id, &view, claimant, is_alone, true)?;
        let lineage = last.filter(|_| is_alone).map_or(epoch, |last| last.lineage);
        claimant.remember(LastClaim { epoch, lineage })?;
        for key in view.control_before(epoch) {
            // Left for the next writer if it fails.
            if let Err(error) = self.store.delete(key) {
                tracing::warn!(%error, "an old claim stays");
            }
        }
        tracing::info!(stream = %identity.name, epoch, "claimed");
        Ok(Claim { epoch, lineage, view })
    }

    /// Makes everything that stands in the bucket known to somebody who claims nothing.
    pub(crate) fn adopt_all(
        &self,
        stream_id: StreamId,
        view: &StreamView,
        claimant: &dyn Claimant,
    ) -> Result<()> {
        self.compare(stream_id, view, claimant, false, true)
    }

    /// Creates a claim; whether it is ours.
    fn put_claim(
        &self,
        stream_id: StreamId,
        epoch: u32,
        machine: &dyn Storage,
        clock: &dyn Clock,
    ) -> Result<bool> {
        let nonce =
            machine.random_u64().map_err(AofError::io("draw a random number", "".as_ref()))?;
        let claim = WriterClaim {
            host: host_name(),
            process: std::process::id(),
            claimed_at_ms: clock.now_ns() / 1_000_000,
            nonce,
        };
        let key = self.control_key(stream_id, WriterKey::Claim { epoch });
        match self.put_text(&key, claim.encode()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == ObjectErrorKind::Exists => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares what stands in the bucket with what is here, and adopts it if asked to.
    fn compare(
        &self,
        stream_id: StreamId,
        view: &StreamView,
        claimant: &dyn Claimant,
        is_alone: bool,
        adopts: bool,
    ) -> Result<()> {
        claimant.cut(view.start(), adopts)?;
        let unknown = claimant.unknown(view.standing(), is_alone)?;
        self.indexes(stream_id, &unknown, |object, read| {
            let index = match read {
                Ok(index) => index,
                // Somebody else's bytes under our key do not keep the rest away.
                Err(error @ AofError::Foreign { .. }) => {
                    claimant.refuse(object, error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            claimant.agree(object, &index)?;
            if adopts { claimant.adopt(object, &index) } else { Ok(()) }
        })
    }
}
