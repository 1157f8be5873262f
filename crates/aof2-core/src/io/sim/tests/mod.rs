//! What the simulation promises to the tests that use it.

mod contents;
mod faults;
mod lies;
mod model;
mod names;
mod names_model;
mod threads;
mod twin;

use std::path::Path;
use std::sync::Arc;

use super::{CrashImage, CrashOptions, SimStorage};
use crate::io::{File, MapWriter, Storage};

/// A machine with one durable, allocated file of zeros.
fn machine_with(path: &str, len: u64) -> (SimStorage, Arc<dyn File>) {
    let sim = SimStorage::new();
    let file = durable_file(&sim, path, len);
    (sim, file)
}

fn durable_file(sim: &SimStorage, path: &str, len: u64) -> Arc<dyn File> {
    let file = sim.create_new(Path::new(path)).unwrap();
    file.allocate(len).unwrap();
    file.sync().unwrap();
    sim.sync_dir(Path::new(path).parent().unwrap()).unwrap();
    file
}

fn writer_of(file: &Arc<dyn File>, len: usize) -> MapWriter {
    Arc::new(file.map(len, true).unwrap()).writer().unwrap()
}

fn after(image: &CrashImage, seed: u64) -> SimStorage {
    image.materialize(seed, &CrashOptions::default())
}

/// File names of a machine, as strings.
fn names(sim: &SimStorage) -> Vec<String> {
    sim.files().iter().map(|path| path.display().to_string()).collect()
}
