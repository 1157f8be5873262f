//! Which call fails, and how.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

#[cfg(doc)]
use crate::io::{File, Storage};

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// [`Storage::create_dir_all`].
    CreateDirAll,
    /// [`Storage::list`].
    List,
    /// [`Storage::exists`].
    Exists,
    /// [`Storage::open`].
    Open,
    /// [`Storage::create_new`].
    CreateNew,
    /// [`Storage::rename`].
    Rename,
    /// [`Storage::remove`].
    Remove,
    /// [`Storage::sync_dir`].
    SyncDir,
    /// [`Storage::lock`].
    Lock,
    /// [`File::len`].
    Len,
    /// [`File::allocated_len`].
    AllocatedLen,
    /// [`File::modified_ns`].
    ModifiedNs,
    /// [`File::read_exact_at`].
    ReadExactAt,
    /// [`File::write_all_at`].
    WriteAllAt,
    /// [`File::allocate`].
    Allocate,
    /// [`File::zero_range`].
    ZeroRange,
    /// [`File::punch_hole`].
    PunchHole,
    /// [`File::sync`].
    Sync,
    /// [`File::map`].
    Map,
    /// [`File::map_words`].
    MapWords,
    /// [`SharedMap::sync`](crate::io::SharedMap::sync) and that of a `WordPage`.
    MapSync,
    /// [`SharedMap::fault_in`](crate::io::SharedMap::fault_in).
    FaultIn,
}

/// One call of a storage trait.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Number of calls before it: the first one of a machine is 0.
    pub index: u64,
    /// What is asked for.
    pub op: Op,
    /// What it is about: for an open file or a map the path it was opened by, for
    /// a rename the old name.
    pub path: &'a Path,
}

/// How a call fails.
///
/// A failed [`Op::Sync`] or [`Op::MapSync`] does what failed syncs do: what was
/// dirty in its range stays visible but does not reach the disk, and since the
/// kernel now believes it clean, later syncs skip it too, until it is written
/// again. Stores through a map count as writing again where they leave other bytes
/// than there were when the sync failed. A failed [`Op::SyncDir`] likewise leaves
/// its names to chance for ever. Any other call that fails has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error of this kind.
    Error(io::ErrorKind),
    /// The system's error of this number, such as 28 for "no space left on device".
    Os(i32),
    /// [`Op::WriteAllAt`] writes half of its bytes and finds the disk full; other
    /// calls fail as if the disk were full.
    Short,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Error(kind) => io::Error::new(kind, "injected fault"),
            Self::Os(number) => io::Error::from_raw_os_error(number),
            Self::Short => io::Error::from_raw_os_error(libc::ENOSPC),
        }
    }
}

/// What every call fails with once the power is gone.
pub(super) fn power_cut() -> io::Error {
    io::Error::other("simulated power cut")
}

/// What to do with a call.
pub(super) enum Verdict {
    Run,
    Fail(Fault),
    /// The power goes before the call has an effect.
    CutBefore,
    /// The power goes after the call had its effect, before it returns.
    CutAfter,
    /// There is no power.
    Off,
}

type Predicate = Box<dyn Fn(&Call<'_>) -> Option<Fault> + Send + Sync>;

/// The plan of a machine, and its count of calls.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) calls: u64,
    pub(super) is_off: bool,
    at: BTreeMap<u64, Fault>,
    when: Vec<Predicate>,
    cut_before: Option<u64>,
    cut_after: Option<u64>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("calls", &self.calls)
            .field("is_off", &self.is_off)
            .field("at", &self.at)
            .field("when", &self.when.len())
            .field("cut_before", &self.cut_before)
            .field("cut_after", &self.cut_after)
            .finish()
    }
}

impl Faults {
    pub(super) fn fail_at(&mut self, call: u64, fault: Fault) {
        self.at.insert(call, fault);
    }

    pub(super) fn fail_when(&mut self, predicate: Predicate) {
        self.when.push(predicate);
    }

    pub(super) fn cut_before(&mut self, call: u64) {
        self.cut_before = Some(call);
    }

    pub(super) fn cut_after(&mut self, call: u64) {
        self.cut_after = Some(call);
    }

    /// Forgets the plan; the count goes on and the power stays as it is.
    pub(super) fn clear(&mut self) {
        *self = Self { calls: self.calls, is_off: self.is_off, ..Self::default() };
    }

    pub(super) fn enter(&mut self, op: Op, path: &Path) -> Verdict {
        let index = self.calls;
        self.calls += 1;
        if self.is_off {
            Verdict::Off
        } else if self.cut_before == Some(index) {
            Verdict::CutBefore
        } else if self.cut_after == Some(index) {
            Verdict::CutAfter
        } else {
            let call = Call { index, op, path };
            let planned = self.at.get(&index).copied();
            planned
                .or_else(|| self.when.iter().find_map(|predicate| predicate(&call)))
                .map_or(Verdict::Run, Verdict::Fail)
        }
    }
}
