//! After a failed sync the page cache shows what the disk does not have.

use std::path::Path;

use super::*;
use crate::io::OpenMode;
use crate::io::sim::{Fault, Op};

/// A file whose first two sectors were written and then failed to sync.
fn lying_machine() -> (SimStorage, Arc<dyn File>) {
    let (sim, file) = machine_with("/f", 8192);
    file.write_all_at(&[1; 1024], 0).unwrap();
    sim.fail_at(sim.calls(), Fault::Os(5));
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    (sim, file)
}

fn on_disk(sim: &SimStorage) -> Vec<u8> {
    after(&sim.image(), 0).read_file("/f").unwrap()
}

#[test]
fn a_later_sync_does_not_write_what_a_failed_one_left() {
    let (sim, file) = lying_machine();
    file.write_all_at(&[2; 512], 4096).unwrap();
    file.sync().unwrap();
    assert_eq!(sim.read_file("/f").unwrap()[..1024], [1; 1024]);
    let disk = on_disk(&sim);
    assert_eq!(disk[..1024], [0; 1024]);
    assert_eq!(disk[4096..4608], [2; 512]);
    // Nor does the kernel by itself, nor any power cut by luck.
    (0..50).for_each(|seed| sim.writeback(seed).unwrap());
    let image = sim.image();
    for seed in (0..100).filter(|&seed| seed != 1) {
        assert_eq!(after(&image, seed).read_file("/f").unwrap()[..1024], [0; 1024]);
    }
    assert_eq!(after(&image, 1).read_file("/f").unwrap()[..1024], [1; 1024]);
}

#[test]
fn writing_again_even_the_same_bytes_makes_a_sector_dirty_again() {
    let (sim, file) = lying_machine();
    file.write_all_at(&[1; 10], 600).unwrap();
    file.sync().unwrap();
    let disk = on_disk(&sim);
    assert_eq!(disk[..512], [0; 512]);
    assert_eq!(disk[512..1024], [1; 512]);
}

#[test]
fn storing_through_a_map_counts_where_it_changes_bytes() {
    let (sim, file) = lying_machine();
    let mut writer = writer_of(&file, 8192);
    writer.write(0, &[1; 512]).unwrap();
    writer.write(512, &[3]).unwrap();
    writer.map().sync(0, 8192).unwrap();
    let disk = on_disk(&sim);
    assert_eq!(disk[..512], [0; 512]);
    assert_eq!(disk[512..514], [3, 1]);
    // The second sector is honest now: its old bytes are no longer a lie.
    writer.write(512, &[1]).unwrap();
    writer.map().sync(0, 8192).unwrap();
    assert_eq!(on_disk(&sim)[512..514], [1, 1]);
}

#[test]
fn only_the_range_of_a_failed_map_sync_lies() {
    let (sim, file) = machine_with("/f", 8192);
    let mut writer = writer_of(&file, 8192);
    writer.write(0, &[1; 8192]).unwrap();
    sim.fail_when(|call| {
        (call.op == Op::MapSync).then_some(Fault::Error(std::io::ErrorKind::Other))
    });
    assert!(writer.map().sync(0, 10).is_err());
    sim.clear_faults();
    writer.map().sync(0, 8192).unwrap();
    let disk = on_disk(&sim);
    assert_eq!(disk[..4096], [0; 4096]);
    assert_eq!(disk[4096..], [1; 4096]);
}

#[test]
fn lies_outlive_the_process() {
    let (sim, _file) = lying_machine();
    let next = sim.image().after_kill();
    let file = next.open(Path::new("/f"), OpenMode::ReadWrite).unwrap();
    file.sync().unwrap();
    assert_eq!(next.read_file("/f").unwrap()[0], 1);
    assert_eq!(on_disk(&next)[0], 0);
}

#[test]
fn the_kernel_writing_other_bytes_ends_a_lie() {
    for seed in 0.. {
        let (sim, file) = lying_machine();
        let mut writer = writer_of(&file, 8192);
        writer.write(0, &[4; 512]).unwrap();
        sim.writeback(seed).unwrap();
        let was_written = on_disk(&sim)[0] == 4;
        // Back to the bytes of the failed sync: honestly dirty only if others were
        // written meanwhile.
        writer.write(0, &[1; 512]).unwrap();
        writer.map().sync(0, 8192).unwrap();
        assert_eq!(on_disk(&sim)[0], u8::from(was_written), "seed {seed}");
        if was_written {
            return;
        }
        assert!(seed < 100, "writeback never wrote the sector");
    }
}
