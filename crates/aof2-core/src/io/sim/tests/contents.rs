use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::io::sim::{Op, SimClock};
use crate::io::{Clock, OpenMode};

#[test]
fn maps_reads_and_writes_of_a_file_see_the_same_bytes() {
    let (sim, file) = machine_with("/f", 8192);
    let mut writer = writer_of(&file, 8192);
    let early = file.map(8192, false).unwrap();
    writer.write(100, b"through a map").unwrap();
    file.write_all_at(b"through a call", 4093).unwrap();
    let other = sim.open(Path::new("f"), OpenMode::Read).unwrap();
    let mut buf = [0; 13];
    other.read_exact_at(&mut buf, 100).unwrap();
    assert_eq!(&buf, b"through a map");
    early.observe(8192).unwrap();
    assert_eq!(early.bytes(4093, 4107).unwrap(), b"through a call");
    file.allocate(1 << 20).unwrap();
    file.write_all_at(b"later", 8000).unwrap();
    assert_eq!(early.bytes(8000, 8005).unwrap(), b"later", "growing a file moved its map");
}

#[test]
fn synced_bytes_survive_every_seed_and_unsynced_ones_some() {
    let (sim, file) = machine_with("/f", 64 << 10);
    let mut writer = writer_of(&file, 64 << 10);
    writer.write(0, &[1; 10_000]).unwrap();
    writer.map().sync(0, 10_000).unwrap();
    // The page that holds byte 9,999 was synced as a whole; the next one was not.
    writer.write(12_288, &[2; 4096]).unwrap();
    let image = sim.image();
    assert_eq!(image.dirty_sector_count(), 8);
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..500 {
        let bytes = after(&image, seed).read_file("/f").unwrap();
        assert_eq!(bytes.len(), 64 << 10);
        assert!(bytes[..10_000].iter().all(|&b| b == 1), "seed {seed}");
        assert!(bytes[10_000..12_288].iter().all(|&b| b == 0), "seed {seed}");
        assert!(bytes[16_384..].iter().all(|&b| b == 0), "seed {seed}");
        for sector in bytes[12_288..16_384].chunks(512) {
            match sector.iter().filter(|&&b| b == 2).count() {
                0 => lost += 1,
                512 => kept += 1,
                n => {
                    assert_eq!(n % 8, 0, "torn inside a word");
                    torn += 1;
                }
            }
        }
    }
    assert!(lost > 500 && kept > 500 && torn > 100, "{lost} {kept} {torn}");
}

#[test]
fn the_first_four_seeds_are_the_extremes() {
    let (sim, file) = machine_with("/f", 4096);
    file.write_all_at(b"new", 0).unwrap();
    let made = sim.create_new(Path::new("/made")).unwrap();
    made.write_all_at(b"abc", 0).unwrap();
    let image = sim.image();
    let state = |seed| {
        let machine = after(&image, seed);
        let made = machine.read_file("/made").ok();
        (machine.read_file("/f").unwrap()[..3].to_vec(), made)
    };
    assert_eq!(state(0), (vec![0; 3], None));
    assert_eq!(state(1), (b"new".to_vec(), Some(b"abc".to_vec())));
    assert_eq!(state(2), (vec![0; 3], Some(vec![])));
    assert_eq!(state(3), (b"new".to_vec(), None));
}

#[test]
fn same_seed_same_machine() {
    let (sim, file) = machine_with("/f", 64 << 10);
    file.write_all_at(&[7; 60_000], 3).unwrap();
    drop(sim.create_new(Path::new("/g")).unwrap());
    let image = sim.image();
    for seed in 4..50 {
        let (a, b) = (after(&image, seed), after(&image, seed));
        assert_eq!(names(&a), names(&b));
        assert_eq!(a.read_file("/f").unwrap(), b.read_file("/f").unwrap());
    }
}

#[test]
fn an_image_does_not_change_with_its_machine() {
    let (sim, file) = machine_with("/f", 4096);
    file.write_all_at(b"first", 0).unwrap();
    let image = sim.image();
    file.write_all_at(b"other", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(&after(&image, 1).read_file("/f").unwrap()[..5], b"first");
    assert_eq!(&after(&image, 0).read_file("/f").unwrap()[..5], &[0; 5]);
    let machine = after(&image, 1);
    machine.write_file("/f", b"changed").unwrap();
    assert_eq!(&after(&image, 1).read_file("/f").unwrap()[..5], b"first");
}

#[test]
fn an_unsynced_length_is_lost_or_kept_and_hides_what_lies_past_it() {
    let (sim, file) = machine_with("/f", 1000);
    file.write_all_at(&[9; 9500], 500).unwrap();
    let image = sim.image();
    let mut lens = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let machine = after(&image, seed);
        let len = machine.read_file("/f").unwrap().len();
        lens.insert(len);
        // Growing again must show zeros, not what was cut off.
        let file = machine.open(Path::new("/f"), OpenMode::ReadWrite).unwrap();
        file.allocate(20_000).unwrap();
        assert!(machine.read_file("/f").unwrap()[len..].iter().all(|&b| b == 0), "seed {seed}");
    }
    assert_eq!(lens.into_iter().collect::<Vec<_>>(), [1000, 10_000]);
    file.sync().unwrap();
    assert_eq!(after(&sim.image(), 0).read_file("/f").unwrap().len(), 10_000);
}

#[test]
fn writeback_lets_versions_between_two_syncs_survive() {
    let (sim, file) = machine_with("/f", 4096);
    for seed in 0.. {
        file.write_all_at(&[1; 512], 0).unwrap();
        sim.writeback(seed).unwrap();
        file.write_all_at(&[2; 512], 0).unwrap();
        let disk = after(&sim.image(), 0).read_file("/f").unwrap()[0];
        assert_ne!(disk, 2, "nothing wrote the last version");
        if disk == 1 {
            return;
        }
        assert!(seed < 100, "writeback never wrote the sector");
    }
}

#[test]
fn a_killed_process_leaves_everything_and_makes_nothing_durable() {
    let (sim, file) = machine_with("/f", 4096);
    file.write_all_at(b"seen", 0).unwrap();
    let _lock = sim.lock(Path::new("/LOCK")).unwrap();
    let next = sim.image().after_kill();
    assert_eq!(&next.read_file("/f").unwrap()[..4], b"seen");
    assert!(next.lock(Path::new("/LOCK")).is_ok());
    let image = next.image();
    assert_eq!((image.dirty_sector_count(), image.pending_name_count()), (1, 1));
    assert_eq!(&after(&image, 0).read_file("/f").unwrap()[..4], &[0; 4]);
    next.open(Path::new("/f"), OpenMode::Read).unwrap().sync().unwrap();
    assert_eq!(&after(&next.image(), 0).read_file("/f").unwrap()[..4], b"seen");
}

#[test]
fn holes_give_their_blocks_back_and_a_full_disk_says_so() {
    let sim = SimStorage::new();
    sim.set_capacity_len(Some(64 << 10));
    let file = durable_file(&sim, "/f", 48 << 10);
    let full = sim.create_new(Path::new("/g")).unwrap().allocate(20 << 10).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28));
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    file.write_all_at(&[1; 48 << 10], 0).unwrap();
    assert!(file.write_all_at(&[1; 20 << 10], 48 << 10).is_err());
    file.punch_hole(100, 16 << 10).unwrap();
    // Bytes 100 to 16,484 contain three whole pages.
    assert_eq!(file.allocated_len().unwrap(), (48 << 10) - 3 * 4096);
    assert_eq!((file.len().unwrap(), sim.used_len()), (48 << 10, (48 << 10) - 3 * 4096));
    let bytes = sim.read_file("/f").unwrap();
    assert!(bytes[..100].iter().chain(&bytes[16_484..]).all(|&b| b == 1));
    assert!(bytes[100..16_484].iter().all(|&b| b == 0));
    sim.open(Path::new("/g"), OpenMode::ReadWrite).unwrap().allocate(20 << 10).unwrap();
    assert!(sim.written_holes().unwrap().is_empty());
    writer_of(&file, 48 << 10).write(8192, &[1]).unwrap();
    assert_eq!(sim.written_holes().unwrap(), [("/f".into(), 8192)]);
    for seed in 0..50 {
        let machine = after(&sim.image(), seed);
        let file = machine.open(Path::new("/f"), OpenMode::Read).unwrap();
        assert!(file.allocated_len().unwrap() <= 48 << 10);
        assert!(machine.used_len() >= file.allocated_len().unwrap());
    }
    drop(file);
    sim.remove(Path::new("/f")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(sim.used_len(), 20 << 10);
}

#[test]
fn zero_range_keeps_blocks_and_extends() {
    let (sim, file) = machine_with("/f", 8192);
    file.write_all_at(&[5; 8192], 0).unwrap();
    file.zero_range(1, 8190).unwrap();
    let bytes = sim.read_file("/f").unwrap();
    assert_eq!((bytes[0], bytes[8191]), (5, 5));
    assert!(bytes[1..8191].iter().all(|&b| b == 0));
    assert_eq!(file.allocated_len().unwrap(), 8192);
    file.zero_range(8000, 1000).unwrap();
    assert_eq!(file.len().unwrap(), 9000);
}

#[test]
fn a_removed_file_lives_on_in_its_maps() {
    let (sim, file) = machine_with("/f", 4096);
    let mut writer = writer_of(&file, 4096);
    drop(file);
    sim.remove(Path::new("/f")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    let (_, other) = machine_with("/f", 4096);
    other.write_all_at(&[3; 4096], 0).unwrap();
    writer.write(0, &[4; 4096]).unwrap();
    writer.publish(4096).unwrap();
    assert!(writer.map().bytes(0, 4096).unwrap().iter().all(|&b| b == 4));
    writer.map().sync(0, 4096).unwrap();
}

#[test]
fn reused_memory_shows_nothing_of_the_file_before() {
    for round in 0..100 {
        let (sim, file) = machine_with("/f", 64 << 10);
        assert!(sim.read_file("/f").unwrap().iter().all(|&b| b == 0), "round {round}");
        writer_of(&file, 64 << 10).write(0, &[0xEE; 64 << 10]).unwrap();
    }
}

#[test]
fn tampering_is_durable_and_uncounted() {
    let (sim, _file) = machine_with("/f", 4096);
    let calls = sim.calls();
    sim.write_file("/new/dir/g", b"hello").unwrap();
    sim.flip_bit("/new/dir/g", 8).unwrap();
    assert!(sim.flip_bit("/new/dir/g", 40).is_err());
    sim.write_file("/f", b"short").unwrap();
    let machine = after(&sim.image(), 0);
    assert!(sim.image().is_all_durable());
    assert_eq!(names(&machine), ["/f", "/new/dir/g"]);
    assert_eq!(machine.read_file("/new/dir/g").unwrap(), b"hdllo");
    assert_eq!(machine.read_file("/f").unwrap(), b"short");
    assert_eq!(sim.calls(), calls);
}

#[test]
fn a_clock_moves_as_told_and_dates_files() {
    let clock = SimClock::new(5);
    let sim = SimStorage::with_clock(clock.clone());
    clock.set_step_ns(2);
    assert_eq!((clock.now_ns(), clock.now_ns(), clock.peek_ns()), (5, 7, 9));
    assert_eq!(clock.ticks(), None);
    let file = sim.create_new(Path::new("/f")).unwrap();
    clock.advance_ms(1);
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!(file.modified_ns().unwrap(), 1_000_009);
    assert_eq!(clock.peek_ns(), 1_000_009, "dating a file moves no clock");
}

#[test]
fn locks_exclude_until_dropped() {
    let sim = SimStorage::new();
    let lock = sim.lock(Path::new("/LOCK")).unwrap();
    let held = sim.clone().lock(Path::new("LOCK")).unwrap_err();
    assert!(matches!(held, crate::io::LockError::Held { pid: 1 }));
    assert_eq!(names(&sim), ["/LOCK"]);
    assert!(after(&sim.image(), 1).lock(Path::new("/LOCK")).is_ok());
    drop(lock);
    assert!(sim.lock(Path::new("/LOCK")).is_ok());
    sim.fail_when(|call| (call.op == Op::Lock).then_some(crate::io::sim::Fault::Os(13)));
    assert!(matches!(sim.lock(Path::new("/LOCK")), Err(crate::io::LockError::Io(_))));
}

#[test]
fn words_are_part_of_the_file() {
    let (sim, file) = machine_with("/w", 4096);
    let page = file.map_words(4096, true).unwrap();
    let reader = Arc::clone(&file).map_words(4096, false).unwrap();
    page.store(8, 77);
    reader.store(16, 1);
    assert_eq!((reader.load(8), reader.load(16)), (77, 0));
    assert_eq!(after(&sim.image(), 0).read_file("/w").unwrap()[8], 0);
    page.sync().unwrap();
    assert_eq!(after(&sim.image(), 0).read_file("/w").unwrap()[8], 77);
}
