//! Waking readers in other processes: a futex on a word of the mapped watermark
//! file. The writer bumps the word and wakes; a reader sleeps while the word has
//! the value it saw. Only the kernel's own comparison decides, so a wake between
//! "saw" and "sleep" is never lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::WordPage;

/// Longest single sleep: bounds the delay where the page cannot be waited on
/// (read-only file systems of some kinds, systems without futexes).
const SLEEP_MAX: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_millis(1);

/// Bumps the wake word and wakes every process that sleeps on it.
pub fn wake_word(page: &WordPage, offset: usize) {
    let Some(word) = page.half(offset).filter(|_| page.is_writable()) else { return };
    word.fetch_add(1, Ordering::Release);
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;
        // A failed wake only costs the sleeper its remaining SLEEP_MAX.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// Sleeps until the wake word differs from `seen` or `timeout` passes; may return
/// early. Returns the word's current value.
pub fn wait_while_word(page: &WordPage, offset: usize, seen: u32, timeout: Duration) -> u32 {
    let Some(word) = page.half(offset) else {
        std::thread::sleep(timeout.min(POLL));
        return seen;
    };
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;
        let timeout = timeout.min(SLEEP_MAX);
        let spec = futex::Timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        match futex::wait(word, futex::Flags::empty(), seen, Some(&spec)) {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::TIMEDOUT) => {}
            Err(rustix::io::Errno::INTR) => {}
            // This mapping cannot be waited on: poll.
            Err(_) => std::thread::sleep(timeout.min(POLL)),
        }
    }
    #[cfg(not(target_os = "linux"))]
    if word.load(Ordering::Acquire) == seen {
        std::thread::sleep(timeout.min(POLL));
    }
    word.load(Ordering::Acquire)
}
