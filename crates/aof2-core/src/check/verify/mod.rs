//! Checking every byte of a log, and repairing what is damaged.
//!
//! [`verify`] reads and judges, while a writer may run; it writes nothing and takes no
//! lock. [`repair`] is the only thing that gives up records that had been durable, and
//! it says exactly which. Roles: `inventory` finds the files, `identity` which log they
//! are, `ends`, `facts` and `walk` say what is in one of them, `compressed` and `thaw` what
//! is in one that was compressed; `archive` does all that for a log that is in an object
//! store.
//! `check` says what is wrong, `judge` in a segment and `chain` between them; `repair`
//! plans and `rewrite` writes.
//!
//! What counts as damage is what recovery would refuse to open or a reader could not
//! read; what recovery removes by itself is a notice. After a repair the log verifies
//! healthy: every lost record is covered by a gap record, at its place or in a small
//! substitute for a segment that is missing. A segment of nothing but gaps may stand
//! for a larger one, so the base offset in the next segment's name may be larger than
//! its end.
//!
//! A segment may have several files: its own and compressed ones. It is judged by the one
//! that readers read, or by another that is in better order; the others are checked too.

mod archive;
mod chain;
mod check;
mod compressed;
mod ends;
mod facts;
mod identity;
mod inherited;
mod inventory;
mod judge;
mod repair;
mod report;
mod rewrite;
mod thaw;
mod walk;
mod windowed;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

pub use report::{
    LostRange, Problem, ProblemKind, RepairAction, RepairReport, SegmentCheck, Severity,
    VerifyProgress, VerifyReport,
};

pub(crate) use archive::verify_archive;

use crate::error::{AofError, Result};
use crate::io::{Clock, OsStorage, Storage, SystemClock};
use crate::store::Layout;
use crate::store::refuse_address;
use check::Checker;
use repair::Repair;

/// Told how far the work has got; answers whether it goes on.
pub type Progress<'a> = &'a mut dyn FnMut(VerifyProgress) -> ControlFlow<()>;

fn tell(progress: Progress<'_>, at: VerifyProgress) -> Result<()> {
    match progress(at) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(AofError::Cancelled),
    }
}

/// Checks every checksum, the order of records and segments, counters and names of the
/// log in this directory. Never writes and takes no lock; while a writer runs, only
/// what is durable is judged.
///
/// Memory stays bounded: one segment is mapped at a time, and of a compressed one a frame
/// is decompressed at a time. A segment in the object store is not read; [`verify_url`]
/// reads those.
///
/// [`verify_url`]: crate::check::url::verify_url
///
/// ```
/// use aof2_core::{Aof, AofConfig, verify};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// let log = Aof::open(AofConfig::new(&path))?;
/// log.append(b"hello")?;
/// log.close()?;
///
/// let report = verify(&path)?;
/// assert!(report.is_healthy(), "{:?}", report.problems);
/// assert_eq!(report.record_count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(root: impl AsRef<Path>) -> Result<VerifyReport> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    verify_with(&storage, root, &mut |_| ControlFlow::Continue(()))
}

/// [`verify`] on other storage than the machine's files, with word of the progress.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use aof2_core::{Aof, AofConfig, io::{OsStorage, Storage}, verify_with};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// # let log = Aof::open(AofConfig::new(&path))?;
/// # log.append(b"hello")?;
/// # log.close()?;
/// let storage: Arc<dyn Storage> = Arc::new(OsStorage);
/// let report = verify_with(&storage, &path, &mut |progress| {
///     println!("{} of {} bytes", progress.bytes_done, progress.bytes_total);
///     ControlFlow::Continue(()) // `Break` ends it with `AofError::Cancelled`
/// })?;
/// assert!(report.is_healthy());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_with(
    storage: &Arc<dyn Storage>,
    root: impl AsRef<Path>,
    progress: Progress<'_>,
) -> Result<VerifyReport> {
    refuse_address(root.as_ref())?;
    let layout = Layout::new(root.as_ref());
    let checker = Checker { storage: &**storage, layout: &layout, exclusive: false };
    let mut report = checker.run(progress)?.into_report(&layout);
    inherited::read_through(storage, &layout, &mut report)?;
    Ok(report)
}

/// Repairs the log in this directory, and says which records are gone.
///
/// Takes the writer lock. The original of every file that is replaced is kept in
/// `quarantine/`. Intact records keep their ids and offsets, and no offset is used
/// again. Of a damaged compressed segment without another copy a segment file is made. A
/// healthy log is left as it is; torn tails are left to recovery. A crash at
/// any point leaves each file either as it was or repaired: run it again.
///
/// ```
/// use aof2_core::{Aof, AofConfig, repair, verify};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// let log = Aof::open(AofConfig::new(&path))?;
/// log.append(b"first")?;
/// log.append(b"second")?;
/// log.close()?;
///
/// // Something flips a bit of the first record.
/// let file = verify(&path)?.segments[0].path.clone();
/// let mut bytes = std::fs::read(&file)?;
/// bytes[64 + 32] ^= 1;
/// std::fs::write(&file, bytes)?;
///
/// assert_eq!(verify(&path)?.problems[0].records, 0..1);
/// let report = repair(&path)?;
/// assert_eq!(report.lost[0].records, 0..1);
/// assert!(report.verify.is_healthy());
/// assert_eq!(report.verify.gaps, [0..1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair(root: impl AsRef<Path>) -> Result<RepairReport> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    repair_with(&storage, &SystemClock, root, &mut |_| ControlFlow::Continue(()))
}

/// [`repair`] on other storage and with another clock than the machine's. It can be
/// cancelled while it looks; once it has begun to write it goes through.
///
/// ```
/// use std::{ops::ControlFlow, sync::Arc};
/// use aof2_core::{Aof, AofConfig, io::{OsStorage, Storage, SystemClock}, repair_with};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// # let log = Aof::open(AofConfig::new(&path))?;
/// # log.append(b"hello")?;
/// # log.close()?;
/// let storage: Arc<dyn Storage> = Arc::new(OsStorage);
/// let report = repair_with(&storage, &SystemClock, &path, &mut |_| ControlFlow::Continue(()))?;
/// assert!(report.lost.is_empty() && report.actions.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair_with(
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    root: impl AsRef<Path>,
    progress: Progress<'_>,
) -> Result<RepairReport> {
    refuse_address(root.as_ref())?;
    Repair::run(&**storage, clock, &Layout::new(root.as_ref()), progress)
}
