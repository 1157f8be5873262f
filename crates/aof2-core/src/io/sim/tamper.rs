//! What tests do to a machine behind its back: nothing here is a call, is counted
//! or can be made to fail.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inode::Inode;
use super::machine::Files;
use super::page::PAGE_LEN;
use super::storage::SimStorage;
use super::tree::{DirId, Node, ROOT, errno};

impl SimStorage {
    /// Flips one bit of a file, in memory and on disk; bit 0 is the lowest of the
    /// first byte.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit_index: u64) -> io::Result<()> {
        let core = self.machine.lock();
        find_file(&core.files, path.as_ref())?.lock().flip_bit(bit_index)
    }

    /// A file's contents as the machine sees them.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let core = self.machine.lock();
        let inode = find_file(&core.files, path.as_ref())?;
        let mut contents = inode.lock();
        let mut bytes = vec![0; contents.len];
        contents.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Gives a file these contents, durable at once with its name, and makes it and
    /// its directories where they are missing. Maps of it see the change, and must
    /// not be relied on past a shorter end.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        let mut core = self.machine.lock();
        let inode = match find_file(&core.files, path) {
            Ok(inode) => inode,
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.machine.new_inode(),
            Err(e) => return Err(e),
        };
        inode.lock().replace(bytes, self.machine.clock.peek_ns())?;
        core.files.durably(|files| {
            files.make_dirs(path.parent().unwrap_or(Path::new("/")))?;
            let (dir, name) = files.find_parent(path)?;
            files.link(dir, name, Node::File(inode));
            Ok(())
        })
    }

    /// All files by absolute path, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let core = self.machine.lock();
        let mut found = Vec::new();
        walk(&core.files, ROOT, Path::new("/"), &mut |path, _| found.push(path));
        found
    }

    /// Places, by byte offset of their page, where a file holds something without
    /// having a block: stores through a map that a full disk answers with SIGBUS.
    pub fn written_holes(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let core = self.machine.lock();
        let mut files = Vec::new();
        walk(&core.files, ROOT, Path::new("/"), &mut |path, inode| {
            files.push((path, Arc::clone(inode)));
        });
        let mut found = Vec::new();
        for (path, inode) in files {
            for page in inode.lock().written_holes()? {
                found.push((path.clone(), (page * PAGE_LEN) as u64));
            }
        }
        Ok(found)
    }
}

fn find_file(files: &Files, path: &Path) -> io::Result<Arc<Inode>> {
    match files.find(path)? {
        Node::File(inode) => Ok(inode),
        Node::Dir(_) => Err(errno(libc::EISDIR)),
    }
}

fn walk(files: &Files, dir: DirId, path: &Path, visit: &mut impl FnMut(PathBuf, &Arc<Inode>)) {
    for (name, node) in &files.dirs[dir].volatile {
        let path = path.join(name);
        match node {
            Node::File(inode) => visit(path, inode),
            Node::Dir(child) => walk(files, *child, &path, visit),
        }
    }
}
