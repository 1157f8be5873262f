//! Every way in which a power cut can tear a header, at every call of a commit and of a
//! seal: each of the words that were being written is old or new.

use std::sync::Arc;

use fastrand::Rng;

use super::driver::{ROOT, STREAM, reader};
use crate::format::SegmentId;
use crate::format::manifest::{CHUNK_HEADER_LEN, ManifestEvent, ManifestRecord};
use crate::io::sim::{CrashOptions, SimStorage};
use crate::manifest::{ManifestLayout, ManifestWriter};

const WORD_LEN: usize = 8;

fn append(writer: &mut ManifestWriter, len: usize) {
    let mut blob = vec![0; len];
    Rng::with_seed(len as u64).fill(&mut blob);
    let record = ManifestRecord {
        flags: 0,
        segment_id: SegmentId::from_u64(1),
        logical_offset: 0,
        timestamp_ms: 0,
        event: ManifestEvent::CustomEvent { schema_id: 1, blob: &blob },
    };
    writer.append(&record).unwrap();
}

fn open(sim: &SimStorage) -> Result<ManifestWriter, String> {
    let layout = ManifestLayout::new(ROOT, STREAM);
    layout.ensure(sim).map_err(|e| e.to_string())?;
    ManifestWriter::open(Arc::new(sim.clone()), layout, 16 << 10).map_err(|e| e.to_string())
}

/// One committed record, one staged; then the power goes before the given call of a
/// commit or of a seal that commits.
fn cut(call: u64, seals: bool) -> Option<SimStorage> {
    let sim = SimStorage::new();
    let mut writer = open(&sim).unwrap();
    append(&mut writer, 40);
    writer.commit().unwrap();
    append(&mut writer, 900);
    sim.crash_at(sim.calls() + call);
    let _ = match seals {
        true => writer.rotate().map(drop),
        false => writer.commit(),
    };
    sim.is_crashed().then_some(sim)
}

pub(super) fn torn_headers_are_reconciled() -> Result<u64, String> {
    let path = ManifestLayout::new(ROOT, STREAM).chunk_path(0);
    let mut states = 0;
    for seals in [false, true] {
        for call in 0.. {
            let Some(sim) = cut(call, seals) else { break };
            let image = sim.take_crash().ok_or("no crash")?;
            let old = image.materialize(0, &CrashOptions::default()).read_file(&path);
            let new = image.materialize(1, &CrashOptions::default()).read_file(&path);
            let (old, new) = (old.map_err(|e| e.to_string())?, new.map_err(|e| e.to_string())?);
            let words: Vec<usize> = (0..CHUNK_HEADER_LEN)
                .step_by(WORD_LEN)
                .filter(|&at| old[at..at + WORD_LEN] != new[at..at + WORD_LEN])
                .collect();
            // The records that were being written may be lost or kept, whatever the
            // header is.
            for records in [&old, &new] {
                for subset in 0..1_u32 << words.len() {
                    let mut bytes = old.clone();
                    bytes[CHUNK_HEADER_LEN..].copy_from_slice(&records[CHUNK_HEADER_LEN..]);
                    for (bit, &at) in words.iter().enumerate() {
                        if subset & (1 << bit) != 0 {
                            bytes[at..at + WORD_LEN].copy_from_slice(&new[at..at + WORD_LEN]);
                        }
                    }
                    check(&bytes).map_err(|e| {
                        format!("sealing {seals}, call {call}, words {words:?}/{subset:b}: {e}")
                    })?;
                    states += 1;
                }
            }
        }
    }
    Ok(states)
}

fn check(bytes: &[u8]) -> Result<(), String> {
    let sim = SimStorage::new();
    let path = ManifestLayout::new(ROOT, STREAM).chunk_path(0);
    sim.write_file(&path, bytes).map_err(|e| e.to_string())?;
    let seen = reader(&sim).end().map_err(|e| format!("reader: {e}"))?.map_or(0, |end| end.1);
    let mut writer = open(&sim)?;
    let count = writer.committed();
    if !(1..=2).contains(&count) || count != seen {
        return Err(format!("{count} records, a reader saw {seen}"));
    }
    append(&mut writer, 70);
    writer.commit().map_err(|e| e.to_string())?;
    let end = reader(&sim).end().map_err(|e| e.to_string())?.map(|end| end.1);
    match end == Some(count + 1) {
        true => Ok(()),
        false => Err(format!("{end:?} records after one more than {count}")),
    }
}

#[test]
fn every_way_to_tear_a_header_is_reconciled() {
    let states = torn_headers_are_reconciled().unwrap();
    assert!(states > 20, "{states}");
}
