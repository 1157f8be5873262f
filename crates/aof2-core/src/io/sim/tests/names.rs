use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn outcomes(sim: &SimStorage) -> BTreeSet<Vec<String>> {
    let image = sim.image();
    (0..300).map(|seed| names(&after(&image, seed))).collect()
}

fn sets(expected: &[&[&str]]) -> BTreeSet<Vec<String>> {
    expected.iter().map(|names| names.iter().map(ToString::to_string).collect()).collect()
}

#[test]
fn a_name_is_lost_or_kept_until_its_directory_is_synced() {
    let sim = SimStorage::new();
    let file = sim.create_new(Path::new("/f")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&sim), sets(&[&[], &["/f"]]));
    assert!(names(&after(&sim.image(), 0)).is_empty());
    // Its contents are safe if its name is.
    assert_eq!(after(&sim.image(), 2).read_file("/f").unwrap(), b"x");
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&["/f"]]));
    sim.remove(Path::new("/f")).unwrap();
    assert!(!sim.exists(Path::new("/f")).unwrap());
    assert_eq!(outcomes(&sim), sets(&[&[], &["/f"]]));
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&[]]));
}

#[test]
fn pending_names_are_independent() {
    let sim = SimStorage::new();
    sim.create_new(Path::new("/a")).unwrap();
    sim.create_new(Path::new("/b")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&[], &["/a"], &["/b"], &["/a", "/b"]]));
}

#[test]
fn a_rename_in_a_directory_is_atomic() {
    let sim = SimStorage::new();
    sim.write_file("/target", b"old").unwrap();
    sim.write_file("/tmp", b"new").unwrap();
    sim.rename(Path::new("/tmp"), Path::new("/target")).unwrap();
    let image = sim.image();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let machine = after(&image, seed);
        seen.insert((machine.read_file("/target").unwrap(), machine.read_file("/tmp").ok()));
    }
    let old = (b"old".to_vec(), Some(b"new".to_vec()));
    assert_eq!(seen, BTreeSet::from([old, (b"new".to_vec(), None)]));
}

#[test]
fn a_rename_across_directories_never_loses_the_file() {
    let start = || {
        let sim = SimStorage::new();
        sim.write_file("/a/f", b"x").unwrap();
        sim.write_file("/b/g", b"y").unwrap();
        sim.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
        sim
    };
    let (nothing, both, done) = (["/a/f", "/b/g"], ["/a/f", "/b/f", "/b/g"], ["/b/f", "/b/g"]);
    assert_eq!(outcomes(&start()), sets(&[&nothing, &both, &done]));
    let sim = start();
    sim.sync_dir(Path::new("/b")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&both, &done]));
    let sim = start();
    sim.sync_dir(Path::new("/a")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&done]));
}

#[test]
fn two_names_of_one_file_share_its_bytes_and_renaming_one_over_the_other_does_nothing() {
    let sim = SimStorage::new();
    sim.write_file("/a/f", b"x").unwrap();
    sim.create_dir_all(Path::new("/b")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    sim.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    let both = (0..100).map(|seed| after(&sim.image(), seed)).find(|m| m.files().len() == 2);
    let machine = both.unwrap();
    machine.flip_bit("/a/f", 0).unwrap();
    assert_eq!(machine.read_file("/b/f").unwrap(), b"y");
    machine.rename(Path::new("/a/f"), Path::new("/b/f")).unwrap();
    assert_eq!(names(&machine), ["/a/f", "/b/f"]);
}

#[test]
fn a_lost_directory_takes_everything_in_it() {
    let sim = SimStorage::new();
    sim.create_dir_all(Path::new("/x/y")).unwrap();
    let file = sim.create_new(Path::new("/x/y/f")).unwrap();
    file.sync().unwrap();
    sim.sync_dir(Path::new("/x/y")).unwrap();
    sim.sync_dir(Path::new("/x")).unwrap();
    assert!(names(&after(&sim.image(), 0)).is_empty(), "the root was not synced");
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names(&after(&sim.image(), 0)), ["/x/y/f"]);
}

#[test]
fn a_failed_directory_sync_is_not_made_good_by_the_next() {
    use crate::io::sim::Fault;
    let sim = SimStorage::new();
    sim.create_new(Path::new("/early")).unwrap();
    sim.fail_at(sim.calls(), Fault::Os(5));
    assert_eq!(sim.sync_dir(Path::new("/")).unwrap_err().raw_os_error(), Some(5));
    sim.create_new(Path::new("/late")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&["/late"], &["/early", "/late"]]));
    // What follows on the same name wins, whatever became of the doomed change.
    sim.rename(Path::new("/early"), Path::new("/moved")).unwrap();
    sim.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&sim), sets(&[&["/late", "/moved"]]));
}

#[test]
fn journaled_names_are_not_lost() {
    let sim = SimStorage::new();
    sim.create_new(Path::new("/a")).unwrap();
    let journaled = CrashOptions { lose_names: false, ..CrashOptions::default() };
    for seed in 0..20 {
        assert_eq!(names(&sim.image().materialize(seed, &journaled)), ["/a"]);
    }
}
