//! A file with its blocks allocated and its pages faulted in.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::{Advice, MmapMut};
use rustix::fs::FallocateFlags;

use crate::engine::Result;

pub struct PreparedFile {
    map: MmapMut,
    path: PathBuf,
}

impl PreparedFile {
    pub fn create(path: &Path, len: u64) -> Result<Self> {
        let file = allocate(path, len)?;
        // SAFETY: the file lies in a scratch directory that belongs to this
        // process alone, and is neither truncated nor replaced while mapped.
        let map = unsafe { MmapMut::map_mut(&file)? };
        let prepared = PreparedFile { map, path: path.to_path_buf() };
        prepared.fault_in()?;
        Ok(prepared)
    }

    /// Makes every page writable without a fault. Writeback takes that away
    /// again, so it is repeated before each round.
    pub fn fault_in(&self) -> Result<()> {
        self.map.advise(Advice::PopulateWrite)?;
        Ok(())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    pub fn remove(self) -> Result<()> {
        std::fs::remove_file(&self.path)?;
        Ok(())
    }
}

/// Creates a file whose blocks are all allocated.
pub fn allocate(path: &Path, len: u64) -> Result<File> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len)?;
    Ok(file)
}
