//! Windows that a read which does not wait asked for: fetched by a thread or two that
//! live as long as there is something to fetch, and put where the next try finds them.
//!
//! Requests, threads and remembered failures are bounded. A request too many is dropped:
//! whoever asked tries again.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::cache::WindowCache;
use crate::error::{AofError, Result};
use crate::io::threads;
use crate::segment::Artifact;

/// One waits for an answer while the other decompresses.
const THREADS_MAX: usize = 2;
const WAITING_MAX: usize = 64;
const FAILURES_MAX: usize = 64;

/// A frame of a segment.
type Key = (u32, usize);

#[derive(Debug)]
pub(crate) struct WindowFetcher {
    windows: Arc<WindowCache>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Arc<Artifact>, usize)>,
    running: Vec<Key>,
    threads: usize,
    /// Why a window is not there; told once.
    failed: VecDeque<(Key, AofError)>,
}

fn key_of(artifact: &Artifact, frame: usize) -> Key {
    (artifact.meta().segment_id.as_u32(), frame)
}

impl State {
    fn is_asked_for(&self, key: Key) -> bool {
        self.running.contains(&key)
            || self.waiting.iter().any(|(artifact, frame)| key_of(artifact, *frame) == key)
    }

    fn take_failure(&mut self, key: Key) -> Option<AofError> {
        let at = self.failed.iter().position(|(of, _)| *of == key)?;
        self.failed.remove(at).map(|(_, error)| error)
    }

    fn note_failure(&mut self, key: Key, error: AofError) {
        if self.failed.len() >= FAILURES_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((key, error));
    }
}

impl WindowFetcher {
    pub(crate) fn new(windows: Arc<WindowCache>) -> Arc<Self> {
        Arc::new(Self { windows, state: Mutex::default() })
    }

    /// Asks for a window and does not wait for it. The error is that of the last try, if
    /// it failed.
    pub(crate) fn ask(self: &Arc<Self>, artifact: &Arc<Artifact>, frame: usize) -> Result<()> {
        let key = key_of(artifact, frame);
        let mut state = self.state.lock();
        if let Some(error) = state.take_failure(key) {
            return Err(error);
        }
        if state.is_asked_for(key) || state.waiting.len() >= WAITING_MAX {
            return Ok(());
        }
        state.waiting.push_back((Arc::clone(artifact), frame));
        if state.threads >= THREADS_MAX {
            return Ok(());
        }
        state.threads += 1;
        let fetcher = Arc::clone(self);
        let started = threads::start("aof2-fetch", move || fetcher.fetch_all());
        if let Err(error) = started {
            state.threads -= 1;
            if state.threads == 0 {
                state.waiting.clear();
                return Err(AofError::io("start a thread", std::path::Path::new(""))(error));
            }
        }
        Ok(())
    }

    fn fetch_all(&self) {
        loop {
            let (artifact, frame) = {
                let mut state = self.state.lock();
                let Some(next) = state.waiting.pop_front() else {
                    // Within the lock: whoever asks next sees that nobody is here.
                    state.threads -= 1;
                    return;
                };
                state.running.push(key_of(&next.0, next.1));
                next
            };
            let key = key_of(&artifact, frame);
            let read = artifact.windows(frame..frame + 1);
            let window = read.map(|windows| windows.into_iter().next());
            if let Ok(Some(window)) = window {
                self.windows.put(key.0, key.1, Arc::new(window));
                self.state.lock().running.retain(|running| *running != key);
                continue;
            }
            let mut state = self.state.lock();
            state.running.retain(|running| *running != key);
            if let Err(error) = window {
                state.note_failure(key, error);
            }
        }
    }
}
