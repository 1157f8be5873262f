//! Damage inside durable data is reported, never truncated or skipped.

use std::sync::Arc;

use super::driver::{ROOT, open};
use crate::error::AofError;
use crate::format::SegmentFormat;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::read::{AofReader, OnCorruption, Scan, ScanOptions, Source, Start};
use crate::write::AppendOptions;

fn written(format: SegmentFormat, count: u64, flush_each: bool) -> SimStorage {
    let sim = SimStorage::new();
    let stream = open(&sim, format).unwrap();
    for i in 0..count {
        let payload = vec![i as u8 + 1; 100 + i as usize];
        stream.append_now(&payload, &AppendOptions::default()).unwrap();
        if flush_each {
            stream.flush_until(stream.appended.position(), None).unwrap();
        }
    }
    stream.close().unwrap();
    sim
}

fn segment_file(sim: &SimStorage) -> std::path::PathBuf {
    sim.files().into_iter().find(|p| p.extension().is_some_and(|e| e == "seg")).unwrap()
}

/// A flipped bit in a durable record of the unsealed tail: opening for writing is
/// refused with the place, nothing is cut off, and readers see all the rest.
pub(super) fn tail_damage_is_reported(without_watermark: bool) -> Result<(), String> {
    let sim = written(SegmentFormat::Full, 20, true);
    if without_watermark {
        sim.remove(std::path::Path::new("/data/log/watermark")).map_err(|e| e.to_string())?;
    }
    let path = segment_file(&sim);
    let before = sim.read_file(&path).map_err(|e| e.to_string())?;
    sim.flip_bit(&path, (64 + 40) * 8 + 3).map_err(|e| e.to_string())?;
    match open(&sim, SegmentFormat::Full) {
        Err(AofError::Corrupt(damage)) if damage.records == (0..1) && damage.offset == 64 => {}
        other => return Err(format!("opening said {other:?}")),
    }
    let after = sim.read_file(&path).map_err(|e| e.to_string())?;
    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    if changed != 1 {
        return Err(format!("{changed} bytes differ after a refused open"));
    }
    let reader = AofReader::open_on(Arc::new(sim.clone()), ROOT).map_err(|e| e.to_string())?;
    let options = ScanOptions { on_corruption: OnCorruption::Skip, ..Default::default() };
    let rest = reader.scan(options).map_err(|e| e.to_string())?.filter(|r| r.is_ok()).count();
    let expected = if without_watermark { 18 } else { 19 };
    if rest < expected {
        return Err(format!("{rest} of the intact records are readable"));
    }
    Ok(())
}

#[test]
fn damage_in_the_unsealed_tail_is_not_taken_for_a_torn_end() {
    tail_damage_is_reported(false).unwrap();
    tail_damage_is_reported(true).unwrap();
}

#[test]
fn the_last_record_of_a_closed_log_is_covered_too() {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let sim = written(format, 5, false);
        let path = segment_file(&sim);
        let len = sim.read_file(&path).unwrap().iter().rposition(|&b| b != 0).unwrap();
        sim.flip_bit(&path, (len as u64) * 8).unwrap();
        let opened = open(&sim, format);
        assert!(matches!(opened, Err(AofError::Corrupt(_))), "{format}: {opened:?}");
    }
}

/// Every bit of a sealed segment's records: a read reports the place.
pub(super) fn flips_are_reported(stride: u64) -> Result<(), String> {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).map_err(|e| e.to_string())?;
    for i in 0..10u8 {
        stream.append_now(&[i; 77], &AppendOptions::default()).map_err(|e| e.to_string())?;
    }
    let _ = stream.start_seal(false).map_err(|e| e.to_string())?;
    while stream.finalize_step().map_err(|e| e.to_string())? {}
    stream.close().map_err(|e| e.to_string())?;
    let path = segment_file(&sim);
    let used = 64 + 10 * 112;
    for bit in (64 * 8..used * 8).step_by(stride as usize) {
        sim.flip_bit(&path, bit).map_err(|e| e.to_string())?;
        let reader = AofReader::open_on(Arc::new(sim.clone()), ROOT).map_err(|e| e.to_string())?;
        let results: Vec<_> =
            reader.scan(ScanOptions::default()).map_err(|e| e.to_string())?.collect();
        let hit = (bit / 8 - 64) / 112;
        match results.last() {
            Some(Err(AofError::Corrupt(d))) if d.records.contains(&hit) && d.path == path => {}
            other => return Err(format!("bit {bit}: {other:?}")),
        }
        sim.flip_bit(&path, bit).map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[test]
fn every_flipped_bit_of_a_record_is_reported_where_it_is() {
    flips_are_reported(1).unwrap();
}

/// Four sealed segments of three records each, open for writing.
fn four_segments(sim: &SimStorage) -> Arc<crate::write::Stream> {
    let stream = open(sim, SegmentFormat::Full).unwrap();
    for i in 0..12u8 {
        if i % 3 == 0 {
            stream.prepare_step().unwrap();
        }
        let options = AppendOptions { timestamp_ms: Some(u64::from(i) + 1), ..Default::default() };
        stream.append_now(&[i; 77], &options).unwrap();
        if i % 3 == 2 {
            let _ = stream.start_seal(false).unwrap();
            while stream.finalize_step().unwrap() {}
        }
    }
    stream
}

/// Offsets that a scan gives, and the error it ends with.
fn scanned(source: &Arc<dyn Source>, options: ScanOptions) -> (Vec<u64>, Option<AofError>, u64) {
    let mut offsets = Vec::new();
    let mut scan = match Scan::new(Arc::clone(source), options) {
        Ok(scan) => scan,
        Err(error) => return (offsets, Some(error), 0),
    };
    loop {
        match scan.next_record() {
            Ok(Some(record)) => offsets.push(record.offset),
            Ok(None) => return (offsets, None, scan.skipped()),
            Err(error) => return (offsets, Some(error), scan.skipped()),
        }
    }
}

/// A segment whose only file vanished is damage, wherever it stands: told with its file, and
/// passed over and counted by whoever passes over damage. The newest one was once an I/O
/// error for both, and any other looked as if retention had removed it.
#[test]
fn a_segment_file_that_vanished_is_damage_and_not_the_end_of_a_scan() {
    for missing in [&[0][..], &[1], &[3], &[1, 2], &[2, 3], &[0, 1, 2, 3]] {
        let sim = SimStorage::new();
        let stream = four_segments(&sim);
        let reader = AofReader::open_on(Arc::new(sim.clone()), ROOT).unwrap();
        let mut files: Vec<_> = sim.files().into_iter().collect();
        files.retain(|path| path.extension().is_some_and(|e| e == "seg"));
        files.sort();
        for &at in missing {
            sim.remove(&files[at]).unwrap();
        }
        let source = Arc::clone(&stream) as Arc<dyn Source>;
        let first = missing[0] as u64 * 3;
        let (read, error, _) = scanned(&source, ScanOptions::default());
        assert_eq!(read, (0..first).collect::<Vec<_>>(), "without {missing:?}");
        let Some(AofError::Corrupt(damage)) = error else { panic!("{missing:?}: {error:?}") };
        assert_eq!((&damage.path, damage.records), (&files[missing[0]], first..first + 3));
        let left: Vec<u64> = (0..12).filter(|o| !missing.contains(&(*o as usize / 3))).collect();
        let skip = ScanOptions { on_corruption: OnCorruption::Skip, ..Default::default() };
        for start in [Start::Earliest, Start::Offset(0), Start::Offset(first)] {
            let from = if start == Start::Offset(first) { first } else { 0 };
            let expected: Vec<_> = left.iter().copied().filter(|o| *o >= from).collect();
            let (read, error, skipped) = scanned(&source, ScanOptions { start, ..skip });
            assert!(error.is_none(), "without {missing:?} from {start:?}: {error:?}");
            assert_eq!(read, expected, "without {missing:?} from {start:?}");
            assert_eq!(skipped, missing.len() as u64 * 3, "without {missing:?} from {start:?}");
        }
        let by_time = ScanOptions { start: Start::Timestamp(first + 1), ..skip };
        let (read, error, _) = scanned(&source, by_time);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(read, left.iter().copied().filter(|o| *o >= first).collect::<Vec<_>>());
        // Where the log does not begin there, another process sees the same.
        if missing[0] > 0 {
            let read: Vec<_> = reader.scan(skip).unwrap().map(|r| r.unwrap().offset).collect();
            assert_eq!(read, left, "without {missing:?} in another process");
        }
    }
}

/// Records of another stream of the same name, byte for byte in the right place, are not
/// ours.
pub(super) fn other_streams_bytes_are_refused() -> Result<(), String> {
    let write = |count: u8| -> Result<(SimStorage, std::path::PathBuf), String> {
        let sim = SimStorage::new();
        sim.seed_random(u64::from(count));
        let config = crate::write::tests::driver::config(SegmentFormat::Full);
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let stream =
            crate::write::stream::Stream::open(config, storage, Arc::new(sim.clock().clone()))
                .map_err(|e| e.to_string())?;
        for i in 0..count {
            let options = AppendOptions { timestamp_ms: Some(1), ..Default::default() };
            stream.append_now(&[i + 1; 64], &options).map_err(|e| e.to_string())?;
            stream.flush_until(stream.appended.position(), None).map_err(|e| e.to_string())?;
        }
        drop(stream);
        let path = segment_file(&sim);
        Ok((sim, path))
    };
    let (ours, our_path) = write(3)?;
    let (theirs, their_path) = write(4)?;
    let mut bytes = ours.read_file(&our_path).map_err(|e| e.to_string())?;
    let other = theirs.read_file(&their_path).map_err(|e| e.to_string())?;
    let record_4 = 64 + 3 * 96..64 + 4 * 96;
    bytes[record_4.clone()].copy_from_slice(&other[record_4]);
    ours.write_file(&our_path, &bytes).map_err(|e| e.to_string())?;
    let stream =
        open(&ours.image().after_kill(), SegmentFormat::Full).map_err(|e| e.to_string())?;
    match stream.appended.count() {
        3 => Ok(()),
        n => Err(format!("{n} records, one of them from another stream")),
    }
}

#[test]
fn bytes_of_another_stream_never_validate() {
    other_streams_bytes_are_refused().unwrap();
}

#[test]
fn files_of_another_stream_and_unknown_segments_are_refused_by_name() {
    let sim = written(SegmentFormat::Full, 3, true);
    sim.write_file("/data/log/segments/garbage.seg", &[1; 70_000]).unwrap();
    let opened = open(&sim, SegmentFormat::Full);
    assert!(
        matches!(&opened, Err(AofError::Foreign { path, .. }) if path.ends_with("garbage.seg")),
        "{opened:?}"
    );
    sim.remove(std::path::Path::new("/data/log/segments/garbage.seg")).unwrap();

    let other = SimStorage::new();
    let mut config = crate::write::tests::driver::config(SegmentFormat::Full);
    config.name = Some("another".into());
    let storage: Arc<dyn Storage> = Arc::new(other.clone());
    let stream =
        crate::write::stream::Stream::open(config, storage, Arc::new(other.clock().clone()))
            .unwrap();
    stream.append_now(b"foreign", &AppendOptions::default()).unwrap();
    stream.flush_until(stream.appended.position(), None).unwrap();
    drop(stream);
    let bytes = other.read_file(segment_file(&other)).unwrap();
    let name = crate::format::SegmentFileName {
        segment_id: crate::SegmentId::from_u64(1),
        base_offset: 500,
        created_at_ns: 7,
    };
    let path = format!("/data/log/segments/{name}");
    sim.write_file(&path, &bytes).unwrap();
    let opened = open(&sim, SegmentFormat::Full);
    assert!(matches!(opened, Err(AofError::Foreign { .. })), "{opened:?}");
}
