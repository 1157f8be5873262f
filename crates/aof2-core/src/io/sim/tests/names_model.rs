//! Random directory changes against every outcome that a plain enumeration finds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;

use super::*;

const PATHS: [&str; 5] = ["/a/1", "/a/2", "/a/3", "/b/1", "/b/2"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Remove(usize),
    Rename(usize, usize),
    SyncDir(usize),
}

/// Path to contents; contents tell files apart.
type Table = BTreeMap<usize, u8>;

/// All tables the disk may hold. Small, because nothing is ever folded away by
/// cleverness: each change doubles or triples the set, each sync picks from it.
///
/// A world is a table plus which changes are still open; syncing a directory makes
/// the worlds that lost one of its changes impossible.
#[derive(Clone)]
struct Worlds {
    /// Table and, per change, how far it got: 0 lost, 1 new name only, 2 done.
    worlds: Vec<(Table, Vec<u8>)>,
    /// Directories a change touched: (removed from, added to).
    touched: Vec<(char, char)>,
}

fn dir_of(path: usize) -> char {
    PATHS[path].chars().nth(1).unwrap()
}

impl Worlds {
    fn change(&mut self, dirs: (char, char), apply: impl Fn(&mut Table, u8)) {
        self.touched.push(dirs);
        let levels: &[u8] = if dirs.0 == dirs.1 { &[0, 2] } else { &[0, 1, 2] };
        self.worlds = self
            .worlds
            .iter()
            .flat_map(|(table, got)| {
                levels.iter().map(|&level| {
                    let (mut table, mut got) = (table.clone(), got.clone());
                    apply(&mut table, level);
                    got.push(level);
                    (table, got)
                })
            })
            .collect();
    }

    fn sync(&mut self, dir: char) {
        let touched = &self.touched;
        self.worlds.retain(|(_, got)| {
            touched.iter().zip(got).all(|(&(from, to), &level)| match level {
                0 => from != dir && to != dir,
                1 => from != dir,
                _ => true,
            })
        });
    }
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    prop_oneof![
        3 => path.clone().prop_map(Step::Create),
        1 => path.clone().prop_map(Step::Remove),
        3 => (path.clone(), path).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => (0..2_usize).prop_map(Step::SyncDir),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn names_after_a_cut_are_a_possible_outcome(steps in prop::collection::vec(step(), 1..9)) {
        let sim = SimStorage::new();
        sim.create_dir_all(Path::new("/a")).unwrap();
        sim.create_dir_all(Path::new("/b")).unwrap();
        sim.sync_dir(Path::new("/")).unwrap();
        let mut now = Table::new();
        let mut model = Worlds { worlds: vec![(Table::new(), vec![])], touched: vec![] };
        for (id, step) in steps.iter().enumerate() {
            let id = id as u8 + 1;
            match *step {
                Step::Create(at) => match sim.create_new(Path::new(PATHS[at])) {
                    Ok(file) => {
                        file.write_all_at(&[id], 0).unwrap();
                        file.sync().unwrap();
                        prop_assert_eq!(now.insert(at, id), None);
                        model.change((dir_of(at), dir_of(at)), |table, level| {
                            if level == 2 { table.insert(at, id); }
                        });
                    }
                    Err(_) => prop_assert!(now.contains_key(&at)),
                },
                Step::Remove(at) => match sim.remove(Path::new(PATHS[at])) {
                    Ok(()) => {
                        prop_assert!(now.remove(&at).is_some());
                        model.change((dir_of(at), dir_of(at)), |table, level| {
                            if level == 2 { table.remove(&at); }
                        });
                    }
                    Err(_) => prop_assert!(!now.contains_key(&at)),
                },
                Step::Rename(from, to) => {
                    let renamed = sim.rename(Path::new(PATHS[from]), Path::new(PATHS[to]));
                    prop_assert_eq!(renamed.is_ok(), now.contains_key(&from));
                    let Some(moved) = now.get(&from).copied().filter(|_| from != to) else {
                        continue;
                    };
                    now.remove(&from);
                    now.insert(to, moved);
                    model.change((dir_of(from), dir_of(to)), |table, level| {
                        if level == 2 { table.remove(&from); }
                        if level > 0 { table.insert(to, moved); }
                    });
                }
                Step::SyncDir(dir) => {
                    sim.sync_dir(Path::new(["/a", "/b"][dir])).unwrap();
                    model.sync(['a', 'b'][dir]);
                }
            }
        }
        let table_of = |machine: &SimStorage| -> Table {
            (0..PATHS.len())
                .filter_map(|at| Some((at, machine.read_file(PATHS[at]).ok()?[0])))
                .collect()
        };
        prop_assert_eq!(table_of(&sim), now.clone());
        let possible: BTreeSet<Table> = model.worlds.iter().map(|w| w.0.clone()).collect();
        let image = sim.image();
        prop_assert_eq!(table_of(&after(&image, 1)), now);
        for seed in 0..60 {
            let table = table_of(&after(&image, seed));
            prop_assert!(possible.contains(&table), "seed {} gave {:?}", seed, table);
        }
    }
}
