//! Bugs planted on purpose, to prove that the tests can fail.
//!
//! Without the feature `planted-bugs`, `is` is the constant `false` and the
//! branches vanish. With it, `plant` switches one bug on for the process.

/// A deliberate mistake; each breaks one promise of `docs/durability.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// Durable watermark moves before the sync.
    AckBeforeSync = 1,
    /// A new segment's name is never made durable.
    SkipDirectorySync,
    /// Record checksums do not include stream and segment.
    NoIdentityInChecksum,
    /// Sleepers are not woken.
    LostWakeup,
    /// A torn tail is not zeroed before new records are written over it.
    KeepTornTail,
    /// Damage inside durable data is treated as a torn tail.
    TruncateDamage,
    /// A failed sync does not poison the stream.
    IgnoreSyncError,
    /// A torn segment's successor is kept, leaving a hole.
    KeepAfterHole,
    /// The footer is written before the records it vouches for are durable.
    SealBeforeSync,
    /// Scans do not verify checksums.
    SkipChecksums,
    /// A refused append has already written its record.
    WriteThenRefuse,
    /// Retention removes segments without syncing the directory in between.
    TrimWithoutSync,
    /// Durable readers see records that are only appended.
    ServeUndurable,
    /// Recovered records are served as durable without writing them again.
    TrustPageCache,
}

/// All planted bugs.
pub const BUGS: [Bug; 14] = [
    Bug::AckBeforeSync,
    Bug::SkipDirectorySync,
    Bug::NoIdentityInChecksum,
    Bug::LostWakeup,
    Bug::KeepTornTail,
    Bug::TruncateDamage,
    Bug::IgnoreSyncError,
    Bug::KeepAfterHole,
    Bug::SealBeforeSync,
    Bug::SkipChecksums,
    Bug::WriteThenRefuse,
    Bug::TrimWithoutSync,
    Bug::ServeUndurable,
    Bug::TrustPageCache,
];

/// A deliberate mistake of the manifest; each breaks one promise of `docs/manifest.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ManifestBug {
    /// A commit writes records and header together and syncs once.
    HeaderBeforeData = 1,
    /// A commit returns before its header is synced.
    AckBeforeSync,
    /// A new chunk's name is never made durable.
    SkipDirectorySync,
    /// Opening takes an uncommitted tail for committed.
    KeepUncommittedTail,
    /// Opening appends the last record again.
    DoubleAppend,
    /// Opening goes on with the newest chunk as the page cache shows it.
    TrustPageCache,
    /// A failed sync does not poison the manifest.
    IgnoreSyncError,
    /// The last commit of a chunk and its seal are one write.
    SealWithCommit,
    /// Readers do not compare the chunk's checksum.
    SkipChunkChecksum,
    /// A snapshot is written before the records it covers are committed.
    SnapshotBeforeCommit,
    /// Retention removes chunks that no snapshot covers.
    RetentionIgnoresSnapshot,
    /// Retention removes chunks without syncing the directory in between.
    RemoveWithoutSync,
    /// A chunk is marked uploaded before it is.
    UploadFlagFirst,
    /// Retention believes the mark without asking the object store.
    TrustUploadFlag,
    /// Waiters are not woken.
    LostWakeup,
}

/// All planted bugs of the manifest.
pub const MANIFEST_BUGS: [ManifestBug; 15] = [
    ManifestBug::HeaderBeforeData,
    ManifestBug::AckBeforeSync,
    ManifestBug::SkipDirectorySync,
    ManifestBug::KeepUncommittedTail,
    ManifestBug::DoubleAppend,
    ManifestBug::TrustPageCache,
    ManifestBug::IgnoreSyncError,
    ManifestBug::SealWithCommit,
    ManifestBug::SkipChunkChecksum,
    ManifestBug::SnapshotBeforeCommit,
    ManifestBug::RetentionIgnoresSnapshot,
    ManifestBug::RemoveWithoutSync,
    ManifestBug::UploadFlagFirst,
    ManifestBug::TrustUploadFlag,
    ManifestBug::LostWakeup,
];

/// A deliberate mistake of the tiers; each breaks one promise of `docs/durability.md`
/// about names and writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TierBug {
    /// The bucket is listed before it is claimed.
    ClaimAfterListing = 1,
    /// Nobody looks for a later claim once an object is put.
    NoCheckAfterPut,
    /// A writer looks for a later claim before it puts an object, and not after.
    CheckBeforePut,
    /// Nobody looks for a later claim once a writer said where it continues.
    NoCheckAfterFrom,
    /// A writer goes on with the claim of the one before.
    EpochReused,
    /// A log does not take its name.
    NameNotClaimed,
    /// An empty directory becomes the log that has its name.
    AdoptUnasked,
}

/// All planted bugs of the tiers.
pub const TIER_BUGS: [TierBug; 7] = [
    TierBug::ClaimAfterListing,
    TierBug::NoCheckAfterPut,
    TierBug::CheckBeforePut,
    TierBug::NoCheckAfterFrom,
    TierBug::EpochReused,
    TierBug::NameNotClaimed,
    TierBug::AdoptUnasked,
];

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::{Bug, ManifestBug, TierBug};
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static TURN: Mutex<()> = Mutex::new(());
    static PLANTED: AtomicU8 = AtomicU8::new(0);
    static MANIFEST_PLANTED: AtomicU8 = AtomicU8::new(0);
    static TIER_PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Held by whoever plants: bugs of another kind must not be what a test catches.
    pub fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches one bug on, or all off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Switches one bug of the manifest on, or all off.
    pub fn plant_manifest(bug: Option<ManifestBug>) {
        MANIFEST_PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn has(bug: ManifestBug) -> bool {
        MANIFEST_PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Switches one bug of the tiers on, or all off.
    pub fn plant_tier(bug: Option<TierBug>) {
        TIER_PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn in_tier(bug: TierBug) -> bool {
        TIER_PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod switch {
    #[inline(always)]
    pub(crate) const fn is(_bug: super::Bug) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn has(_bug: super::ManifestBug) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn in_tier(_bug: super::TierBug) -> bool {
        false
    }
}

pub(crate) use switch::{has, in_tier, is};
#[cfg(feature = "planted-bugs")]
pub use switch::{plant, plant_manifest, plant_tier, turn};
