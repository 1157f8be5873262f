//! Damage in what was committed is reported with its place, never trimmed or skipped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::driver::{ROOT, config, open_with, reader};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::{ManifestProblemKind, verify_manifest};

/// Two sealed chunks and an unsealed one, each with a few records.
fn written() -> SimStorage {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    for chunk in 0..3_u64 {
        for i in 0..4_u64 {
            let segment = SegmentId::from_u64(chunk * 10 + i);
            let event = ManifestEvent::SegmentOpened { base_offset: i * 77, epoch: 1 };
            manifest.record(segment, 5, event).unwrap();
            let blob = [i as u8 + 1; 21];
            let event = ManifestEvent::CustomEvent { schema_id: 9, blob: &blob };
            manifest.record(segment, 6, event).unwrap();
        }
        manifest.commit().unwrap();
        if chunk < 2 {
            manifest.rotate().unwrap();
        }
    }
    manifest.close().unwrap();
    sim
}

fn read_all(sim: &SimStorage) -> Result<Vec<Vec<u8>>, AofError> {
    let mut cursor = reader(sim).cursor()?;
    let mut found = Vec::new();
    while let Some(placed) = cursor.next_record()? {
        found.push(crate::manifest::tests::model::encode(&placed.record));
    }
    Ok(found)
}

fn chunk_path(index: u64) -> PathBuf {
    reader(&SimStorage::new()).layout().chunk_path(index)
}

/// Every bit of every committed record: reading, opening and verifying say where.
pub(super) fn flips_are_reported(stride: usize) -> Result<(), String> {
    let sim = written();
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    for index in 0..3 {
        let path = chunk_path(index);
        let chunk = reader(&sim).chunk(index).map_err(|e| e.to_string())?;
        let end = chunk.header().committed_len;
        let starts: Vec<u64> =
            chunk.records().map(|placed| placed.unwrap().position.chunk_offset).collect();
        for bit in (64 * 8..end * 8).step_by(stride) {
            let fail = |what: &str| Err(format!("chunk {index}, bit {bit}: {what}"));
            sim.flip_bit(&path, bit).map_err(|e| e.to_string())?;
            let start = *starts.iter().rfind(|&&start| start <= bit / 8).unwrap();
            match read_all(&sim) {
                Err(AofError::Corrupt(damage))
                    if damage.path == path
                        && damage.reason.contains(&format!("chunk {index}"))
                        && damage.offset <= start => {}
                other => return fail(&format!("reading said {other:?}")),
            }
            let report = verify_manifest(&storage, ROOT).map_err(|e| e.to_string())?;
            let is_found = report.problems.iter().any(|p| {
                p.is_damage && p.path == path && p.chunk_index == Some(index) && p.offset <= start
            });
            if !is_found || report.is_healthy() {
                return fail(&format!("verifying said {:?}", report.problems));
            }
            sim.flip_bit(&path, bit).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

#[test]
fn every_flipped_bit_of_a_committed_record_is_reported_where_it_is() {
    flips_are_reported(1).unwrap();
}

/// In a sealed chunk a flipped bit of the header is damage. In the unsealed one it may
/// look like a header that a crash has torn: then nothing is lost, and it is noted.
#[test]
fn a_flipped_bit_of_a_header_never_changes_what_is_read() {
    let sim = written();
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let intact = read_all(&sim).unwrap();
    for index in 0..3 {
        let path = chunk_path(index);
        // Flags that nobody knows are kept for a later version; the mark of an upload
        // and a seal on the newest chunk promise nothing that is relied on.
        for bit in 0..56 * 8 {
            sim.flip_bit(&path, bit).unwrap();
            let report = verify_manifest(&storage, ROOT).unwrap();
            assert!(!report.problems.is_empty(), "chunk {index}, bit {bit}");
            let problem = &report.problems[0];
            assert_eq!(problem.path, path, "chunk {index}, bit {bit}: {problem}");
            match read_all(&sim) {
                Ok(found) => {
                    assert_eq!(found, intact, "chunk {index}, bit {bit}");
                    assert_eq!(index, 2, "bit {bit} of a sealed chunk's header");
                }
                Err(AofError::Corrupt(_)) => assert!(problem.is_damage),
                Err(other) => panic!("chunk {index}, bit {bit}: {other}"),
            }
            sim.flip_bit(&path, bit).unwrap();
        }
    }
}

/// Opening for writing touches nothing when it finds damage.
#[test]
fn damage_is_not_taken_for_an_uncommitted_tail() {
    let sim = written();
    let path = chunk_path(2);
    let end = reader(&sim).chunk(2).unwrap().header().committed_len;
    for offset in [64, 70, end / 2, end - 1] {
        sim.flip_bit(&path, offset * 8).unwrap();
        let before = sim.read_file(&path).unwrap();
        let opened = open_with(&sim, config(0));
        match &opened {
            Err(AofError::Corrupt(damage)) => {
                assert_eq!(damage.path, path);
                assert!(damage.reason.contains("chunk 2"), "{damage}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(sim.read_file(&path).unwrap(), before, "a refused open writes nothing");
        sim.flip_bit(&path, offset * 8).unwrap();
    }
    open_with(&sim, config(0)).unwrap();
}

#[test]
fn damage_in_a_payload_names_the_segment_and_the_byte() {
    let sim = written();
    let chunk = reader(&sim).chunk(1).unwrap();
    let third = chunk.records().nth(2).unwrap().unwrap();
    let offset = third.position.chunk_offset;
    let (path, ordinal) = (chunk_path(1), third.ordinal);
    sim.flip_bit(&path, (offset + 41) * 8).unwrap();
    match read_all(&sim) {
        Err(AofError::Corrupt(damage)) => {
            assert_eq!((damage.offset, damage.records.start), (offset, ordinal));
            assert!(damage.reason.contains("chunk 1, segment 11"), "{damage}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_chunk_a_foreign_file_and_a_torn_off_file_are_named() {
    let missing = written();
    missing.remove(&chunk_path(1)).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(missing.clone());
    let report = verify_manifest(&storage, ROOT).unwrap();
    assert!(!report.is_healthy());
    assert!(report.problems.iter().any(|p| p.kind == ManifestProblemKind::MissingChunk));
    assert!(matches!(open_with(&missing, config(0)), Err(AofError::Corrupt(_))));
    let mut cursor =
        reader(&missing).cursor_at(crate::manifest::ManifestPosition::start_of(0), None);
    for _ in 0..8 {
        cursor.next_record().unwrap().unwrap();
    }
    let error = cursor.next_record().unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");

    let foreign = written();
    let stranger = chunk_path(0).with_file_name("7.mlog");
    foreign.write_file(&stranger, b"x").unwrap();
    let opened = open_with(&foreign, config(0));
    assert!(matches!(&opened, Err(AofError::Foreign { path, .. }) if *path == stranger));
    let storage: Arc<dyn Storage> = Arc::new(foreign.clone());
    let report = verify_manifest(&storage, ROOT).unwrap();
    assert_eq!(report.problems[0].kind, ManifestProblemKind::Foreign);

    let short = written();
    let bytes = short.read_file(chunk_path(2)).unwrap();
    for len in [0, 10, 63, 64, 200] {
        short.write_file(chunk_path(2), &bytes[..len]).unwrap();
        let opened = open_with(&short, config(0));
        assert!(matches!(opened, Err(AofError::Corrupt(_))), "{len}: {opened:?}");
    }
}

/// Whatever stands in a chunk's file, reading it ends with an answer.
#[test]
fn hostile_chunks_give_errors() {
    let sim = written();
    let path: &Path = &chunk_path(2);
    let good = sim.read_file(path).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..3_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + rng.u64(..4) {
            let at = match rng.bool() {
                true => rng.usize(..64),
                false => rng.usize(..600),
            };
            let value = [0, 0xFF, rng.u8(..)][rng.usize(..3)];
            let len = 1 + rng.usize(..8);
            bytes[at..at + len].fill(value);
        }
        bytes.truncate(64 + rng.usize(..good.len()));
        sim.write_file(path, &bytes).unwrap();
        if let Ok(records) = read_all(&sim) {
            assert!((16..=24).contains(&records.len()), "{}", records.len());
        }
    }
}
