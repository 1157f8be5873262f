//! Where the manifest and a scan of the segment files disagree.
//!
//! The scan is the truth for data, the manifest for tiers; what both know must be the
//! same. In shadow mode the number of differences is a gauge: it must be zero before the
//! manifest may drive anything. Compare at a quiet moment: a segment sealed between the
//! scan and the look at the index is a difference that is none.

use std::collections::BTreeMap;
use std::fmt;

use super::index::ManifestIndex;
use crate::format::SegmentId;
use crate::format::manifest::ManifestSegment;

/// What a scan found out about a segment file in the hot tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedSegment {
    /// The segment.
    pub segment_id: SegmentId,
    /// Stream bytes before it.
    pub base_offset: u64,
    /// File bytes up to the end of its last record; `None` while it is not sealed.
    pub durable_bytes: Option<u64>,
    /// Checksum over them, where the scan knows it.
    pub segment_crc64: Option<u64>,
    /// The user's identifier, where the format stores one.
    pub ext_id: Option<u64>,
}

/// How the two disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DivergenceKind {
    /// The file is there, the manifest knows no hot copy.
    NotInManifest,
    /// The manifest knows a hot copy, the file is not there.
    NotOnDisk,
    /// The file is sealed, the manifest has not heard of it.
    SealNotInManifest,
    /// The manifest says sealed, the file is not.
    SealNotOnDisk,
    /// They place the segment at different offsets.
    BaseOffset,
    /// They know different lengths.
    DurableBytes,
    /// They know different checksums.
    SegmentCrc64,
    /// They know different external ids.
    ExtId,
}

impl DivergenceKind {
    /// The kind in a word, as in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotInManifest => "not_in_manifest",
            Self::NotOnDisk => "not_on_disk",
            Self::SealNotInManifest => "seal_not_in_manifest",
            Self::SealNotOnDisk => "seal_not_on_disk",
            Self::BaseOffset => "base_offset",
            Self::DurableBytes => "durable_bytes",
            Self::SegmentCrc64 => "segment_crc64",
            Self::ExtId => "ext_id",
        }
    }
}

impl fmt::Display for DivergenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The segment.
    pub segment_id: SegmentId,
    /// What about it.
    pub kind: DivergenceKind,
    /// Both sides, for a person.
    pub detail: String,
}

/// `segment 7: durable_bytes: manifest 200, file 264`
impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}: {}: {}", self.segment_id, self.kind, self.detail)
    }
}

/// All disagreements between the hot tier as the manifest knows it and as a scan found
/// it, by segment. The scan is of the whole hot tier, in any order.
pub fn find_divergences(index: &ManifestIndex, scanned: &[ScannedSegment]) -> Vec<Divergence> {
    let scanned: BTreeMap<SegmentId, &ScannedSegment> =
        scanned.iter().map(|segment| (segment.segment_id, segment)).collect();
    let mut found = Vec::new();
    for known in index.segments().filter(|segment| segment.hot) {
        match scanned.get(&known.segment_id) {
            Some(scanned) => compare(known, scanned, &mut found),
            None => found.push(Divergence {
                segment_id: known.segment_id,
                kind: DivergenceKind::NotOnDisk,
                detail: "the manifest knows a hot copy, no file is there".into(),
            }),
        }
    }
    for &segment_id in scanned.keys() {
        let known = index.get(segment_id);
        if !known.is_some_and(|segment| segment.hot) {
            let detail = match known {
                Some(_) => "a file is there, the manifest knows no hot copy",
                None => "a file is there, the manifest does not know the segment",
            };
            let kind = DivergenceKind::NotInManifest;
            found.push(Divergence { segment_id, kind, detail: detail.into() });
        }
    }
    found.sort_by_key(|divergence| (divergence.segment_id, divergence.kind));
    found
}

fn compare(known: &ManifestSegment, scanned: &ScannedSegment, found: &mut Vec<Divergence>) {
    let segment_id = known.segment_id;
    let mut note = |kind, detail: String| found.push(Divergence { segment_id, kind, detail });
    if known.base_offset != scanned.base_offset {
        let detail = format!("manifest {}, file {}", known.base_offset, scanned.base_offset);
        note(DivergenceKind::BaseOffset, detail);
    }
    let (known_bytes, scanned_bytes) = match (known.durable_bytes, scanned.durable_bytes) {
        (Some(known), Some(scanned)) => (known, scanned),
        (None, None) => return,
        (Some(known), None) => {
            let detail = format!("manifest sealed it at {known} bytes, the file is not sealed");
            return note(DivergenceKind::SealNotOnDisk, detail);
        }
        (None, Some(scanned)) => {
            let detail = format!("the file is sealed at {scanned} bytes, the manifest is not told");
            return note(DivergenceKind::SealNotInManifest, detail);
        }
    };
    if known_bytes != scanned_bytes {
        let detail = format!("manifest {known_bytes}, file {scanned_bytes}");
        note(DivergenceKind::DurableBytes, detail);
    }
    if let (Some(known), Some(scanned)) = (known.segment_crc64, scanned.segment_crc64)
        && known != scanned
    {
        note(DivergenceKind::SegmentCrc64, format!("manifest {known:#018x}, file {scanned:#018x}"));
    }
    if let (Some(known), Some(scanned)) = (known.ext_id, scanned.ext_id)
        && known != scanned
    {
        note(DivergenceKind::ExtId, format!("manifest {known}, file {scanned}"));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::manifest::{ManifestEvent, ManifestRecord};

    /// Segment `n` at `100 n`; 1 to 3 sealed, 3 evicted from the hot tier, 4 active.
    fn index() -> ManifestIndex {
        let mut index = ManifestIndex::new();
        let mut add = |segment_id, event| {
            let segment_id = SegmentId::from_u64(segment_id);
            let ordinal = index.next_record();
            let (flags, logical_offset, timestamp_ms) = (0, 0, 0);
            let record = ManifestRecord { flags, segment_id, logical_offset, timestamp_ms, event };
            index.fold(ordinal, &record);
        };
        for id in 1..5 {
            add(id, ManifestEvent::SegmentOpened { base_offset: id * 100, epoch: 0 });
        }
        for id in 1..4 {
            let seal = ManifestEvent::SealSegment {
                durable_bytes: 100,
                segment_crc64: id,
                ext_id: 10 * id,
                coordinator_watermark: 0,
                flush_failure: false,
            };
            add(id, seal);
        }
        add(3, ManifestEvent::CompressionDone { compressed_bytes: 50, dictionary_id: 0 });
        add(3, ManifestEvent::LocalEvicted { reclaimed_bytes: 100 });
        index
    }

    fn scan() -> Vec<ScannedSegment> {
        let scanned = |id: u64, is_sealed: bool| ScannedSegment {
            segment_id: SegmentId::from_u64(id),
            base_offset: id * 100,
            durable_bytes: is_sealed.then_some(100),
            segment_crc64: is_sealed.then_some(id),
            ext_id: is_sealed.then_some(10 * id),
        };
        // In no order.
        vec![scanned(4, false), scanned(1, true), scanned(2, true)]
    }

    fn kinds(scan: &[ScannedSegment]) -> Vec<(u64, DivergenceKind)> {
        let found = find_divergences(&index(), scan);
        found.iter().map(|d| (d.segment_id.as_u64(), d.kind)).collect()
    }

    #[test]
    fn the_same_state_diverges_nowhere() {
        assert_eq!(kinds(&scan()), []);
        assert_eq!(find_divergences(&ManifestIndex::new(), &[]), []);
    }

    #[test]
    fn every_difference_is_named() {
        use DivergenceKind::*;
        type Change = fn(&mut Vec<ScannedSegment>);
        let changes: [(Change, u64, DivergenceKind); 9] = [
            (|scan| scan.retain(|s| s.segment_id.as_u64() != 1), 1, NotOnDisk),
            (|scan| scan[2].segment_id = SegmentId::from_u64(3), 3, NotInManifest),
            (|scan| scan[0].segment_id = SegmentId::from_u64(9), 9, NotInManifest),
            (|scan| scan[1].base_offset = 7, 1, BaseOffset),
            (|scan| scan[1].durable_bytes = Some(7), 1, DurableBytes),
            (|scan| scan[1].segment_crc64 = Some(7), 1, SegmentCrc64),
            (|scan| scan[1].ext_id = Some(7), 1, ExtId),
            (|scan| scan[1].durable_bytes = None, 1, SealNotOnDisk),
            (|scan| scan[0].durable_bytes = Some(7), 4, SealNotInManifest),
        ];
        for (change, id, kind) in changes {
            let mut scan = scan();
            change(&mut scan);
            let found = kinds(&scan);
            assert!(found.contains(&(id, kind)), "{kind}: {found:?}");
        }
    }

    #[test]
    fn what_a_scan_does_not_know_is_no_difference() {
        let mut scan = scan();
        for scanned in &mut scan {
            (scanned.segment_crc64, scanned.ext_id) = (None, None);
        }
        assert_eq!(kinds(&scan), []);
    }

    #[test]
    fn a_difference_tells_both_sides() {
        let mut scan = scan();
        scan[1].durable_bytes = Some(264);
        let found = find_divergences(&index(), &scan);
        assert_eq!(found[0].to_string(), "segment 1: durable_bytes: manifest 100, file 264");
    }
}
