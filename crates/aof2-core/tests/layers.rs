//! The walls between the layers of this crate: who may use whom, how large a layer may be,
//! and who may start threads. `docs/architecture.md` has the same tables for people; they are
//! compared here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use imports::{Place, Sources, code};

#[path = "layers/imports.rs"]
mod imports;
#[path = "layers/table.rs"]
mod table;

use table::{CIRCLES, EXCEPTIONS, FILES_MAX, LARGE, LAYERS};

/// The only file that starts threads and runtimes.
const STARTS_THREADS: &str = "io/threads.rs";

/// What starts a thread or a runtime, or a task on whatever runtime there is.
const STARTS: &[&str] = &[
    "thread::spawn",
    "thread::Builder",
    "spawn_scoped",
    "scope.spawn",
    "runtime::Builder",
    "Runtime::new",
    "new_multi_thread",
    "new_current_thread",
    "tokio::spawn",
    "task::spawn(",
];

fn architecture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md")
}

fn rows() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    LAYERS.iter().map(|(layer, below)| (*layer, below.iter().copied().collect())).collect()
}

/// The row of a module: the innermost one that it is part of.
fn row_of(module: &[String]) -> Option<&'static str> {
    let is_row = |len: usize| {
        let name = module[..len].join("::");
        LAYERS.iter().map(|(layer, _)| *layer).find(|layer| *layer == name)
    };
    (1..=module.len()).rev().find_map(is_row)
}

/// The files of each row, tests not counted.
fn files_of_rows(sources: &Sources) -> BTreeMap<&'static str, Vec<&str>> {
    let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in sources.files.iter().filter(|file| !file.module.is_empty()) {
        let row = row_of(&file.module).unwrap_or_else(|| panic!("{} is in no layer", file.path));
        files.entry(row).or_default().push(&*file.path);
    }
    files
}

/// The names in [`STARTS`] that a file uses, also where they are imported in a group.
fn starts(code: &str) -> Vec<&'static str> {
    let mut code = code.to_owned();
    for group in ["thread::", "runtime::", "tokio::", "task::"] {
        let members: Vec<String> = code
            .split(&format!("{group}{{"))
            .skip(1)
            .flat_map(|rest| rest.split(['}', ';']).next().unwrap_or_default().split(','))
            .map(|member| format!("\n{group}{}", member.trim()))
            .collect();
        code.extend(members);
    }
    STARTS.iter().copied().filter(|start| code.contains(start)).collect()
}

#[test]
fn no_file_uses_a_layer_that_its_own_may_not_use() {
    let (sources, rows) = (Sources::read(), rows());
    let mut wrong = Vec::new();
    for file in sources.files.iter().filter(|file| !file.module.is_empty()) {
        let row = row_of(&file.module).unwrap_or_else(|| panic!("{} is in no layer", file.path));
        let used: BTreeSet<&str> =
            sources.used_by(file).iter().filter_map(|module| row_of(module)).collect();
        for used in used.into_iter().filter(|used| *used != row && !rows[row].contains(used)) {
            if !EXCEPTIONS.iter().any(|(f, l, _)| *f == file.path && *l == used) {
                wrong.push(format!("{} ({row}) uses {used}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "against the table of layers:\n{}", wrong.join("\n"));
}

/// What nobody uses is not allowed either: the table says what is, not what could be.
#[test]
fn a_layer_may_use_no_more_than_it_does() {
    let sources = Sources::read();
    let mut used: BTreeSet<(&str, &str)> = BTreeSet::new();
    for file in sources.files.iter().filter(|file| !file.module.is_empty()) {
        let row = row_of(&file.module).unwrap();
        used.extend(sources.used_by(file).iter().filter_map(|m| Some((row, row_of(m)?))));
    }
    for (layer, below) in LAYERS {
        for allowed in *below {
            assert!(used.contains(&(layer, allowed)), "{layer} does not use {allowed} any more");
        }
    }
}

#[test]
fn every_folder_is_a_layer() {
    for file in Sources::read().files {
        let folders: Place = match file.path.rsplit_once('/') {
            Some((folders, _)) => folders.split('/').map(str::to_owned).collect(),
            None => continue,
        };
        let row = row_of(&folders);
        assert_eq!(row, Some(&*folders.join("::")), "the folder of {} has no row", file.path);
    }
}

#[test]
fn no_layer_is_larger_than_a_reader_can_take_in() {
    let sources = Sources::read();
    for (row, files) in files_of_rows(&sources) {
        let known = LARGE.iter().find(|(layer, _)| *layer == row);
        let max = known.map_or(FILES_MAX, |(_, count)| *count);
        let list = files.join("\n");
        assert!(files.len() <= max, "{row} has {} files, not {max}:\n{list}", files.len());
    }
}

/// What a layer uses stands before it, but for the circles that are listed.
#[test]
fn the_layers_form_no_circle() {
    let order: Vec<&str> = LAYERS.iter().map(|(layer, _)| *layer).collect();
    let at = |layer: &str| order.iter().position(|l| *l == layer).expect("a row of the table");
    for (layer, below) in LAYERS {
        for used in *below {
            let is_listed = CIRCLES.iter().any(|(l, u, ..)| l == layer && u == used);
            assert!((at(used) < at(layer)) != is_listed, "{layer} uses {used}, which is above it");
        }
    }
}

#[test]
fn a_circle_is_closed_by_the_files_that_are_listed() {
    let sources = Sources::read();
    for (layer, used, files, _) in CIRCLES {
        let of_row = sources.files.iter().filter(|file| row_of(&file.module) == Some(layer));
        let uses = of_row
            .filter(|file| sources.used_by(file).iter().any(|module| row_of(module) == Some(used)));
        let names: BTreeSet<&str> =
            uses.map(|file| file.path.rsplit('/').next().unwrap_or_default()).collect();
        assert_eq!(names, files.iter().copied().collect(), "files of {layer} that use {used}");
    }
}

#[test]
fn threads_are_started_in_one_place() {
    let mut wrong = Vec::new();
    for file in Sources::read().files.iter().filter(|file| file.path != STARTS_THREADS) {
        let path = &file.path;
        wrong.extend(starts(&file.code).into_iter().map(|start| format!("{path} has {start}")));
    }
    assert!(wrong.is_empty(), "use {STARTS_THREADS} instead:\n{}", wrong.join("\n"));
}

/// Everybody who starts threads is listed, by the names of the threads, where they are
/// started and in the documentation.
#[test]
fn all_threads_are_listed_where_they_are_started_and_in_the_documentation() {
    let starts = |code: &str| code.contains("threads::start") || code.contains("OwnRuntime::start");
    let started: BTreeSet<String> = Sources::read()
        .files
        .iter()
        .filter(|file| file.path != STARTS_THREADS && starts(&file.code))
        .flat_map(|file| quoted_names(&file.code))
        .collect();
    assert!(started.len() >= 4, "{started:?}");
    let module = std::fs::read_to_string(imports::root().join(STARTS_THREADS)).unwrap();
    let docs = std::fs::read_to_string(architecture()).unwrap();
    for name in started {
        let listed = format!("| `{}`", name.replace("{n}", "N"));
        assert!(module.contains(&listed), "{name} is not in the table of {STARTS_THREADS}");
        assert!(docs.contains(&listed), "{name} is not in the table of architecture.md");
    }
}

/// The string literals that are names of threads.
fn quoted_names(code: &str) -> Vec<String> {
    let quoted = code.split('"').skip(1).step_by(2);
    quoted.filter(|text| *text == "aof2" || text.starts_with("aof2-")).map(str::to_owned).collect()
}

#[test]
fn the_documentation_has_the_same_table() {
    let text = std::fs::read_to_string(architecture()).unwrap();
    for (layer, below) in LAYERS {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{layer}` |")))
            .unwrap_or_else(|| panic!("architecture.md has no row for {layer}"));
        let cell = row.split('|').nth(2).unwrap_or_default();
        let told: BTreeSet<&str> = cell.split('`').skip(1).step_by(2).collect();
        let expected: BTreeSet<&str> = below.iter().copied().collect();
        assert_eq!(told, expected, "the row of {layer} in architecture.md");
    }
}

#[test]
fn a_thread_is_noticed_however_its_builder_is_imported() {
    for text in [
        "std::thread::spawn(work);",
        "use std::thread::{Builder, scope};",
        "use std::{io, thread};\nthread::Builder::new()",
        "use tokio::runtime::{\n    Builder,\n    Handle,\n};",
        "tokio::spawn(task);",
        "scope.spawn(work);",
    ] {
        assert!(!starts(&code(text)).is_empty(), "{text}");
    }
    for text in [
        "// std::thread::spawn",
        "std::thread::sleep(pause);",
        "use std::thread::scope;",
        "tokio::task::spawn_blocking(work)",
        "handle.spawn(task);",
    ] {
        assert!(starts(&code(text)).is_empty(), "{text}");
    }
}
