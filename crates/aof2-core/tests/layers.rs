//! The walls between the layers of this crate: who may use whom, and who may start threads.
//! `docs/architecture.md` has the same tables for people; they are compared here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each layer, and those below it that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("planted", &[]),
    ("format", &["planted"]),
    ("io", &[]),
    ("error", &["format", "io", "object"]),
    ("prometheus", &[]),
    ("object", &["error", "format", "io"]),
    ("sync", &["format", "planted"]),
    ("segment", &["error", "format", "io", "planted"]),
    ("manifest", &["error", "format", "io", "planted", "prometheus"]),
    ("bucket", &["error", "format", "io", "manifest", "object", "planted", "segment"]),
    (
        "store",
        &["bucket", "error", "format", "io", "manifest", "object", "planted", "segment", "sync"],
    ),
    ("read", &["bucket", "error", "format", "io", "object", "segment", "store", "sync"]),
    (
        "write",
        &[
            "error",
            "format",
            "io",
            "manifest",
            "planted",
            "prometheus",
            "read",
            "segment",
            "store",
            "sync",
        ],
    ),
    (
        "check",
        &[
            "bucket", "error", "format", "io", "manifest", "object", "read", "segment", "store",
            "sync", "write",
        ],
    ),
    (
        "tier",
        &[
            "bucket",
            "check",
            "error",
            "format",
            "io",
            "object",
            "planted",
            "prometheus",
            "read",
            "segment",
            "store",
            "write",
        ],
    ),
    (
        "manager",
        &[
            "check",
            "error",
            "format",
            "io",
            "manifest",
            "object",
            "prometheus",
            "read",
            "store",
            "sync",
            "tier",
            "write",
        ],
    ),
    (
        "catalog",
        &[
            "error",
            "format",
            "io",
            "manager",
            "object",
            "planted",
            "prometheus",
            "read",
            "store",
            "sync",
            "write",
        ],
    ),
];

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

/// Uses against the table that stay, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("io/mod.rs", "object", "where users of the crate found the object store before")];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn architecture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md")
}

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The layer of a file, and its path below `src`.
fn layer_of(file: &Path) -> (String, String) {
    let below = file.strip_prefix(sources()).unwrap().to_string_lossy().replace('\\', "/");
    let first = below.split('/').next().unwrap();
    (first.trim_end_matches(".rs").to_owned(), below)
}

/// What is compiled without tests, without comments.
fn code(text: &str) -> String {
    let mut lines = Vec::new();
    let mut inside_tests = false;
    for line in text.lines() {
        if inside_tests {
            inside_tests = line != "}";
            continue;
        }
        let is_test_module = line.starts_with("mod ") && line.ends_with(" {");
        if is_test_module && lines.iter().rev().take(2).any(|l: &&str| l.contains("cfg(")) {
            inside_tests = true;
            continue;
        }
        if !line.trim_start().starts_with("//") {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The layers that a file names.
fn used(code: &str) -> BTreeSet<String> {
    let pieces = code.split("crate::").skip(1);
    let name = |piece: &str| {
        piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
    };
    let mut found: BTreeSet<String> = pieces.clone().map(name).collect();
    // `use crate::{a, b};`
    for group in pieces.filter_map(|piece| piece.strip_prefix('{')) {
        let group = group.split('}').next().unwrap_or_default();
        found.extend(group.split(',').map(|item| name(item.trim())));
    }
    found
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

/// Every file that is compiled without tests: its layer, its path below `src`, its code.
fn compiled() -> Vec<(String, String, String)> {
    let mut files = Vec::new();
    rust_files(&sources(), &mut files);
    assert!(files.len() > 200, "the sources were not found");
    let read = |file: PathBuf| {
        let (layer, below) = layer_of(&file);
        let is_test = below.contains("/tests") || below.ends_with("model_check.rs");
        (!is_test).then(|| (layer, below, code(&std::fs::read_to_string(&file).unwrap())))
    };
    files.into_iter().filter_map(read).collect()
}

fn table() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    LAYERS.iter().map(|(layer, below)| (*layer, below.iter().copied().collect())).collect()
}

#[test]
fn no_file_uses_a_layer_that_its_own_may_not_use() {
    let table = table();
    let mut wrong = Vec::new();
    for (layer, below, code) in compiled().into_iter().filter(|(layer, ..)| layer != "lib") {
        let allowed = table.get(&*layer).unwrap_or_else(|| panic!("{below} is in no layer"));
        for used in used(&code) {
            let is_layer = table.contains_key(&*used) && used != layer;
            let is_exception = EXCEPTIONS.iter().any(|(f, l, _)| *f == below && *l == used);
            if is_layer && !allowed.contains(&*used) && !is_exception {
                wrong.push(format!("{below} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the table of layers:\n{}", wrong.join("\n"));
}

#[test]
fn threads_are_started_in_one_place() {
    let mut wrong = Vec::new();
    for (_, below, code) in compiled().into_iter().filter(|(_, below, _)| below != STARTS_THREADS) {
        wrong.extend(starts(&code).into_iter().map(|start| format!("{below} has {start}")));
    }
    assert!(wrong.is_empty(), "use {STARTS_THREADS} instead:\n{}", wrong.join("\n"));
}

/// Everybody who starts threads is listed, by the names of the threads, where they are
/// started and in the documentation.
#[test]
fn all_threads_are_listed_where_they_are_started_and_in_the_documentation() {
    let started: BTreeSet<String> = compiled()
        .iter()
        .filter(|(_, below, _)| below != STARTS_THREADS)
        .filter(|(_, _, code)| {
            code.contains("threads::start") || code.contains("OwnRuntime::start")
        })
        .flat_map(|(_, _, code)| quoted_names(code))
        .collect();
    assert!(started.len() >= 4, "{started:?}");
    let module = std::fs::read_to_string(sources().join(STARTS_THREADS)).unwrap();
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

/// `error` names errors of the layers below it, which name `error`: the one circle.
#[test]
fn the_layers_form_no_circle() {
    let table = table();
    let order: Vec<&str> = LAYERS.iter().map(|(layer, _)| *layer).collect();
    for (layer, below) in &table {
        if *layer == "error" {
            continue;
        }
        let at = order.iter().position(|l| l == layer);
        for used in below {
            assert!(order.iter().position(|l| l == used) < at, "{layer} stands before {used}");
        }
    }
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
fn a_layer_that_is_named_in_a_comment_or_a_test_is_not_used() {
    let text = "\
// crate::tier is above
use crate::{format, io};
use crate::store::Store;
#[cfg(test)]
mod tests {
    use crate::manager::Aof;
}
";
    let found = used(&code(text));
    assert!(found.contains("store") && found.contains("format") && found.contains("io"));
    assert!(!found.contains("tier") && !found.contains("manager"), "{found:?}");
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
