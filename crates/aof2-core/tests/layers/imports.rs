//! The sources of the crate, and what each file imports.
//!
//! Reads text, not syntax: `use` statements and paths that begin with `crate`, `super` or
//! `self`. That is enough for code that is formatted and compiles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A path in the crate, such as `store::cold::ColdStore`.
pub type Place = Vec<String>;

/// A file that is compiled without tests.
pub struct Source {
    /// Its path below `src`.
    pub path: String,
    /// The module it is.
    pub module: Place,
    /// Its text without tests and comments.
    pub code: String,
    names: Vec<Name>,
}

/// Something that a file names.
struct Name {
    place: Place,
    /// What it is called here.
    known_as: String,
    /// Whether the file gives it to others as its own.
    is_given: bool,
}

pub struct Sources {
    pub files: Vec<Source>,
    by_module: BTreeMap<Place, usize>,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

impl Sources {
    pub fn read() -> Self {
        let mut paths = Vec::new();
        rust_files(&root(), &mut paths);
        assert!(paths.len() > 200, "the sources were not found");
        let mut all: Vec<(Place, String, String)> = Vec::new();
        for path in paths {
            let below = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            all.push((module_of(&below), below, std::fs::read_to_string(&path).unwrap()));
        }
        let tests: BTreeSet<Place> =
            all.iter().flat_map(|(module, _, text)| test_modules(module, text)).collect();
        let is_test = |module: &Place| tests.iter().any(|test| module.starts_with(test));
        all.retain(|(module, ..)| !is_test(module));
        let modules: BTreeSet<Place> = all.iter().map(|(module, ..)| module.clone()).collect();
        let files: Vec<Source> = all
            .into_iter()
            .map(|(module, path, text)| {
                let code = code(&text);
                let names = names(&code, &module, &modules);
                Source { path, module, code, names }
            })
            .collect();
        let by_module = files.iter().enumerate().map(|(at, f)| (f.module.clone(), at)).collect();
        Self { files, by_module }
    }

    /// The modules that a file uses. What it gives to others as its own, from the modules
    /// below it, is not used by it. Inside of a layer, what its parts give to their parent
    /// counts as theirs.
    pub fn used_by(&self, file: &Source) -> BTreeSet<Place> {
        let is_own = |name: &&Name| name.is_given && name.place.starts_with(&file.module);
        let used = file.names.iter().filter(|name| !is_own(name));
        used.map(|name| match name.place.first() == file.module.first() {
            true => self.origin(&name.place, 8),
            false => self.module_in(&name.place),
        })
        .collect()
    }

    /// The longest part of a place that is a module.
    fn module_in(&self, place: &[String]) -> Place {
        let mut module = place.to_vec();
        while !module.is_empty() && !self.by_module.contains_key(&module) {
            module.pop();
        }
        module
    }

    /// The module that something comes from, however often it was passed on.
    fn origin(&self, place: &[String], depth: usize) -> Place {
        let module = self.module_in(place);
        let Some(item) = place.get(module.len()) else { return module };
        let Some(&at) = self.by_module.get(&module) else { return module };
        let given = self.files[at].names.iter().find(|n| n.is_given && n.known_as == *item);
        match given.filter(|name| depth > 0 && name.place != place) {
            Some(name) => self.origin(&name.place, depth - 1),
            None => module,
        }
    }
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

/// `store/cold/mod.rs` is `store::cold`; `lib.rs` is the crate itself.
fn module_of(below: &str) -> Place {
    let mut parts: Place = below.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// The modules of a file that are compiled for tests only.
fn test_modules(module: &Place, text: &str) -> Vec<Place> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test");
            continue;
        }
        let name = line.split("mod ").nth(1).and_then(|rest| rest.strip_suffix(';'));
        if let Some(name) = name.filter(|_| is_test) {
            found.push([module.clone(), vec![name.to_owned()]].concat());
        }
        is_test = false;
    }
    found
}

/// What is compiled without tests, without comments.
pub fn code(text: &str) -> String {
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

/// What a file names, by its place in the crate.
fn names(code: &str, module: &[String], modules: &BTreeSet<Place>) -> Vec<Name> {
    let mut names = Vec::new();
    let mut add = |path: Place, known_as: String, is_given: bool| {
        if let Some(place) = absolute(path, module, modules) {
            names.push(Name { place, known_as, is_given });
        }
    };
    let mut rest = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((given, tree)) = use_statement(line) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            let Some(next) = lines.next() else { break };
            tree.push_str(next.trim());
        }
        let tree = tree.split(';').next().unwrap_or_default();
        let mut leaves = Vec::new();
        leaves_of(tree, &[], &mut leaves);
        for (path, known_as) in leaves {
            add(path, known_as, given);
        }
    }
    for path in paths_in(&rest) {
        add(path, String::new(), false);
    }
    names
}

/// Whether it is passed on, and the tree of a `use`.
fn use_statement(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    if let Some(tree) = line.strip_prefix("use ") {
        return Some((false, tree));
    }
    let (visibility, tree) = line.split_once(" use ")?;
    let is_given = visibility == "pub" || visibility.starts_with("pub(");
    is_given.then_some((true, tree))
}

/// The paths of a tree, each with the name that it gets.
fn leaves_of(tree: &str, before: &[String], into: &mut Vec<(Place, String)>) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    let parts = |text: &str| -> Place {
        let parts = text.split("::").map(str::trim).filter(|part| !part.is_empty());
        [before, &parts.map(str::to_owned).collect::<Place>()].concat()
    };
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix = parts(prefix);
        let group = group.strip_suffix('}').unwrap_or(group);
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves_of(&group[start..at], &prefix, into);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return leaves_of(&group[start..], &prefix, into);
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (parts(path), Some(alias.trim().to_owned())),
        None => (parts(tree), None),
    };
    let mut path = path;
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let known_as = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    into.push((path, known_as));
}

/// Paths in code that begin in this crate. Not those that say who may see something.
fn paths_in(code: &str) -> Vec<Place> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            let is_inside = before.ends_with(|c: char| is_name(c) || c == ':');
            if is_inside || before.ends_with("pub(in ") {
                continue;
            }
            let path = code[at..].split(|c: char| !is_name(c) && c != ':').next();
            let parts = path.unwrap_or_default().split("::").filter(|part| !part.is_empty());
            found.push(parts.map(str::to_owned).collect());
        }
    }
    found
}

/// A path from the root of the crate; `None` if it is not of this crate.
fn absolute(path: Place, module: &[String], modules: &BTreeSet<Place>) -> Option<Place> {
    let first = path.first()?;
    match &**first {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat())
        }
        _ => {
            let child = [module, std::slice::from_ref(first)].concat();
            modules.contains(&child).then(|| [module, &path[..]].concat())
        }
    }
}

#[test]
fn every_way_to_import_something_is_seen() {
    let text = "\
// crate::tier is above
use crate::{format, io};
use super::{a::{B, C as D}, E};
pub(crate) use below::{self, F};
use std::io::Read;
pub(in crate::store) fn f() { crate::write::g(super::h()) }
#[cfg(test)]
mod tests {
    use crate::manager::Aof;
}
";
    let module = ["store".to_owned(), "cold".to_owned()];
    let below = [&module[..], &["below".to_owned()]].concat();
    let found = names(&code(text), &module, &BTreeSet::from([below]));
    let found: BTreeSet<String> =
        found.iter().map(|n| format!("{} {}", n.place.join("::"), n.is_given)).collect();
    let expected = [
        "format false",
        "io false",
        "store::a::B false",
        "store::a::C false",
        "store::E false",
        "store::cold::below true",
        "store::cold::below::F true",
        "write::g false",
        "store::h false",
    ];
    assert_eq!(found, expected.iter().map(|&name| name.to_owned()).collect());
}

#[test]
fn modules_of_tests_are_known() {
    let text = "mod a;\n#[cfg(test)]\n#[allow(x)]\npub(crate) mod b;\nmod c;\n";
    assert_eq!(test_modules(&vec!["m".to_owned()], text), [["m", "b"]]);
}
