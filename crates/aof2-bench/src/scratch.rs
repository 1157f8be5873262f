//! The directory everything is measured in.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::SeekFrom;

use crate::engine::Result;

/// Owns a directory and hands out fresh ones inside it. Removed when dropped.
pub struct Scratch {
    root: PathBuf,
    next: AtomicU64,
    retired: RefCell<Vec<PathBuf>>,
}

impl Scratch {
    /// `parent` must be on the filesystem to be measured.
    pub fn new(parent: &Path) -> Result<Self> {
        let root = parent.join(format!(".aof2-bench-{}", std::process::id()));
        fs::create_dir_all(&root)?;
        Ok(Scratch {
            root: fs::canonicalize(root)?,
            next: AtomicU64::new(0),
            retired: RefCell::new(Vec::new()),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path that no one has used in this process: walrus-rust keeps every
    /// file it ever opened by its path, and would read the old one.
    pub fn fresh_path(&self, label: &str) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.root.join(format!("{label}-{number}"))
    }

    pub fn fresh_dir(&self, label: &str) -> Result<PathBuf> {
        let dir = self.fresh_path(label);
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Keeps a file or directory until [`Scratch::sweep`]. On a filesystem that
    /// discards freed blocks, removing files slows down the fdatasyncs of
    /// whoever is measured next.
    pub fn retire(&self, path: PathBuf) {
        self.retired.borrow_mut().push(path);
    }

    pub fn sweep(&self) -> Result<()> {
        for path in self.retired.take() {
            if path.is_dir() {
                remove(&path)?;
            } else {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Writes back what earlier work left dirty, so that the next timed region
    /// pays only for itself.
    pub fn quiesce(&self) -> Result<()> {
        rustix::fs::syncfs(File::open(&self.root)?)?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("cannot remove {}: {error}", self.root.display());
        }
    }
}

/// Removes a directory and gives its blocks back even where a process-wide
/// cache still holds the files open.
pub fn remove(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        } else {
            File::options().write(true).open(entry.path())?.set_len(0)?;
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(dir)?;
    Ok(())
}

/// Copies a directory as a crash would leave it: the bytes of each file and its
/// length, holes kept as holes, no lock held.
pub fn copy_image(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_image(&entry.path(), &target)?;
        } else {
            copy_sparse(&entry.path(), &target)?;
        }
    }
    Ok(())
}

fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from)?;
    let target = File::create(to)?;
    target.set_len(source.metadata()?.len())?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while let Some((start, end)) = next_data(&source, offset)? {
        let mut at = start;
        while at < end {
            let want = buffer.len().min((end - at) as usize);
            let got = source.read_at(&mut buffer[..want], at)?;
            if got == 0 {
                return Ok(());
            }
            target.write_all_at(&buffer[..got], at)?;
            at += got as u64;
        }
        offset = end;
    }
    Ok(())
}

fn next_data(file: &File, offset: u64) -> Result<Option<(u64, u64)>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => Ok(Some((start, rustix::fs::seek(file, SeekFrom::Hole(start))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(io::Error::from(error).into()),
    }
}
