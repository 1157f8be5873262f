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

/// A deliberate mistake of the store, or of what decides its changes; each breaks a promise
/// of `docs/durability.md` about copies of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StoreBug {
    /// An object is deleted before it is durable that it is to be deleted.
    DeleteBeforeTombstone = 1,
    /// A segment counts as archived while it waits to be uploaded.
    ArchivedBeforePut,
    /// A segment whose upload failed is passed over until it is tried again.
    UploadsOvertake,
    /// A segment that is uploaded again gets the key of its deleted object.
    KeyReused,
    /// The object of a segment that was dropped while it was uploaded is forgotten.
    DroppedUploadKept,
    /// The index that is kept of an object is not synced.
    KeptIndexUnsynced,
    /// A compressed file gets its name without having been read.
    WarmUnverified,
    /// The name of a compressed file is not made durable.
    WarmNameUnsynced,
    /// A compressed file goes without asking the bucket for its object.
    WarmGoneUnconfirmed,
    /// A segment file gets its name whatever was decompressed.
    HydrationUnverified,
    /// A segment file goes without reading the compressed file that is left.
    EvictTrustsWarm,
    /// A segment file is removed while the table still names it.
    FileGoneFirst,
    /// Nobody looks whether a copy is the last one.
    LastCopyDropped,
    /// A change is recorded before it is made.
    RecordBeforeSwitch,
    /// Two changes of one segment are made at once.
    BusyIgnored,
}

/// All planted bugs of the store.
pub const STORE_BUGS: [StoreBug; 15] = [
    StoreBug::DeleteBeforeTombstone,
    StoreBug::ArchivedBeforePut,
    StoreBug::UploadsOvertake,
    StoreBug::KeyReused,
    StoreBug::DroppedUploadKept,
    StoreBug::KeptIndexUnsynced,
    StoreBug::WarmUnverified,
    StoreBug::WarmNameUnsynced,
    StoreBug::WarmGoneUnconfirmed,
    StoreBug::HydrationUnverified,
    StoreBug::EvictTrustsWarm,
    StoreBug::FileGoneFirst,
    StoreBug::LastCopyDropped,
    StoreBug::RecordBeforeSwitch,
    StoreBug::BusyIgnored,
];

/// A deliberate mistake of the catalog; each breaks a promise of `docs/catalog.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CatalogBug {
    /// Applying an operation looks at the clock.
    ApplyReadsClock = 1,
    /// The tables are written before the batch is durable.
    TablesAheadOfLog,
    /// A guard resolves before its batch is durable.
    GuardBeforeDurable,
    /// The log is trimmed behind the cursor that acknowledged last.
    SlowerCursorTrimmed,
    /// Only jobs that this process enqueued count as pending.
    UniqueJobInMemory,
    /// A version of the tables may be left out.
    VersionSkipped,
    /// The log is trimmed behind a checkpoint that nobody read.
    CheckpointUnverified,
}

/// All planted bugs of the catalog.
pub const CATALOG_BUGS: [CatalogBug; 7] = [
    CatalogBug::ApplyReadsClock,
    CatalogBug::TablesAheadOfLog,
    CatalogBug::GuardBeforeDurable,
    CatalogBug::SlowerCursorTrimmed,
    CatalogBug::UniqueJobInMemory,
    CatalogBug::VersionSkipped,
    CatalogBug::CheckpointUnverified,
];

/// A deliberate mistake of forks and snapshots; each breaks a promise of `docs/forks.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ForkBug {
    /// The fork exists before its ancestors know of it.
    HoldAfterChild = 1,
    /// A hold is not synced.
    HoldUnsynced,
    /// Retention believes the holds that there were when the log was opened.
    HoldsFromMemory,
    /// Only the log that is forked is held, and not those that it was forked from.
    OnlyParentHeld,
    /// Recovery cuts a torn end below what is held.
    TailCutBelowHold,
    /// What an origin has behind the cut is read.
    ReadsPastCut,
    /// A fork has the id of the log that it was forked from.
    IdReused,
    /// Nobody looks whether the start of the log moved before it was held.
    StartNotRechecked,
    /// A snapshot expires by the latest time that was ever seen.
    ExpiryByLatestClock,
}

/// All planted bugs of forks.
pub const FORK_BUGS: [ForkBug; 9] = [
    ForkBug::HoldAfterChild,
    ForkBug::HoldUnsynced,
    ForkBug::HoldsFromMemory,
    ForkBug::OnlyParentHeld,
    ForkBug::TailCutBelowHold,
    ForkBug::ReadsPastCut,
    ForkBug::IdReused,
    ForkBug::StartNotRechecked,
    ForkBug::ExpiryByLatestClock,
];

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::{Bug, CatalogBug, ForkBug, ManifestBug, StoreBug, TierBug};
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static TURN: Mutex<()> = Mutex::new(());
    static PLANTED: AtomicU8 = AtomicU8::new(0);
    static MANIFEST_PLANTED: AtomicU8 = AtomicU8::new(0);
    static TIER_PLANTED: AtomicU8 = AtomicU8::new(0);
    static STORE_PLANTED: AtomicU8 = AtomicU8::new(0);
    static CATALOG_PLANTED: AtomicU8 = AtomicU8::new(0);
    static FORK_PLANTED: AtomicU8 = AtomicU8::new(0);

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

    /// Switches one bug of the store on, or all off.
    pub fn plant_store(bug: Option<StoreBug>) {
        STORE_PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn in_store(bug: StoreBug) -> bool {
        STORE_PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Switches one bug of the catalog on, or all off.
    pub fn plant_catalog(bug: Option<CatalogBug>) {
        CATALOG_PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn in_catalog(bug: CatalogBug) -> bool {
        CATALOG_PLANTED.load(Ordering::Relaxed) == bug as u8
    }

    /// Switches one bug of forks on, or all off.
    pub fn plant_fork(bug: Option<ForkBug>) {
        FORK_PLANTED.store(bug.map_or(0, |b| b as u8), Ordering::SeqCst);
    }

    pub(crate) fn in_forks(bug: ForkBug) -> bool {
        FORK_PLANTED.load(Ordering::Relaxed) == bug as u8
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

    #[inline(always)]
    pub(crate) const fn in_store(_bug: super::StoreBug) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn in_catalog(_bug: super::CatalogBug) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn in_forks(_bug: super::ForkBug) -> bool {
        false
    }
}

pub(crate) use switch::{has, in_catalog, in_forks, in_store, in_tier, is};
#[cfg(feature = "planted-bugs")]
pub use switch::{plant, plant_catalog, plant_fork, plant_manifest, plant_store, plant_tier, turn};
