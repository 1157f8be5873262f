//! Run with `--ignored --nocapture` to see what a crash state costs.

use std::time::Instant;

use super::*;
use crate::io::OpenMode;

#[test]
#[ignore = "measures"]
fn cost_of_a_crash_state() {
    let sim = SimStorage::new();
    for i in 0..4 {
        let file = durable_file(&sim, &format!("/f{i}"), 64 << 10);
        file.write_all_at(&[i + 1; 48 << 10], 0).unwrap();
        file.sync().unwrap();
        file.write_all_at(&[i + 9; 8 << 10], 44 << 10).unwrap();
    }
    let rounds: u32 = 20_000;
    let time = |what: &str, run: &dyn Fn(u64)| {
        let start = Instant::now();
        (0..u64::from(rounds)).for_each(run);
        println!("{what}: {:?}", start.elapsed() / rounds);
    };
    let image = sim.image();
    println!("{image:?}");
    time("image", &|_| drop(sim.image()));
    time("materialize", &|seed| drop(after(&image, seed)));
    time("materialize and map all", &|seed| {
        let machine = after(&image, seed);
        for i in 0..4 {
            let file = machine.open(Path::new(&format!("/f{i}")), OpenMode::ReadWrite).unwrap();
            drop(file.map(64 << 10, true).unwrap());
        }
    });
    let file = sim.open(Path::new("/f0"), OpenMode::ReadWrite).unwrap();
    time("write and sync of 4 KiB", &|seed| {
        file.write_all_at(&[seed as u8; 4096], 8192).unwrap();
        file.sync().unwrap();
    });
}
