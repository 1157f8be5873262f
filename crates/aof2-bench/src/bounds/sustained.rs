//! Sustained append: one thread prepares files, the other fills them.
//!
//! The filled files stay until the round is over, as a log would keep them: the
//! kernel's writeback takes its share of both, the bound and the log.

use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Instant;

use super::prepared_file::PreparedFile;
use super::record::{record_len, write_records};
use crate::engine::{Plan, Result};
use crate::measure::{Sample, Subject};
use crate::payload::Payloads;
use crate::scratch::Scratch;

/// One file waits in the channel and one in the preparing thread's hand.
const CHANNEL_DEPTH: usize = 1;
/// A log at rest has its active segment and its spares ready, so the clock
/// starts with as many: one to fill and two ahead.
const READY_AT_START: u64 = 3;

pub struct SustainedBound {
    plan: Plan,
    scratch: Rc<Scratch>,
    payloads: Payloads,
}

impl SustainedBound {
    pub fn new(plan: Plan, scratch: Rc<Scratch>, payloads: Payloads) -> Self {
        SustainedBound { plan, scratch, payloads }
    }
}

impl Subject for SustainedBound {
    fn round(&mut self) -> Result<Sample> {
        let plan = self.plan;
        let dir = self.scratch.fresh_dir("sustained-bound")?;
        let records_per_file = plan.segment_bytes / record_len(plan.payload_len) as u64;
        let file_count = plan.record_count.div_ceil(records_per_file);
        let mut filled = Vec::new();
        self.scratch.quiesce()?;

        let elapsed = thread::scope(|scope| -> Result<_> {
            let (sender, prepared) = sync_channel(CHANNEL_DEPTH);
            let (ready_sender, ready) = channel();
            let dir = &dir;
            let preparer = scope.spawn(move || {
                prepare(dir, file_count, plan.segment_bytes, &sender, &ready_sender)
            });
            let first = prepared.recv()?;
            for _ in 0..READY_AT_START.min(file_count) {
                ready.recv()?;
            }
            let start = Instant::now();
            fill(&plan, &self.payloads, records_per_file, first, &prepared, &mut filled)?;
            let elapsed = start.elapsed();
            preparer.join().map_err(|_| "the preparing thread panicked")??;
            Ok(elapsed)
        })?;

        for file in filled {
            file.remove()?;
        }
        std::fs::remove_dir(&dir)?;
        Ok(Sample {
            elapsed,
            record_count: plan.record_count,
            payload_bytes: plan.payload_bytes(),
            latency: None,
        })
    }
}

fn prepare(
    dir: &Path,
    file_count: u64,
    file_bytes: u64,
    prepared: &SyncSender<PreparedFile>,
    ready: &Sender<()>,
) -> Result<()> {
    for number in 0..file_count {
        let file = PreparedFile::create(&dir.join(number.to_string()), file_bytes)?;
        // Nobody listens any more once the clock runs.
        let _ = ready.send(());
        if prepared.send(file).is_err() {
            break;
        }
    }
    Ok(())
}

fn fill(
    plan: &Plan,
    payloads: &Payloads,
    records_per_file: u64,
    mut file: PreparedFile,
    prepared: &Receiver<PreparedFile>,
    filled: &mut Vec<PreparedFile>,
) -> Result<()> {
    let mut ordinal = 0;
    loop {
        let count = records_per_file.min(plan.record_count - ordinal);
        write_records(file.bytes_mut(), payloads, ordinal, count);
        filled.push(file);
        ordinal += count;
        if ordinal == plan.record_count {
            return Ok(());
        }
        file = prepared.recv()?;
    }
}
