//! Names: what the machine sees, what the disk holds, and the changes in between.
//!
//! A change is logged when it is made and folded into the durable tables once its
//! directory was synced. A crash replays a subset of the log, in order. A rename
//! within a directory is one change; across directories it is two, of which the
//! removal of the old name never happens without the new one. A directory has one name,
//! so for one that moves it is both or none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

pub(super) type DirId = usize;
pub(super) const ROOT: DirId = 0;
pub(super) type Names<F> = BTreeMap<String, Node<F>>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<F> {
    File(F),
    Dir(DirId),
}

#[derive(Clone)]
pub(super) struct Dir<F> {
    pub(super) volatile: Names<F>,
    pub(super) durable: Names<F>,
}

impl<F> Default for Dir<F> {
    fn default() -> Self {
        Self { volatile: Names::new(), durable: Names::new() }
    }
}

#[derive(Clone)]
pub(super) enum Change<F> {
    Link { name: String, node: Node<F> },
    Unlink { name: String },
    Rename { from: String, to: String, node: Node<F> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for a sync of its directory.
    Pending,
    /// Its sync failed: no later one covers it.
    Doomed,
    /// On disk, behind earlier changes of the same directory that may not be.
    Synced,
}

#[derive(Clone)]
struct Logged<F> {
    id: u64,
    dir: DirId,
    change: Change<F>,
    /// Change without which this one cannot be on disk.
    needs: Option<u64>,
    /// Whether that one cannot be without this one either.
    is_joint: bool,
    state: State,
}

#[derive(Clone)]
pub(super) struct Tree<F> {
    pub(super) dirs: Vec<Dir<F>>,
    log: Vec<Logged<F>>,
    next_id: u64,
}

impl<F: Clone> Default for Tree<F> {
    fn default() -> Self {
        Self { dirs: vec![Dir::default()], log: Vec::new(), next_id: 0 }
    }
}

impl<F: Clone> Tree<F> {
    pub(super) fn pending_count(&self) -> usize {
        self.log.iter().filter(|logged| logged.state != State::Synced).count()
    }

    /// What a path names in the running machine.
    pub(super) fn find(&self, path: &Path) -> io::Result<Node<F>> {
        let mut node = Node::Dir(ROOT);
        for name in components(path) {
            let Node::Dir(dir) = node else { return Err(errno(libc::ENOTDIR)) };
            node =
                self.dirs[dir].volatile.get(&name).cloned().ok_or_else(|| errno(libc::ENOENT))?;
        }
        Ok(node)
    }

    pub(super) fn find_dir(&self, path: &Path) -> io::Result<DirId> {
        match self.find(path)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(errno(libc::ENOTDIR)),
        }
    }

    /// The directory a path's last name is in, and that name.
    pub(super) fn find_parent(&self, path: &Path) -> io::Result<(DirId, String)> {
        let mut names = components(path);
        let name = names.pop().ok_or_else(|| errno(libc::EINVAL))?;
        Ok((self.find_dir(&names.iter().collect::<std::path::PathBuf>())?, name))
    }

    pub(super) fn get(&self, dir: DirId, name: &str) -> Option<&Node<F>> {
        self.dirs[dir].volatile.get(name)
    }

    /// The directory of this path, with those made that are missing.
    pub(super) fn make_dirs(&mut self, path: &Path) -> io::Result<DirId> {
        let mut dir = ROOT;
        let names = components(path);
        let last = names.len().saturating_sub(1);
        for (depth, name) in names.into_iter().enumerate() {
            dir = match self.get(dir, &name) {
                Some(Node::Dir(found)) => *found,
                Some(Node::File(_)) if depth == last => return Err(errno(libc::EEXIST)),
                Some(Node::File(_)) => return Err(errno(libc::ENOTDIR)),
                None => {
                    let made = self.dirs.len();
                    self.dirs.push(Dir::default());
                    self.change(dir, Change::Link { name, node: Node::Dir(made) }, None);
                    made
                }
            };
        }
        Ok(dir)
    }

    pub(super) fn link(&mut self, dir: DirId, name: String, node: Node<F>) {
        self.change(dir, Change::Link { name, node }, None);
    }

    pub(super) fn unlink(&mut self, dir: DirId, name: String) {
        self.change(dir, Change::Unlink { name }, None);
    }

    pub(super) fn rename(&mut self, from: (DirId, String), to: (DirId, String), node: Node<F>) {
        if from.0 == to.0 {
            self.change(from.0, Change::Rename { from: from.1, to: to.1, node }, None);
        } else {
            let is_dir = matches!(node, Node::Dir(_));
            let linked = self.change(to.0, Change::Link { name: to.1, node }, None);
            self.change(from.0, Change::Unlink { name: from.1 }, Some(linked));
            if let Some(unlinked) = self.log.last_mut() {
                unlinked.is_joint = is_dir;
            }
        }
    }

    fn change(&mut self, dir: DirId, change: Change<F>, needs: Option<u64>) -> u64 {
        apply(&mut self.dirs[dir].volatile, &change);
        let id = self.next_id;
        self.next_id += 1;
        self.log.push(Logged { id, dir, change, needs, is_joint: false, state: State::Pending });
        id
    }

    pub(super) fn sync(&mut self, dir: DirId) {
        let mut needed = BTreeSet::new();
        for logged in self.log.iter_mut().filter(|logged| logged.dir == dir) {
            if logged.state == State::Pending {
                logged.state = State::Synced;
                needed.extend(logged.needs);
            }
        }
        for logged in self.log.iter_mut().filter(|logged| needed.contains(&logged.id)) {
            logged.state = State::Synced;
        }
        let synced: BTreeSet<u64> = self.synced().collect();
        let is_joined = |logged: &&mut Logged<F>| {
            logged.is_joint && logged.needs.is_some_and(|needed| synced.contains(&needed))
        };
        for logged in self.log.iter_mut().filter(is_joined) {
            logged.state = State::Synced;
        }
        self.fold();
    }

    fn synced(&self) -> impl Iterator<Item = u64> + '_ {
        let synced = self.log.iter().filter(|logged| logged.state == State::Synced);
        synced.map(|logged| logged.id)
    }

    pub(super) fn fail_sync(&mut self, dir: DirId) {
        for logged in self.log.iter_mut().filter(|logged| logged.dir == dir) {
            if logged.state == State::Pending {
                logged.state = State::Doomed;
            }
        }
    }

    /// Runs changes that are on disk at once.
    pub(super) fn durably<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let first = self.next_id;
        let result = change(self);
        for logged in self.log.iter_mut().filter(|logged| logged.id >= first) {
            logged.state = State::Synced;
        }
        self.fold();
        result
    }

    fn fold(&mut self) {
        let mut behind = BTreeSet::new();
        let dirs = &mut self.dirs;
        self.log.retain(|logged| {
            if logged.state == State::Synced && !behind.contains(&logged.dir) {
                apply(&mut dirs[logged.dir].durable, &logged.change);
                return false;
            }
            behind.insert(logged.dir);
            true
        });
    }

    /// The names a power cut leaves, where `keeps` decides about each change that
    /// was not synced.
    pub(super) fn after_cut(&self, mut keeps: impl FnMut() -> bool) -> Self {
        let mut durable: Vec<Names<F>> = self.dirs.iter().map(|d| d.durable.clone()).collect();
        let mut lost = BTreeSet::new();
        for logged in &self.log {
            // Asked for every change, so that one answer does not shift the others.
            let chosen = keeps();
            let possible = logged.needs.is_none_or(|needed| !lost.contains(&needed));
            let chosen = chosen || logged.is_joint;
            if logged.state == State::Synced || (chosen && possible) {
                apply(&mut durable[logged.dir], &logged.change);
            } else {
                lost.insert(logged.id);
            }
        }
        let mut reached = BTreeSet::from([ROOT]);
        let mut walk = vec![ROOT];
        while let Some(dir) = walk.pop() {
            for node in durable[dir].values() {
                if let Node::Dir(child) = node
                    && reached.insert(*child)
                {
                    walk.push(*child);
                }
            }
        }
        let dirs = durable
            .into_iter()
            .enumerate()
            .map(|(id, names)| match reached.contains(&id) {
                true => Dir { volatile: names.clone(), durable: names },
                false => Dir::default(),
            })
            .collect();
        Self { dirs, log: Vec::new(), next_id: self.next_id }
    }

    /// The same tree over other files.
    pub(super) fn map<G>(&self, mut to: impl FnMut(&F) -> G) -> Tree<G> {
        let mut map_node = |node: &Node<F>| match node {
            Node::File(file) => Node::File(to(file)),
            Node::Dir(dir) => Node::Dir(*dir),
        };
        let mut dirs = Vec::with_capacity(self.dirs.len());
        for dir in &self.dirs {
            let mut map_names = |names: &Names<F>| {
                names.iter().map(|(name, node)| (name.clone(), map_node(node))).collect()
            };
            dirs.push(Dir { volatile: map_names(&dir.volatile), durable: map_names(&dir.durable) });
        }
        let log = self.log.iter().map(|logged| Logged {
            id: logged.id,
            dir: logged.dir,
            needs: logged.needs,
            is_joint: logged.is_joint,
            state: logged.state,
            change: match &logged.change {
                Change::Link { name, node } => {
                    Change::Link { name: name.clone(), node: map_node(node) }
                }
                Change::Unlink { name } => Change::Unlink { name: name.clone() },
                Change::Rename { from, to, node } => {
                    Change::Rename { from: from.clone(), to: to.clone(), node: map_node(node) }
                }
            },
        });
        Tree { log: log.collect(), dirs, next_id: self.next_id }
    }
}

fn apply<F: Clone>(names: &mut Names<F>, change: &Change<F>) {
    match change {
        Change::Link { name, node } => {
            names.insert(name.clone(), node.clone());
        }
        Change::Unlink { name } => {
            names.remove(name);
        }
        Change::Rename { from, to, node } => {
            names.remove(from);
            names.insert(to.clone(), node.clone());
        }
    }
}

/// Names along a path. There is no working directory: relative paths start at the
/// root as absolute ones do.
pub(super) fn components(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

pub(super) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
