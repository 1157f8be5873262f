//! Open files and maps of the simulated machine.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use super::faults::{Fault, Op};
use super::inode::{Contents, Inode};
use super::machine::Machine;
use super::tree::errno;
use crate::io::{File, FileIdentity, MapBacking, OpenMode, SharedMap, WordPage};

/// What a handle and a map have in common.
#[derive(Clone)]
struct Opened {
    machine: Arc<Machine>,
    inode: Arc<Inode>,
    path: PathBuf,
}

impl Opened {
    fn call<T>(
        &self,
        op: Op,
        effect: impl FnOnce(&mut Contents) -> io::Result<T>,
    ) -> io::Result<T> {
        self.machine.call(op, &self.path, |_| effect(&mut self.inode.lock()))
    }

    /// Syncs a byte range, `None` for the whole file.
    fn sync(&self, op: Op, range: Option<Range<usize>>) -> io::Result<()> {
        let now_ns = self.machine.clock.peek_ns();
        let failed_range = range.clone();
        self.machine.call_or(
            op,
            &self.path,
            |_| {
                let mut contents = self.inode.lock();
                let range = range.unwrap_or(contents.whole());
                contents.sync(&range, now_ns)
            },
            |_, _| {
                let mut contents = self.inode.lock();
                let range = failed_range.unwrap_or(contents.whole());
                // No memory to find out what is dirty: then nothing is mapped, and
                // the call fails in any case.
                let _ = contents.fail_sync(&range);
            },
        )
    }
}

pub(super) struct SimFile {
    opened: Opened,
    mode: OpenMode,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimFile").field(&self.opened.path).finish()
    }
}

impl SimFile {
    pub(super) fn new(
        machine: Arc<Machine>,
        inode: Arc<Inode>,
        path: &Path,
        mode: OpenMode,
    ) -> Self {
        Self { opened: Opened { machine, inode, path: path.to_path_buf() }, mode }
    }

    /// A call that changes contents, refused as the system would for this mode.
    fn change(
        &self,
        op: Op,
        effect: impl FnOnce(&mut Contents) -> io::Result<()>,
    ) -> io::Result<()> {
        self.opened.call(op, |contents| self.change_contents(contents, effect))
    }

    fn change_contents(
        &self,
        contents: &mut Contents,
        effect: impl FnOnce(&mut Contents) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.mode == OpenMode::Read {
            return Err(errno(libc::EBADF));
        }
        effect(contents)?;
        contents.modified_ns = self.opened.machine.clock.peek_ns();
        Ok(())
    }

    fn raw_map(&self, op: Op, len: usize, writable: bool) -> io::Result<(NonNull<u8>, SimMap)> {
        self.opened.call(op, |contents| {
            if writable && self.mode == OpenMode::Read {
                return Err(errno(libc::EACCES));
            }
            let base = contents.map(len)?;
            Ok((base, SimMap { opened: self.opened.clone() }))
        })
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.opened.call(Op::Len, |contents| Ok(contents.len as u64))
    }

    fn allocated_len(&self) -> io::Result<u64> {
        self.opened.call(Op::AllocatedLen, |contents| Ok(contents.allocated_len()))
    }

    fn modified_ns(&self) -> io::Result<u64> {
        self.opened.call(Op::ModifiedNs, |contents| Ok(contents.modified_ns))
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let inode = self.opened.inode.id;
        self.opened.call(Op::Len, |contents| {
            let changed_ns = i128::from(contents.modified_ns);
            Ok(FileIdentity { device: 0, inode, len: contents.len as u64, changed_ns })
        })
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.opened.call(Op::ReadExactAt, |contents| contents.read(offset, buf))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let Opened { machine, inode, path } = &self.opened;
        machine.call_or(
            Op::WriteAllAt,
            path,
            |_| self.change_contents(&mut inode.lock(), |contents| contents.write(offset, buf)),
            |_, fault| {
                if fault == Fault::Short {
                    let half = &buf[..buf.len() / 2];
                    // It fails already; failing harder changes nothing.
                    let _ = self.change_contents(&mut inode.lock(), |contents| {
                        contents.write(offset, half)
                    });
                }
            },
        )
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(Op::Allocate, |contents| contents.allocate(len))
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Op::ZeroRange, |contents| contents.zero(offset, len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.change(Op::PunchHole, |contents| contents.punch(offset, len))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // Knows no holes: everything may be data.
        Ok((offset < self.len()?).then_some(offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.opened.sync(Op::Sync, None)
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<SharedMap> {
        let (base, map) = self.raw_map(Op::Map, len, writable)?;
        // SAFETY: `map` holds the inode, which keeps its region of `RESERVE_LEN`
        // bytes in place; `len` is within the file and so within the region, which
        // is readable, writable and page aligned. The simulation itself reaches it
        // through atomics, and stores only where a trait call tells it to.
        Ok(unsafe { SharedMap::new(base, len, writable, Box::new(map)) })
    }

    fn map_words(&self, len: usize, writable: bool) -> io::Result<WordPage> {
        let (base, map) = self.raw_map(Op::MapWords, len, writable)?;
        // SAFETY: as in `map`.
        Ok(unsafe { WordPage::new(base, len, writable, Box::new(map)) })
    }
}

struct SimMap {
    opened: Opened,
}

impl MapBacking for SimMap {
    fn sync(&self, offset: usize, len: usize) -> io::Result<()> {
        self.opened.sync(Op::MapSync, Some(offset..offset + len))
    }

    fn fault_in(&self, _offset: usize, _len: usize) -> io::Result<()> {
        self.opened.call(Op::FaultIn, |_| Ok(()))
    }
}
