//! A file that is opened again when it is needed again.
//!
//! A log may have thousands of compressed files, more than a process may have open. So a
//! file gives its descriptor back when the process keeps too many, and gets another one
//! for the next read. Meanwhile the name may have come to stand for another file: a copy
//! that a scrub made anew, or whatever somebody put there. Bytes of that one must not be
//! taken for bytes of the first, so it is recognised: it is the same file, or it ends
//! with the same bytes (index and seek table of an artifact, with all checksums in them).
//! Everything else is [`StaleNetworkFileHandle`](std::io::ErrorKind), as a network file
//! system says it of a file that was replaced, and readers look again where the segment
//! is now.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{AofError, Result};
use crate::format::crc64;
use crate::io::{
    File, FileIdentity, Keepable, Keeps, KeptPlace, LetGo, OpenLimit, OpenMode, Storage,
};

/// What is read, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doing {
    pub(super) open: &'static str,
    pub(super) read: &'static str,
}

/// A file that does not change, and can be opened again.
#[derive(Debug)]
pub(super) struct KeptFile {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    doing: Doing,
    len: u64,
    place: KeptPlace,
    is_replaced: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Option<Arc<dyn File>>,
    /// Reads that are going on.
    readers: usize,
    identity: FileIdentity,
    end: Option<End>,
}

/// The last bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    len: usize,
    crc: u64,
}

impl End {
    fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len(), crc: crc64(bytes) }
    }
}

impl KeptFile {
    pub(super) fn open(storage: &dyn Storage, path: PathBuf, doing: Doing) -> Result<Arc<Self>> {
        let limit = OpenLimit::process();
        limit.make_space();
        let file = storage.open(&path, OpenMode::Read).map_err(AofError::io(doing.open, &path))?;
        let identity = file.identity().map_err(AofError::io(doing.read, &path))?;
        let opened = Arc::new(Self {
            storage: storage.share(),
            path,
            doing,
            len: identity.len,
            place: KeptPlace::default(),
            is_replaced: AtomicBool::new(false),
            state: Mutex::new(State { file: Some(file), readers: 0, identity, end: None }),
        });
        limit.keep(&opened);
        Ok(opened)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn doing(&self) -> Doing {
        self.doing
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    pub(super) fn is_open(&self) -> bool {
        // Whoever has the lock reads it.
        self.state.try_lock().is_none_or(|state| state.file.is_some())
    }

    pub(super) fn read_exact_at(self: &Arc<Self>, bytes: &mut [u8], offset: u64) -> Result<()> {
        let reading = self.begin()?;
        let failed = AofError::io(self.doing.read, &self.path);
        reading.file.read_exact_at(bytes, offset).map_err(failed)?;
        if offset + bytes.len() as u64 == self.len {
            self.remember_end(bytes);
        }
        Ok(())
    }

    /// Whoever opens an artifact reads its end first.
    fn remember_end(&self, bytes: &[u8]) {
        self.state.lock().end.get_or_insert_with(|| End::of(bytes));
    }

    fn begin(self: &Arc<Self>) -> Result<Reading<'_>> {
        self.place.touch();
        let mut state = self.state.lock();
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => {
                let limit = OpenLimit::process();
                limit.make_space();
                let file = self.open_again(&mut state)?;
                state.file = Some(Arc::clone(&file));
                state.readers += 1;
                drop(state);
                limit.keep(self);
                return Ok(Reading { of: self, file });
            }
        };
        state.readers += 1;
        Ok(Reading { of: self, file })
    }

    fn open_again(&self, state: &mut State) -> Result<Arc<dyn File>> {
        let failed = || AofError::io(self.doing.open, &self.path);
        let file = self.storage.open(&self.path, OpenMode::Read).map_err(failed())?;
        let identity = file.identity().map_err(failed())?;
        if identity != state.identity {
            if identity.len != self.len
                || !ends_the_same(&*file, self.len, state.end).map_err(failed())?
            {
                self.is_replaced.store(true, Ordering::Relaxed);
                let replaced = "it was replaced by another file since it was last read";
                return Err(failed()(io::Error::new(
                    io::ErrorKind::StaleNetworkFileHandle,
                    replaced,
                )));
            }
            state.identity = identity;
        }
        self.is_replaced.store(false, Ordering::Relaxed);
        Ok(file)
    }
}

/// Whether a file ends as another did. Of one whose end nobody read nothing is known yet.
fn ends_the_same(file: &dyn File, len: u64, end: Option<End>) -> io::Result<bool> {
    let Some(end) = end else { return Ok(true) };
    let mut bytes = vec![0; end.len];
    file.read_exact_at(&mut bytes, len - end.len as u64)?;
    Ok(End::of(&bytes) == end)
}

impl Keepable for KeptFile {
    fn keeps(&self) -> Keeps {
        Keeps::File
    }

    fn place(&self) -> &KeptPlace {
        &self.place
    }

    fn let_go(&self) -> LetGo {
        // Whoever has the lock is about to read.
        let Some(mut state) = self.state.try_lock() else { return LetGo::InUse };
        if state.readers > 0 {
            return LetGo::InUse;
        }
        match state.file.take() {
            Some(file) => LetGo::Closed(Box::new(file)),
            None => LetGo::WasClosed,
        }
    }
}

/// A read that is going on: the file stays open until it ends.
struct Reading<'a> {
    of: &'a KeptFile,
    file: Arc<dyn File>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.of.state.lock().readers -= 1;
        OpenLimit::process().read_ended();
    }
}
