//! Several compressed segments fetched at a time: while one is synced and verified, the
//! others are on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;

use parking_lot::Mutex;

use crate::error::{AofError, Result};
use crate::io::threads;
use crate::segment::Artifact;
use crate::store::WarmFiles;

/// Segments on their way at the same time. Each has two pieces of a few megabytes in
/// memory, and as many requests in flight.
const AT_ONCE_MAX: usize = 4;

/// What happened to one of them.
pub(super) enum News {
    /// So many more bytes are here.
    Copied(u64),
    /// It is here, verified and named, or why not. Of its bytes so many were told before.
    Ended { artifact: Arc<Artifact>, outcome: Result<()>, copied: u64 },
}

/// Fetches all of them. `tell` hears of it on the caller's thread; its error ends
/// everything, and what is half done is removed.
pub(super) fn fetch_all(
    files: WarmFiles<'_>,
    wanted: Vec<Arc<Artifact>>,
    tell: &mut dyn FnMut(News) -> Result<()>,
) -> Result<()> {
    let workers = wanted.len().min(AT_ONCE_MAX);
    let queue = Mutex::new(wanted.into_iter());
    let is_over = AtomicBool::new(false);
    let (news, heard) = channel();
    scope(|scope| {
        for n in 0..workers {
            let (queue, is_over, news) = (&queue, &is_over, news.clone());
            let name = format!("aof2-fetch-{n}");
            let work = move || work(files, &mut || queue.lock().next(), is_over, &news);
            if let Err(error) = threads::start_within(scope, &name, work) {
                is_over.store(true, Ordering::Relaxed);
                return Err(AofError::io("start a thread", files.layout.root())(error));
            }
        }
        drop(news);
        let mut ended = Ok(());
        for one in heard {
            // After an error nothing is told any more; the others only have to end.
            if ended.is_ok() {
                ended = tell(one);
                is_over.store(ended.is_err(), Ordering::Relaxed);
            }
        }
        ended
    })
}

/// Fetches one after the other, as long as there are any.
fn work(
    files: WarmFiles<'_>,
    next: &mut dyn FnMut() -> Option<Arc<Artifact>>,
    is_over: &AtomicBool,
    news: &Sender<News>,
) {
    while !is_over.load(Ordering::Relaxed)
        && let Some(artifact) = next()
    {
        let mut copied = 0;
        let outcome = files.copy(&artifact, &mut |bytes| {
            copied += bytes;
            match news.send(News::Copied(bytes)) {
                Ok(()) if !is_over.load(Ordering::Relaxed) => Ok(()),
                _ => Err(AofError::Cancelled),
            }
        });
        let outcome = outcome.map(drop);
        if news.send(News::Ended { artifact, outcome, copied }).is_err() {
            return;
        }
    }
}
