//! One limit for what the process keeps open because it may be read again: the files of
//! compressed segments and the maps of sealed ones, of all logs and readers together.
//!
//! Both are opened when they are needed and stay open for the next reader. One too many
//! closes the one that nobody used for longest (as a clock with one hand tells it), and
//! whoever needs that one again opens it again. Nothing fails because of the limit:
//!
//! * A map that a reader holds stays mapped until the reader lets go of it; only the
//!   table of its log forgets it.
//! * A file stays open while bytes are read from it. If all are being read, whoever
//!   needs another one waits until one of these reads ends.
//! * If the system has no descriptor left although the limit is kept, because others in
//!   this process use them up, some files are closed and the call is tried again
//!   ([`OpenLimit::relieve`]). The same goes for addresses and maps.
//!
//! A forked child starts with nothing kept: what its parent kept belongs to handles that
//! refuse to work there.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::ForkStamp;
use super::process_limits::open_files_max;

/// At most so many, however many files the process may open: a quarter of the maps that
/// Linux gives a process.
const KEPT_MAX: usize = 16_384;
/// At least so many: with fewer nothing would go on.
const KEPT_MIN: usize = 8;
/// How long a call that got no descriptor waits for a read to end.
const RELIEF_WAIT: Duration = Duration::from_secs(1);

/// What something kept open takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// A descriptor.
    File,
    /// A map, and addresses.
    Map,
}

/// How a request to close something ended.
pub enum LetGo {
    /// It is closed once this is dropped.
    Closed(Box<dyn Send>),
    /// It was closed before.
    WasClosed,
    /// Somebody is using it.
    InUse,
}

/// Something that is open and can be opened again.
pub trait Keepable: Send + Sync {
    /// What it takes.
    fn keeps(&self) -> Keeps;
    /// Its place among all that is kept.
    fn place(&self) -> &KeptPlace;
    /// Closes it, unless it is in use. Must not wait.
    fn let_go(&self) -> LetGo;
}

/// What the limit remembers of something that can be kept.
#[derive(Debug, Default)]
pub struct KeptPlace {
    is_listed: AtomicBool,
    was_used: AtomicBool,
}

impl KeptPlace {
    /// Notes that it was used.
    #[inline]
    pub fn touch(&self) {
        // Mostly it is set: then no cache line has to change hands.
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
    }
}

/// Keeps things open, up to a limit.
pub struct OpenLimit {
    /// `None`: what the process may open decides.
    max: Option<usize>,
    kept: Mutex<VecDeque<Weak<dyn Keepable>>>,
    /// Whoever waits for a read to end, and how many do.
    read_ended: Condvar,
    waiting: AtomicUsize,
    stamp: ForkStamp,
}

static PROCESS: AtomicPtr<OpenLimit> = AtomicPtr::new(std::ptr::null_mut());

impl OpenLimit {
    /// The limit of this process.
    pub fn process() -> &'static Self {
        let found = PROCESS.load(Ordering::Acquire);
        // SAFETY: what was stored there was leaked, and so lives for ever.
        match unsafe { found.as_ref() } {
            Some(limit) if !limit.stamp.is_forked() => limit,
            _ => Self::replace(found),
        }
    }

    #[cold]
    fn replace(found: *mut Self) -> &'static Self {
        let new = Box::into_raw(Box::new(Self::with(None)));
        match PROCESS.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: `new` came from a box and nobody else saw it; `other` was leaked
                // by whoever stored it.
                unsafe {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }

    fn with(max: Option<usize>) -> Self {
        Self {
            max,
            kept: Mutex::default(),
            read_ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
            stamp: ForkStamp::now(),
        }
    }

    /// One apart from the process's.
    #[cfg(test)]
    fn of(max: usize) -> Self {
        Self::with(Some(max))
    }

    /// How many are kept at most.
    pub fn max(&self) -> usize {
        self.max.unwrap_or_else(|| kept_max(open_files_max()))
    }

    /// Makes space for one more file. Waits if all that are kept are being read.
    pub fn make_space(&self) {
        let max = self.max();
        let mut garbage = Vec::new();
        let mut kept = self.kept.lock();
        while kept.len() >= max {
            if self.close_one(&mut kept, &mut garbage) {
                continue;
            }
            // Announced before looking again: a read that ends meanwhile is seen by one
            // of the two.
            self.waiting.fetch_add(1, Ordering::SeqCst);
            if !self.close_one(&mut kept, &mut garbage) {
                self.read_ended.wait(&mut kept);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        drop(kept);
        drop(garbage);
    }

    /// Keeps something that was just opened, and closes others if it is one too many.
    pub fn keep(&self, opened: &Arc<impl Keepable + 'static>) {
        opened.place().touch();
        let max = self.max();
        let mut garbage = Vec::new();
        let mut kept = self.kept.lock();
        if opened.place().is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let weak: Weak<dyn Keepable> = Arc::downgrade(opened) as _;
        kept.push_back(weak);
        while kept.len() > max && self.close_one(&mut kept, &mut garbage) {}
        drop(kept);
        drop(garbage);
    }

    /// A read ended: whoever waits for that looks again.
    #[inline]
    pub fn read_ended(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _kept = self.kept.lock();
            self.read_ended.notify_all();
        }
    }

    /// The system has no more of this: closes some of those that are kept, or waits for a
    /// moment until one can be. Whether the call that failed is worth another try.
    pub fn relieve(&self, what: Keeps) -> bool {
        let is_one = |weak: &Weak<dyn Keepable>| weak.upgrade().is_some_and(|k| k.keeps() == what);
        let mut garbage = Vec::new();
        let mut kept = self.kept.lock();
        let count = kept.iter().filter(|weak| is_one(weak)).count();
        let mut is_worth_it = self.close_some(&mut kept, &mut garbage, what, count.div_ceil(4));
        // Those that are left are being read. A map that is held may be so for ever.
        if !is_worth_it && what == Keeps::File && kept.iter().any(is_one) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            is_worth_it = self.close_some(&mut kept, &mut garbage, what, 1)
                || !self.read_ended.wait_for(&mut kept, RELIEF_WAIT).timed_out();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        drop(kept);
        drop(garbage);
        is_worth_it
    }

    /// Calls until the system has what it takes, or nothing is left to be closed for it.
    pub fn relieving<T>(
        &self,
        what: Keeps,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match call() {
                Err(error) if is_used_up(&error, what) && self.relieve(what) => {}
                done => return done,
            }
        }
    }

    /// Closes the one that was not used for longest. Whether there is one less.
    fn close_one(
        &self,
        kept: &mut VecDeque<Weak<dyn Keepable>>,
        garbage: &mut Vec<Box<dyn Send>>,
    ) -> bool {
        // Twice around: the first time may only find that all were used.
        for _ in 0..2 * kept.len() {
            let Some(weak) = kept.pop_front() else { return false };
            let Some(oldest) = weak.upgrade() else { return true };
            if oldest.place().was_used.swap(false, Ordering::Relaxed) {
                kept.push_back(weak);
                continue;
            }
            match oldest.let_go() {
                LetGo::InUse => kept.push_back(weak),
                closed => {
                    oldest.place().is_listed.store(false, Ordering::Relaxed);
                    garbage.extend(left_behind(closed));
                    return true;
                }
            }
        }
        false
    }

    /// Closes up to `count` of a kind, those opened longest ago first.
    fn close_some(
        &self,
        kept: &mut VecDeque<Weak<dyn Keepable>>,
        garbage: &mut Vec<Box<dyn Send>>,
        what: Keeps,
        count: usize,
    ) -> bool {
        let mut closed = 0;
        kept.retain(|weak| {
            let Some(one) = weak.upgrade() else { return false };
            if one.keeps() != what || closed >= count {
                return true;
            }
            let let_go = one.let_go();
            if matches!(let_go, LetGo::InUse) {
                return true;
            }
            closed += usize::from(matches!(let_go, LetGo::Closed(_)));
            one.place().is_listed.store(false, Ordering::Relaxed);
            garbage.extend(left_behind(let_go));
            false
        });
        closed > 0
    }
}

fn left_behind(let_go: LetGo) -> Option<Box<dyn Send>> {
    match let_go {
        LetGo::Closed(garbage) => Some(garbage),
        LetGo::WasClosed | LetGo::InUse => None,
    }
}

/// Half of what the process may open: the other half is for what its logs need all the
/// time, for connections, and for everything else that it does.
fn kept_max(open_files_max: u64) -> usize {
    usize::try_from(open_files_max / 2).unwrap_or(usize::MAX).clamp(KEPT_MIN, KEPT_MAX)
}

/// Whether an error says that the system has no more descriptors, or addresses.
pub fn is_used_up(error: &io::Error, what: Keeps) -> bool {
    match what {
        Keeps::File => matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)),
        Keeps::Map => {
            error.raw_os_error() == Some(libc::ENOMEM) || error.kind() == io::ErrorKind::OutOfMemory
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Thing {
        place: KeptPlace,
        is_open: AtomicBool,
        is_used: AtomicBool,
        is_map: bool,
    }

    impl Keepable for Thing {
        fn keeps(&self) -> Keeps {
            if self.is_map { Keeps::Map } else { Keeps::File }
        }
        fn place(&self) -> &KeptPlace {
            &self.place
        }
        fn let_go(&self) -> LetGo {
            if self.is_used.load(Ordering::SeqCst) {
                return LetGo::InUse;
            }
            match self.is_open.swap(false, Ordering::SeqCst) {
                true => LetGo::Closed(Box::new(())),
                false => LetGo::WasClosed,
            }
        }
    }

    fn open(limit: &OpenLimit, thing: &Arc<Thing>) {
        limit.make_space();
        thing.is_open.store(true, Ordering::SeqCst);
        limit.keep(thing);
    }

    fn things(count: usize) -> Vec<Arc<Thing>> {
        (0..count).map(|_| Arc::new(Thing::default())).collect()
    }

    fn is_open(thing: &Arc<Thing>) -> bool {
        thing.is_open.load(Ordering::SeqCst)
    }

    #[test]
    fn one_too_many_closes_the_one_that_was_not_used_for_longest() {
        let limit = OpenLimit::of(8);
        let all = things(9);
        all[..8].iter().for_each(|t| open(&limit, t));
        // All were used when they were opened; from here on only the first one is.
        limit.relieve(Keeps::Map);
        open(&limit, &all[8]);
        assert!(!is_open(&all[0]), "the first round forgets that they were just opened");
        all[1].place.touch();
        open(&limit, &all[0]);
        assert!(is_open(&all[1]) && !is_open(&all[2]));
        assert_eq!(all.iter().filter(|t| is_open(t)).count(), 8);
    }

    #[test]
    fn thousands_leave_only_as_many_open_as_may_be() {
        let limit = OpenLimit::of(16);
        let all = things(3_000);
        for thing in all.iter().chain(&all) {
            open(&limit, thing);
            assert!(is_open(thing));
        }
        assert_eq!(all.iter().filter(|t| is_open(t)).count(), 16);
    }

    #[test]
    fn what_is_dropped_leaves_its_place() {
        let limit = OpenLimit::of(8);
        for _ in 0..100 {
            things(8).iter().for_each(|t| open(&limit, t));
        }
        assert!(limit.kept.lock().len() <= 8);
    }

    #[test]
    fn whoever_finds_all_being_read_waits_for_a_read_to_end() {
        let limit = Arc::new(OpenLimit::of(8));
        let all = things(9);
        for thing in &all[..8] {
            open(&limit, thing);
            thing.is_used.store(true, Ordering::SeqCst);
        }
        let (last, waiting) = (Arc::clone(&all[8]), Arc::clone(&limit));
        let opener = std::thread::spawn(move || open(&waiting, &last));
        while limit.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(!is_open(&all[8]));
        all[3].is_used.store(false, Ordering::SeqCst);
        limit.read_ended();
        opener.join().unwrap();
        assert!(is_open(&all[8]) && !is_open(&all[3]));
    }

    #[test]
    fn a_call_without_descriptors_is_tried_again_once_some_are_closed() {
        let limit = OpenLimit::of(64);
        let all = things(8);
        all.iter().for_each(|t| open(&limit, t));
        let map = Arc::new(Thing { is_map: true, ..Thing::default() });
        open(&limit, &map);
        let opened =
            limit.relieving(Keeps::File, || match all.iter().filter(|t| is_open(t)).count() {
                4.. => Err(io::Error::from_raw_os_error(libc::EMFILE)),
                left => Ok(left),
            });
        assert_eq!(opened.unwrap(), 3, "a quarter at a time, the oldest first");
        assert!(is_open(&map), "a map has no descriptor to give");
        all.iter().for_each(|t| t.is_open.store(false, Ordering::SeqCst));
        let refused = limit.relieving(Keeps::File, || -> io::Result<()> {
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        });
        assert!(refused.is_err(), "nothing is left to be closed");
    }

    #[test]
    fn the_limit_is_well_below_that_of_the_process() {
        assert_eq!(kept_max(256), 128);
        assert_eq!(kept_max(1_024), 512);
        assert_eq!(kept_max(u64::MAX), KEPT_MAX);
        assert_eq!(kept_max(4), KEPT_MIN);
    }
}
