//! A sealed segment that cannot be mapped is read by windows, and says the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::driver::{ROOT, config};
use crate::format::SegmentFormat;
use crate::io::Storage;
use crate::io::sim::{Fault, Op, SimStorage};
use crate::read::{AofReader, OnCorruption, ScanOptions, Start, Visibility};
use crate::write::AppendOptions;
use crate::write::config::FlushConfig;
use crate::write::stream::Stream;

/// Offset, id, timestamp, payload.
type Row = (u64, u64, u64, Vec<u8>);

/// Two segments of several windows, with records of all lengths, one longer than a window.
fn written(format: SegmentFormat, keeps_index: bool) -> SimStorage {
    let sim = SimStorage::new();
    let mut config = config(format).segment_bytes(1 << 20);
    config.enable_sparse_index = keeps_index;
    config.flush = FlushConfig::default();
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let stream = Stream::open(config, storage, Arc::new(sim.clock().clone())).unwrap();
    let mut time = 1_000;
    for _ in 0..2 {
        for i in 0..400_usize {
            let len = if i == 77 { 300 << 10 } else { 1 + (i * i) % 3_000 };
            time += (i as u64) % 3;
            let options = AppendOptions { timestamp_ms: Some(time), ..Default::default() };
            stream.append_now(&vec![i as u8; len], &options).unwrap();
        }
        let _ = stream.start_seal(false).unwrap();
        while stream.prepare_step().unwrap() {}
        while stream.finalize_step().unwrap() {}
    }
    stream.close().unwrap();
    sim
}

fn segment_files(sim: &SimStorage) -> Vec<PathBuf> {
    sim.files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "seg")).collect()
}

/// There is no space for a map of a segment, from now on.
fn refuse_maps(sim: &SimStorage) {
    sim.fail_when(|call| {
        let is_segment = call.path.extension().is_some_and(|e| e == "seg");
        (call.op == Op::Map && is_segment).then_some(Fault::Os(libc::ENOMEM))
    });
}

fn reader(sim: &SimStorage) -> AofReader {
    AofReader::open_on(Arc::new(sim.clone()), Path::new(ROOT)).unwrap()
}

fn rows(reader: &AofReader, options: ScanOptions) -> (Vec<Row>, u64) {
    let mut scan = reader.scan(options).unwrap();
    let mut rows = Vec::new();
    while let Some(r) = scan.next_record().unwrap() {
        rows.push((r.offset, r.id.as_u64(), r.timestamp_ms, r.payload.to_vec()));
    }
    (rows, scan.skipped())
}

#[test]
fn a_segment_that_cannot_be_mapped_reads_the_same() {
    for (format, keeps_index) in [
        (SegmentFormat::Full, true),
        (SegmentFormat::Full, false),
        (SegmentFormat::Compact, true),
        (SegmentFormat::Compact, false),
    ] {
        let sim = written(format, keeps_index);
        let mapped = reader(&sim);
        let (expected, _) = rows(&mapped, ScanOptions::default());
        assert_eq!(expected.len(), 800);
        refuse_maps(&sim);
        let by_windows = reader(&sim);
        assert_eq!(rows(&by_windows, ScanOptions::default()).0, expected, "{format}");
        for (offset, id, timestamp, payload) in expected.iter().step_by(37) {
            let record = by_windows.read(crate::RecordId::from_u64(*id)).unwrap();
            assert_eq!((record.offset, &*record.payload), (*offset, &payload[..]));
            assert_eq!(by_windows.read_offset(*offset).unwrap().id.as_u64(), *id);
            let found = by_windows.offset_at(*timestamp, Visibility::Durable).unwrap();
            assert_eq!(found, mapped.offset_at(*timestamp, Visibility::Durable).unwrap());
            let from = ScanOptions { start: Start::Offset(*offset), ..Default::default() };
            assert_eq!(rows(&by_windows, from).0[..], expected[*offset as usize..]);
        }
        // With space again it is mapped again.
        sim.clear_faults();
        assert_eq!(rows(&by_windows, ScanOptions::default()).0, expected);
    }
}

#[test]
fn damage_costs_the_same_records_by_windows() {
    for keeps_index in [true, false] {
        let sim = written(SegmentFormat::Full, keeps_index);
        let path = &segment_files(&sim)[0];
        let skip = ScanOptions { on_corruption: OnCorruption::Skip, ..Default::default() };
        for byte in [70_u64, 5_000, 200_000, 400_001, 700_007] {
            sim.flip_bit(path, byte * 8).unwrap();
            let expected = rows(&reader(&sim), skip);
            assert!(expected.1 > 0, "byte {byte} is in a record");
            refuse_maps(&sim);
            assert_eq!(rows(&reader(&sim), skip), expected, "byte {byte}, index {keeps_index}");
            sim.clear_faults();
            sim.flip_bit(path, byte * 8).unwrap();
        }
    }
}
