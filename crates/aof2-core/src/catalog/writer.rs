//! The writer's thread: drains the queue, lets the engine decide, has checkpoints written.
//!
//! Both threads of a catalog are started here. The writer's runs as long as the catalog is
//! open. The other one runs while a checkpoint is written: the tables can be read while they
//! are written, so nobody waits for it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::core::Core;
use super::engine::{Engine, Group};
use super::trim::{Written, write_checkpoint};
use crate::error::{AofError, Result};
use crate::io::threads;

/// Groups of one batch at most.
const GROUPS_MAX: usize = 4096;

/// Who waits for a checkpoint, and gets its generation.
pub(super) type CheckpointWaiter = Sender<Result<u64>>;

/// What the writer is asked for.
#[derive(Debug)]
pub(super) enum Message {
    Commit(Group),
    Checkpoint(CheckpointWaiter),
    /// How writing a checkpoint ended.
    Written(Result<Written>),
    Stop,
}

/// Starts the writer.
pub(super) fn start(engine: Engine) -> Result<(SyncSender<Message>, JoinHandle<()>)> {
    let core = Arc::clone(&engine.core);
    let (sender, receiver) = sync_channel(core.config.queue_max);
    let writer =
        Writer { engine, receiver, sender: sender.clone(), running: None, waiting: Vec::new() };
    let thread = spawn("aof2-catalog", &core, move || writer.run())?;
    Ok((sender, thread))
}

fn spawn(name: &str, core: &Core, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    threads::start_joined(name, work).map_err(AofError::io("start a thread", &core.layout.root))
}

struct Writer {
    engine: Engine,
    receiver: Receiver<Message>,
    sender: SyncSender<Message>,
    /// The checkpoint that is being written, and who waits for it.
    running: Option<(JoinHandle<()>, Vec<CheckpointWaiter>)>,
    /// Who waits for the one after that.
    waiting: Vec<CheckpointWaiter>,
}

/// However it ends, nobody waits for what it would have decided.
impl Drop for Writer {
    fn drop(&mut self) {
        self.engine.core.published.end(AofError::Closed);
    }
}

impl Writer {
    fn run(mut self) {
        while let Ok(message) = self.receiver.recv() {
            if !self.handle(message) {
                break;
            }
        }
        self.finish();
    }

    /// `false` when it is asked to stop.
    fn handle(&mut self, message: Message) -> bool {
        match message {
            Message::Commit(group) => return self.commit(group),
            Message::Checkpoint(waiter) => self.waiting.push(waiter),
            Message::Written(written) => self.checkpoint_written(written),
            Message::Stop => return false,
        }
        self.start_checkpoint_if_due();
        true
    }

    /// Decides this group and those that wait behind it, up to the next other message.
    fn commit(&mut self, first: Group) -> bool {
        let (groups, other) = self.gather(first);
        self.engine.core.counters.queued.fetch_sub(groups.len() as u64, Relaxed);
        let engine = &mut self.engine;
        let decided = std::panic::catch_unwind(AssertUnwindSafe(|| engine.commit(groups)));
        if decided.is_err() {
            let reason: Arc<str> = "deciding a batch panicked".into();
            self.engine.fail(AofError::Poisoned { reason });
        }
        self.start_checkpoint_if_due();
        other.is_none_or(|message| self.handle(message))
    }

    fn gather(&mut self, first: Group) -> (VecDeque<Group>, Option<Message>) {
        let linger = Duration::from_micros(self.engine.core.config.linger_us);
        let deadline = Instant::now() + linger;
        let mut groups = VecDeque::from([first]);
        while groups.len() < GROUPS_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok(Message::Commit(group)) => groups.push_back(group),
                Ok(other) => return (groups, Some(other)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        (groups, None)
    }

    fn start_checkpoint_if_due(&mut self) {
        let is_due = !self.waiting.is_empty() || self.engine.is_checkpoint_due();
        if self.running.is_some() || !is_due {
            return;
        }
        let waiters = std::mem::take(&mut self.waiting);
        match self.start_checkpoint() {
            Ok(thread) => self.running = Some((thread, waiters)),
            Err(error) => self.checkpoint_failed(&error, waiters),
        }
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<()>> {
        let view = self.engine.start_checkpoint()?;
        let core = Arc::clone(&self.engine.core);
        let sender = self.sender.clone();
        let work = move || {
            let mut report = Report { sender, written: None };
            report.written = Some(write_checkpoint(&core, view));
        };
        spawn("aof2-checkpoint", &self.engine.core, work)
    }

    fn checkpoint_written(&mut self, written: Result<Written>) {
        let Some((thread, waiters)) = self.running.take() else { return };
        let _ = thread.join();
        let finished = written.and_then(|written| {
            self.engine.finish_checkpoint(&written)?;
            Ok(written.generation)
        });
        match finished {
            Ok(generation) => {
                for waiter in waiters {
                    let _ = waiter.send(Ok(generation));
                }
            }
            Err(error) => self.checkpoint_failed(&error, waiters),
        }
    }

    /// The log keeps what the checkpoint would have replaced; the next one is tried when it
    /// is due again.
    fn checkpoint_failed(&mut self, error: &AofError, waiters: Vec<CheckpointWaiter>) {
        tracing::error!(%error, "a checkpoint of the catalog failed");
        self.engine.core.counters.checkpoint_failed();
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Lets the checkpoint end. Whoever still waits in the queue is told that it is closed.
    fn finish(mut self) {
        while self.running.is_some() {
            match self.receiver.recv() {
                Ok(Message::Written(written)) => self.checkpoint_written(written),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if let Err(error) = self.engine.core.tables.persist() {
            tracing::warn!(%error, "the tables of the catalog will be brought up when it is opened");
        }
    }
}

/// Tells the writer how its checkpoint ended, also if writing it panicked: whoever waits for
/// it must not wait for ever.
struct Report {
    sender: SyncSender<Message>,
    written: Option<Result<Written>>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let panicked = || AofError::Poisoned { reason: "writing a checkpoint panicked".into() };
        let written = self.written.take().unwrap_or_else(|| Err(panicked()));
        // Gone only if the writer is, and then nobody wants to know.
        let _ = self.sender.send(Message::Written(written));
    }
}
