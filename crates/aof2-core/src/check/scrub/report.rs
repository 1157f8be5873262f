//! What a scrub found, for whoever asked and for the manifest.

use std::ops::Range;
use std::path::PathBuf;

use crate::manifest::BLOB_LEN_MAX;
use crate::store::Residency;

/// `schema_id` of the `CustomEvent` that the manifest gets for every finding. Its blob is
/// text, one `key=value` on each line, in this order:
///
/// ```text
/// tier=warm                    hot, warm or cold: which copy
/// place=…                      its file or object
/// outcome=healed               healed, damaged or needs_repair
/// from=cold                    with healed: the copy that it was made from
/// quarantined=…                where the damaged file is now, if it was moved
/// unreadable=10..12,20..21     with needs_repair: records that cannot be read
/// problem=…                    what was wrong
/// reason=…                     with needs_repair: why it was not healed
/// ```
///
/// Keys that do not apply are left out. A reader passes over keys it does not know.
pub const SCRUB_SCHEMA_ID: u32 = 0x4252_4353;

/// How far a scrub has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// The segment that is being checked.
    pub segment_id: u64,
    /// Segments that are done.
    pub segments: u64,
    /// Segments that there were when the scrub began.
    pub segments_total: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Copies found damaged or gone.
    pub damage_found: u64,
    /// Those of them that were replaced.
    pub healed: u64,
}

/// What became of a damaged copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScrubOutcome {
    /// It was replaced.
    Healed {
        /// The copy that it was made from.
        from: Residency,
    },
    /// It is still there: healing was not asked for.
    Damaged,
    /// It could not be replaced.
    NeedsRepair {
        /// Why.
        reason: String,
    },
}

impl ScrubOutcome {
    /// The word that output and the manifest use.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healed { .. } => "healed",
            Self::Damaged => "damaged",
            Self::NeedsRepair { .. } => "needs_repair",
        }
    }
}

/// A copy that is damaged or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubFinding {
    /// The segment.
    pub segment_id: u64,
    /// Which of its copies.
    pub tier: Residency,
    /// Its file or object.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
    /// What was done.
    pub outcome: ScrubOutcome,
    /// Where the damaged file is now, if it was moved.
    pub quarantined: Option<PathBuf>,
    /// Logical offsets that no read gives now. Empty if another copy is read instead.
    pub unreadable: Vec<Range<u64>>,
}

/// A copy that could not be looked at. Nothing is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubUnreached {
    /// The segment.
    pub segment_id: u64,
    /// Which of its copies.
    pub tier: Residency,
    /// Its file or object.
    pub place: String,
    /// Why not.
    pub error: String,
}

/// What a scrub came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Segments checked.
    pub segments: u64,
    /// Copies of them checked.
    pub copies: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Copies that are damaged or gone.
    pub findings: Vec<ScrubFinding>,
    /// Copies that could not be looked at.
    pub unreached: Vec<ScrubUnreached>,
    /// Whether it went to the end, and was not told to stop.
    pub is_complete: bool,
}

impl ScrubReport {
    /// Findings that were healed.
    pub fn healed(&self) -> u64 {
        let is_healed = |f: &&ScrubFinding| matches!(f.outcome, ScrubOutcome::Healed { .. });
        self.findings.iter().filter(is_healed).count() as u64
    }

    /// Whether everything that was looked at is good now.
    pub fn is_clean(&self) -> bool {
        self.healed() == self.findings.len() as u64 && self.unreached.is_empty()
    }

    /// Logical offsets that no read gives.
    pub fn unreadable(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.findings.iter().flat_map(|f| f.unreadable.iter().cloned()).collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        ranges.dedup();
        ranges
    }
}

impl ScrubFinding {
    /// The finding as the manifest keeps it, see [`SCRUB_SCHEMA_ID`].
    pub(super) fn blob(&self) -> Vec<u8> {
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        let mut lines = vec![
            format!("tier={}", self.tier),
            format!("place={}", one_line(&self.place)),
            format!("outcome={}", self.outcome.as_str()),
        ];
        if let ScrubOutcome::Healed { from } = &self.outcome {
            lines.push(format!("from={from}"));
        }
        if let Some(path) = &self.quarantined {
            lines.push(format!("quarantined={}", one_line(&path.to_string_lossy())));
        }
        if !self.unreadable.is_empty() {
            let ranges: Vec<String> =
                self.unreadable.iter().map(|r| format!("{}..{}", r.start, r.end)).collect();
            lines.push(format!("unreadable={}", ranges.join(",")));
        }
        lines.push(format!("problem={}", one_line(&self.problem)));
        if let ScrubOutcome::NeedsRepair { reason } = &self.outcome {
            lines.push(format!("reason={}", one_line(reason)));
        }
        let mut blob = lines.join("\n").into_bytes();
        blob.truncate(BLOB_LEN_MAX);
        blob
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_gets_a_finding_as_lines_of_text() {
        let finding = ScrubFinding {
            segment_id: 3,
            tier: Residency::Warm,
            place: "warm/x.zst".into(),
            problem: "frame checksum\nof line two".into(),
            outcome: ScrubOutcome::Healed { from: Residency::Cold },
            quarantined: Some("quarantine/x.zst".into()),
            unreadable: Vec::new(),
        };
        let text = String::from_utf8_lossy(&finding.blob()).into_owned();
        let expected = "tier=warm\nplace=warm/x.zst\noutcome=healed\nfrom=cold\n\
            quarantined=quarantine/x.zst\nproblem=frame checksum of line two";
        assert_eq!(text, expected);
        assert_eq!(SCRUB_SCHEMA_ID.to_le_bytes(), *b"SCRB");
    }
}
