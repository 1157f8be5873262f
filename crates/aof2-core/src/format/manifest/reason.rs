//! Why a compression, an upload or a hydration failed.

use std::fmt;

/// The reason in a `CompressionFailed`, `UploadFailed` or `HydrationFailed` record.
/// Codes of a later version are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReasonCode(pub u32);

impl ReasonCode {
    /// Trying again may help.
    pub const TRANSIENT: Self = Self(0);
    /// Compression: the codec refuses the segment; it is damaged.
    pub const CODEC: Self = Self(1);
    /// Upload: the store refuses the credentials; a person must act.
    pub const AUTH: Self = Self(2);
    /// Upload: the bucket or the network is not there.
    pub const UNAVAILABLE: Self = Self(3);
    /// Hydration: the object is missing; the segment needs repair.
    pub const MISSING: Self = Self(4);

    /// What the code means, in a few words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::TRANSIENT => "transient error, will be tried again",
            Self::CODEC => "the codec refuses the segment",
            Self::AUTH => "the object store refuses the credentials",
            Self::UNAVAILABLE => "the bucket or the network is unavailable",
            Self::MISSING => "the object is missing",
            _ => "unknown reason",
        }
    }
}

/// The meaning and the number: `the object is missing (4)`.
impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.describe(), self.0)
    }
}
