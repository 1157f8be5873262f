//! What the log does with its manifest.

use std::fmt;
use std::str::FromStr;

use crate::error::AofError;

/// What a log does with its manifest. It can be changed while the log is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ManifestMode {
    /// Nothing is written and nothing is read.
    #[default]
    Disabled,
    /// Transitions are written, and what they add up to is compared with what a scan of
    /// the segments finds. The scan decides; the difference is a gauge.
    Shadow,
    /// Transitions are written, and recovery of the tiers follows them.
    Enabled,
}

impl ManifestMode {
    /// Whether transitions are written.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Disabled)
    }

    /// Whether recovery follows the manifest.
    pub const fn drives_recovery(self) -> bool {
        matches!(self, Self::Enabled)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Shadow => "shadow",
            Self::Enabled => "enabled",
        }
    }
}

impl fmt::Display for ManifestMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ManifestMode {
    type Err = AofError;

    fn from_str(text: &str) -> Result<Self, AofError> {
        [Self::Disabled, Self::Shadow, Self::Enabled]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| AofError::InvalidConfig {
                field: "manifest_mode",
                reason: format!("{text:?} is not disabled, shadow or enabled"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn modes_read_as_they_are_shown_and_nothing_else_is_one() {
        for mode in [ManifestMode::Disabled, ManifestMode::Shadow, ManifestMode::Enabled] {
            assert_eq!(mode.to_string().parse::<ManifestMode>().unwrap(), mode);
        }
        for text in ["", "Shadow", "on", "shadow "] {
            assert!(text.parse::<ManifestMode>().is_err(), "{text:?}");
        }
        assert!(!ManifestMode::Disabled.writes() && ManifestMode::Shadow.writes());
        assert!(ManifestMode::Enabled.drives_recovery() && !ManifestMode::Shadow.drives_recovery());
    }
}
