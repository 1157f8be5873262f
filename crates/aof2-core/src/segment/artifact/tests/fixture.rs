//! Segments with records and gaps, laid out by hand, and sources that count.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::error::Result;
use crate::format::{
    FOOTER_PARTIAL, FOOTER_SEALED, RecordFlags, RecordMeta, SEGMENT_BYTES_MIN, SEGMENT_FOOTER_LEN,
    SEGMENT_HEADER_LEN, SegmentFooter, SegmentFormat, SegmentId, StreamId, crc64,
};
use crate::io::sim::SimStorage;
use crate::io::{OpenMode, Storage};
use crate::segment::artifact::{
    Artifact, ArtifactOptions, ArtifactSource, FileSource, Written, write_artifact,
};
use crate::segment::{Segment, SegmentMeta};

pub(super) const SEGMENTS: &str = "/log/segments";
pub(super) const WARM: &str = "/log/warm/artifact.zst";
pub(super) const SEALED_AT_NS: u64 = 77;
/// The smallest frames there are.
pub(super) const SMALL: ArtifactOptions = ArtifactOptions { level: 3, frame_bytes: 4096 };

/// What stands in a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Record { len: usize, timestamp_ms: u64, is_random: bool },
    Gap { lost_count: u64, words: usize },
}

/// A record or gap and its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) position: u32,
    pub(super) offset: u64,
    pub(super) timestamp_ms: u64,
    pub(super) is_gap: bool,
    pub(super) payload: Vec<u8>,
}

/// A sealed segment file.
#[derive(Clone, Debug)]
pub(super) struct Fixture {
    pub(super) meta: SegmentMeta,
    /// The whole file.
    pub(super) file: Vec<u8>,
    pub(super) durable_bytes: usize,
    pub(super) footer: [u8; SEGMENT_FOOTER_LEN],
    pub(super) placed: Vec<Placed>,
}

/// Bytes that compress or do not.
pub(super) fn payload(seed: u64, len: usize, is_random: bool) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    match is_random {
        true => std::iter::repeat_with(|| rng.u8(..)).take(len).collect(),
        false => format!("record number {seed}, ").bytes().cycle().take(len).collect(),
    }
}

impl Fixture {
    pub(super) fn new(format: SegmentFormat, items: &[Item]) -> Self {
        let mut meta = SegmentMeta {
            stream_id: StreamId::legacy_of_name("events"),
            segment_id: SegmentId::from_u64(5),
            format,
            base_offset: 123_456,
            first_offset: 1_000,
            created_at_ns: 9_000_000,
            segment_bytes: SEGMENT_BYTES_MIN as u32,
        };
        let codec = meta.codec();
        let mut records = Vec::new();
        let mut placed = Vec::new();
        let (mut offset, mut last_timestamp_ms) = (meta.first_offset, 0);
        for (i, item) in items.iter().enumerate() {
            let position = (SEGMENT_HEADER_LEN + records.len()) as u32;
            match *item {
                Item::Record { len, timestamp_ms, is_random } => {
                    let payload = payload(i as u64 + 1, len, is_random);
                    let record = RecordMeta {
                        logical_offset: offset,
                        timestamp_ms,
                        flags: RecordFlags::NONE,
                        durable_lag: 0,
                    };
                    records.extend_from_slice(codec.encode_header(&record, &payload).as_bytes());
                    records.extend_from_slice(&payload);
                    records.resize(records.len().next_multiple_of(8), 0);
                    placed.push(Placed { position, offset, timestamp_ms, is_gap: false, payload });
                    last_timestamp_ms = last_timestamp_ms.max(timestamp_ms);
                    offset += 1;
                }
                Item::Gap { lost_count, words } => {
                    let len = codec.header_len() + 8 * words;
                    let gap = codec.encode_gap(offset, lost_count, len).unwrap();
                    let payload = gap[codec.header_len()..].to_vec();
                    records.extend_from_slice(&gap);
                    placed.push(Placed {
                        position,
                        offset,
                        timestamp_ms: 0,
                        is_gap: true,
                        payload,
                    });
                    offset += lost_count;
                }
            }
        }
        let durable_bytes = SEGMENT_HEADER_LEN + records.len();
        let needed = durable_bytes + SEGMENT_FOOTER_LEN;
        meta.segment_bytes = needed.next_power_of_two().max(SEGMENT_BYTES_MIN as usize) as u32;
        let mut file = meta.header(1).encode().to_vec();
        file.extend_from_slice(&records);
        let compact = format == SegmentFormat::Compact;
        let last = placed.last().map_or(0, |p| p.position);
        let footer = SegmentFooter {
            format,
            record_count: offset - meta.first_offset,
            durable_bytes: durable_bytes as u64,
            segment_crc64: crc64(&file),
            ext_id: if compact { 0 } else { 42 },
            flags: if compact { FOOTER_SEALED } else { FOOTER_SEALED | FOOTER_PARTIAL },
            last_timestamp_ms,
            segment_id: compact.then_some(meta.segment_id),
            last_record_id: compact.then(|| meta.record_id(last)),
            sealed_at_ns: compact.then_some(SEALED_AT_NS),
        }
        .encode();
        file.resize(meta.space_end() as usize, 0);
        file.extend_from_slice(&footer);
        Self { meta, file, durable_bytes, footer, placed }
    }

    /// A few records of each kind, about as long as three frames of [`SMALL`].
    pub(super) fn mixed(format: SegmentFormat) -> Self {
        let mut items: Vec<Item> = (0..90)
            .map(|i| Item::Record {
                len: 60 + i % 40,
                timestamp_ms: 500 + 3 * i as u64,
                is_random: i % 7 == 0,
            })
            .collect();
        items.insert(40, Item::Gap { lost_count: 11, words: 20 });
        items.insert(41, Item::Gap { lost_count: 0, words: 2 });
        items.push(Item::Record { len: 2_000, timestamp_ms: 400, is_random: false });
        Self::new(format, &items)
    }

    /// What decompressing the artifact must give.
    pub(super) fn stored(&self) -> Vec<u8> {
        [&self.file[..self.durable_bytes], &self.footer].concat()
    }

    pub(super) fn path(&self) -> PathBuf {
        Path::new(SEGMENTS).join(self.meta.file_name().to_string())
    }

    /// Puts the segment file into the storage and maps it.
    pub(super) fn store(&self, storage: &dyn Storage) -> Segment {
        storage.create_dir_all(Path::new(SEGMENTS)).unwrap();
        storage.create_dir_all(Path::new(WARM).parent().unwrap()).unwrap();
        let file = storage.create_new(&self.path()).unwrap();
        file.write_all_at(&self.file, 0).unwrap();
        let durable_bytes = self.durable_bytes as u32;
        Segment::open_sealed(storage, &self.path(), self.meta, durable_bytes).unwrap()
    }

    /// The artifact in a fresh storage, which also has the segment.
    pub(super) fn compress(&self, options: &ArtifactOptions) -> (SimStorage, Written) {
        let sim = SimStorage::new();
        let segment = self.store(&sim);
        let out = sim.create_new(Path::new(WARM)).unwrap();
        let written = write_artifact(&segment, &self.footer, SEALED_AT_NS, options, &*out).unwrap();
        assert_eq!(out.len().unwrap(), written.len);
        (sim, written)
    }

    /// The artifact's bytes.
    pub(super) fn artifact(&self, options: &ArtifactOptions) -> Vec<u8> {
        read_file(&self.compress(options).0, Path::new(WARM))
    }
}

pub(super) fn read_file(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(super) fn open_file(storage: &dyn Storage) -> Artifact {
    Artifact::open(Arc::new(FileSource::open(storage, WARM).unwrap())).unwrap()
}

/// An artifact in memory that counts what is read.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) bytes: Vec<u8>,
    pub(super) reads: AtomicU64,
    pub(super) longest: AtomicU64,
    pub(super) announced: Mutex<Vec<std::ops::Range<u64>>>,
}

impl Memory {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, ..Self::default() })
    }

    pub(super) fn take_reads(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

impl ArtifactSource for Memory {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<bytes::Bytes> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(len > 0, "an empty read");
        self.longest.fetch_max(len as u64, Ordering::Relaxed);
        let offset = offset as usize;
        Ok(self.bytes[offset..offset + len].to_vec().into())
    }

    fn name(&self) -> &Path {
        Path::new("memory.zst")
    }

    fn announce(&self, range: std::ops::Range<u64>) {
        self.announced.lock().push(range);
    }
}

pub(super) fn open_bytes(bytes: Vec<u8>) -> Result<Artifact> {
    Artifact::open(Memory::new(bytes))
}
