//! The copies of a segment: one value that says which there are.
//!
//! A segment has up to three: *hot*, its segment file in `segments/`, which is mapped;
//! *warm*, a compressed file in `warm/`; *cold*, an object in the bucket, whose end, the
//! index, is kept in `cold/`. The entry of the segment in the table has this value, opening
//! a log finds it ([`survey`](super::survey)), and only a [`Change`](super::Change) changes
//! it. A compressed copy is read as windows, one frame at a time.

use std::sync::Arc;

use crate::format::{ColdTailName, WarmFileName};
use crate::segment::Artifact;

/// The tier that a copy of a segment is in. The nearest one is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Residency {
    /// A segment file, mapped.
    Hot,
    /// Compressed on the local disk.
    Warm,
    /// Compressed in the object store.
    Cold,
}

impl Residency {
    /// All of them, the nearest first.
    pub(crate) const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// The word that options, output and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

impl std::fmt::Display for Residency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The copies of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Whether there is a segment file that can be read.
    pub(crate) is_hot: bool,
    pub(crate) warm: Option<Arc<Artifact>>,
    pub(crate) cold: Option<ColdCopy>,
    /// Whether a file of another copy could not be used when the segment was found. It goes
    /// when the segment goes.
    pub(crate) has_stray: bool,
}

/// The copy in the bucket.
#[derive(Clone, Debug)]
pub(crate) struct ColdCopy {
    pub(crate) artifact: Arc<Artifact>,
    /// Which of the segment's uploads it is.
    pub(crate) epoch: u32,
}

impl ColdCopy {
    /// The name under which its index is kept in `cold/`.
    pub(crate) fn index_name(&self) -> ColdTailName {
        ColdTailName {
            artifact: WarmFileName::of(&self.artifact.index().summary),
            epoch: self.epoch,
        }
    }

    /// Bytes of the object.
    pub(crate) fn len(&self) -> u64 {
        self.artifact.index().artifact_len()
    }
}

impl Copies {
    /// A segment file and nothing else.
    pub(crate) fn hot() -> Self {
        Self { is_hot: true, ..Self::default() }
    }

    /// An object and nothing else.
    pub(crate) fn cold(artifact: Arc<Artifact>, epoch: u32) -> Self {
        Self { cold: Some(ColdCopy { artifact, epoch }), ..Self::default() }
    }

    /// The tier that it is read from. A segment without any copy counts as cold: there is
    /// nothing of it here.
    pub(crate) fn nearest(&self) -> Residency {
        let found = Residency::ALL.into_iter().find(|tier| self.is_in(*tier));
        found.unwrap_or(Residency::Cold)
    }

    /// The compressed copy to read: the nearest.
    pub(crate) fn compressed(&self) -> Option<&Arc<Artifact>> {
        self.warm.as_ref().or(self.cold.as_ref().map(|cold| &cold.artifact))
    }

    /// Whether this tier holds the segment.
    pub(crate) fn is_in(&self, tier: Residency) -> bool {
        match tier {
            Residency::Hot => self.is_hot,
            Residency::Warm => self.warm.is_some(),
            Residency::Cold => self.cold.is_some(),
        }
    }

    /// Whether another tier than this one holds the segment.
    pub(crate) fn is_beside(&self, tier: Residency) -> bool {
        Residency::ALL.into_iter().any(|other| other != tier && self.is_in(other))
    }

    /// Whether these are the very same copies.
    pub(crate) fn are(&self, others: &Self) -> bool {
        let is_same = |a: &Option<Arc<Artifact>>, b: &Option<Arc<Artifact>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let object = |copies: &Self| copies.cold.as_ref().map(|cold| Arc::clone(&cold.artifact));
        self.is_hot == others.is_hot
            && is_same(&self.warm, &others.warm)
            && is_same(&object(self), &object(others))
    }

    /// Bytes of the compressed file, if there is one.
    pub(crate) fn warm_len(&self) -> Option<u64> {
        self.warm.as_ref().map(|warm| warm.index().artifact_len())
    }
}
