//! Random operations on a file against a model without any cleverness: per sector,
//! the versions that the disk may hold.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::io::sim::Fault;

const LEN: usize = 16 << 10;
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Store(usize, usize, u8),
    Zero(usize, usize),
    Punch(usize, usize),
    Sync,
    MapSync(usize, usize),
    FailSync,
    FailMapSync(usize, usize),
    Writeback(u64),
    Kill,
}

#[derive(Clone)]
struct Sector {
    seen: Vec<u8>,
    /// What the disk may hold: the last synced version, or one written back since.
    disk: Vec<Vec<u8>>,
    /// Bytes that a failed sync claims to have written.
    lie: Option<Vec<u8>>,
    /// The kernel may have written other bytes since, which ends the lie.
    is_lie_unsure: bool,
}

impl Sector {
    fn is_lie(&self) -> bool {
        self.lie.as_ref() == Some(&self.seen)
    }
}

struct Model {
    sectors: Vec<Sector>,
    len: usize,
    disk_lens: BTreeSet<usize>,
}

impl Model {
    fn new() -> Self {
        let zeros = vec![0; SECTOR];
        let sector =
            Sector { seen: zeros.clone(), disk: vec![zeros], lie: None, is_lie_unsure: false };
        Self { sectors: vec![sector; 2 * LEN / SECTOR], len: 0, disk_lens: [0].into() }
    }

    fn put(&mut self, start: usize, len: usize, byte: u8, is_call: bool) {
        for at in start..start + len {
            let sector = &mut self.sectors[at / SECTOR];
            sector.seen[at % SECTOR] = byte;
            if is_call {
                sector.lie = None;
            }
        }
    }

    /// The sectors of the pages that a range touches.
    fn pages(&mut self, start: usize, end: usize) -> &mut [Sector] {
        let end = end.min(self.len).next_multiple_of(4096).max(start / 4096 * 4096);
        &mut self.sectors[start / 4096 * 8..end / SECTOR]
    }

    fn sync(&mut self, start: usize, end: usize) {
        for sector in self.pages(start, end) {
            // A lie that holds exactly what is seen is believed; where the disk
            // already has the same bytes nothing is wrong with it.
            if !sector.is_lie() || sector.disk == [sector.seen.clone()] {
                sector.disk = vec![sector.seen.clone()];
                sector.lie = None;
            } else if sector.is_lie_unsure {
                sector.disk.push(sector.seen.clone());
            }
        }
        self.disk_lens = [self.len].into();
    }

    fn fail_sync(&mut self, start: usize, end: usize) {
        for sector in self.pages(start, end) {
            if sector.disk != [sector.seen.clone()] {
                sector.lie = Some(sector.seen.clone());
                sector.is_lie_unsure = false;
            }
        }
    }

    fn writeback(&mut self) {
        for sector in &mut self.sectors {
            if !sector.is_lie() || sector.is_lie_unsure {
                sector.disk.push(sector.seen.clone());
                sector.is_lie_unsure = true;
            }
        }
        self.disk_lens.insert(self.len);
    }

    fn check(&self, seed: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() != self.len && (seed == 1 || !self.disk_lens.contains(&bytes.len())) {
            return Err(format!("length {}", bytes.len()));
        }
        for (index, sector) in self.sectors.iter().enumerate() {
            let start = (index * SECTOR).min(bytes.len());
            let found = &bytes[start..(start + SECTOR).min(bytes.len())];
            let is_lie = sector.is_lie() && !sector.is_lie_unsure;
            let matches = |old: &Vec<u8>| match seed {
                0 | 2 => found == &old[..found.len()],
                1 => found == &sector.seen[..found.len()],
                _ => found.chunks(8).enumerate().all(|(word, chunk)| {
                    let at = |version: &[u8]| version[word * 8..][..chunk.len()] == *chunk;
                    at(old) || (!is_lie && at(&sector.seen))
                }),
            };
            if !sector.disk.iter().any(matches) {
                return Err(format!("sector {index} is none of its versions"));
            }
        }
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..LEN, 1..3000_usize);
    prop_oneof![
        4 => (range(), any::<u8>()).prop_map(|((o, l), b)| Step::Write(o, l, b)),
        4 => (range(), any::<u8>()).prop_map(|((o, l), b)| Step::Store(o, l, b)),
        1 => range().prop_map(|(o, l)| Step::Zero(o, l)),
        1 => range().prop_map(|(o, l)| Step::Punch(o, l)),
        1 => Just(Step::Sync),
        2 => range().prop_map(|(o, l)| Step::MapSync(o, l)),
        1 => Just(Step::FailSync),
        1 => range().prop_map(|(o, l)| Step::FailMapSync(o, l)),
        1 => any::<u64>().prop_map(Step::Writeback),
        1 => Just(Step::Kill),
    ]
}

/// Runs one step on both; the steps never shrink a file, as nothing in a log does.
fn run(sim: &mut SimStorage, model: &mut Model, step: &Step) {
    let open =
        |sim: &SimStorage| sim.open(Path::new("/f"), crate::io::OpenMode::ReadWrite).unwrap();
    let file = open(sim);
    let fail = || sim.fail_at(sim.calls(), Fault::Os(5));
    let clamp = |o: usize, l: usize, len: usize| (o.min(len), (o + l).min(len));
    match *step {
        Step::Write(offset, len, byte) => {
            file.write_all_at(&vec![byte; len], offset as u64).unwrap();
            model.put(offset, len, byte, true);
            model.len = model.len.max(offset + len);
        }
        Step::Store(offset, len, byte) => {
            let (start, end) = clamp(offset, len, model.len);
            writer_of(&file, model.len).write(start, &vec![byte; end - start]).unwrap();
            model.put(start, end - start, byte, false);
        }
        Step::Zero(offset, len) => {
            file.zero_range(offset as u64, len as u64).unwrap();
            model.put(offset, len, 0, true);
            model.len = model.len.max(offset + len);
        }
        Step::Punch(offset, len) => {
            file.punch_hole(offset as u64, len as u64).unwrap();
            let (start, end) = clamp(offset, len, model.len);
            model.put(start, end - start, 0, true);
        }
        Step::Sync => {
            file.sync().unwrap();
            model.sync(0, model.len);
        }
        Step::MapSync(offset, len) => {
            let (start, end) = clamp(offset, len, model.len);
            file.map(model.len, false).unwrap().sync(start, end).unwrap();
            if start < end {
                model.sync(start, end);
            }
        }
        Step::FailSync => {
            fail();
            file.sync().unwrap_err();
            model.fail_sync(0, model.len);
        }
        Step::FailMapSync(offset, len) => {
            let (start, end) = clamp(offset, len, model.len);
            let map = file.map(model.len, false).unwrap();
            if start < end {
                fail();
                map.sync(start, end).unwrap_err();
                model.fail_sync(start, end);
            }
        }
        Step::Writeback(seed) => {
            sim.writeback(seed).unwrap();
            model.writeback();
        }
        Step::Kill => *sim = sim.image().after_kill(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_cut_leaves_old_new_or_mixed_sectors_only(
        steps in prop::collection::vec(step(), 1..25),
        seeds in any::<u64>(),
    ) {
        let mut sim = SimStorage::new();
        sim.create_new(Path::new("/f")).unwrap();
        sim.sync_dir(Path::new("/")).unwrap();
        let mut model = Model::new();
        for step in &steps {
            run(&mut sim, &mut model, step);
        }
        let seen = sim.read_file("/f").unwrap();
        prop_assert_eq!(seen.len(), model.len);
        let image = sim.image();
        for seed in (0..4).chain(seeds..seeds.saturating_add(16)) {
            let machine = after(&image, seed);
            let bytes = machine.read_file("/f").unwrap();
            if let Err(what) = model.check(seed, &bytes) {
                prop_assert!(false, "seed {}: {}", seed, what);
            }
            prop_assert!(machine.image().is_all_durable());
        }
    }
}
