//! The walls between the layers of this crate: who may use whom. `docs/architecture.md`
//! has the same table for people; both are compared here.

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
    ("store", &["error", "format", "io", "manifest", "object", "planted", "segment", "sync"]),
    ("read", &["error", "format", "io", "object", "segment", "store", "sync"]),
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
            "error", "format", "io", "manifest", "object", "read", "segment", "store", "sync",
            "write",
        ],
    ),
    (
        "tier",
        &[
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

/// Uses against the table that stay, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("io/mod.rs", "object", "where users of the crate found the object store before")];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
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

fn table() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    LAYERS.iter().map(|(layer, below)| (*layer, below.iter().copied().collect())).collect()
}

#[test]
fn no_file_uses_a_layer_that_its_own_may_not_use() {
    let table = table();
    let mut files = Vec::new();
    rust_files(&sources(), &mut files);
    assert!(files.len() > 200, "the sources were not found");
    let mut wrong = Vec::new();
    for file in files {
        let (layer, below) = layer_of(&file);
        let is_test = below.contains("/tests") || below.ends_with("model_check.rs");
        if layer == "lib" || is_test {
            continue;
        }
        let allowed = table.get(&*layer).unwrap_or_else(|| panic!("{below} is in no layer"));
        for used in used(&code(&std::fs::read_to_string(&file).unwrap())) {
            let is_layer = table.contains_key(&*used) && used != layer;
            let is_exception = EXCEPTIONS.iter().any(|(f, l, _)| *f == below && *l == used);
            if is_layer && !allowed.contains(&*used) && !is_exception {
                wrong.push(format!("{below} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "against the table of layers:\n{}", wrong.join("\n"));
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
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let text = std::fs::read_to_string(docs).unwrap();
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
