//! How tasks went: which failures are tried again, when, and what an operator is told.
//!
//! A store that answers nobody is the store's trouble and not that of a segment: nothing
//! is planned that needs it but one probe, no failure of that time counts against what
//! failed, and when the store answers again everything is due at once. What fails while the
//! store answers others (a key that is refused, a damaged source) keeps pauses of its own.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::stream::StreamTiers;
use super::task::{Lane, Task};
use crate::bucket::ColdTier;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::object::Outage;
use crate::write::Stream;

/// What failures are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// Local moves of a segment read the same bytes and need the same disk: when one of them
    /// fails, the others wait with it.
    Moves(SegmentId),
    /// Everything else by itself.
    Task(Task),
}

impl Task {
    fn subject(self) -> Subject {
        match self {
            Self::Evict(id) | Self::Hydrate(id) | Self::Compress(id) => Subject::Moves(id),
            task => Subject::Task(task),
        }
    }
}

/// Failures of a stream's tasks. Bounded by what there is to fail.
#[derive(Debug)]
pub(super) struct Backoff {
    failed: BTreeMap<Subject, Failure>,
    base_ms: u64,
    max_ms: u64,
}

#[derive(Debug, Default)]
struct Failure {
    count: u32,
    /// Not before this; `u64::MAX` for never.
    due_ms: u64,
    error: Option<AofError>,
}

impl Backoff {
    pub(super) fn new(base_ms: u64, max_ms: u64) -> Self {
        Self { failed: BTreeMap::new(), base_ms, max_ms }
    }

    /// When it may be tried; 0 if it did not fail, `u64::MAX` if it was given up.
    pub(super) fn due_ms(&self, task: Task) -> u64 {
        self.failed.get(&task.subject()).map_or(0, |failure| failure.due_ms)
    }

    pub(super) fn is_due(&self, task: Task, now_ms: u64) -> bool {
        self.due_ms(task) <= now_ms
    }

    /// It is tried again after a pause, which is at most so long.
    pub(super) fn fail(&mut self, task: Task, now_ms: u64, pause_ms_max: u64) {
        let failure = self.failed.entry(task.subject()).or_default();
        let doubled = self.base_ms.saturating_mul(1 << failure.count.min(20));
        let pause_ms = doubled.min(self.max_ms).min(pause_ms_max);
        failure.count = failure.count.saturating_add(1);
        failure.due_ms = now_ms.saturating_add(pause_ms);
    }

    /// Nothing but healing it or opening the log again will help.
    fn give_up(&mut self, task: Task) {
        let failure = Failure { count: u32::MAX, due_ms: u64::MAX, error: None };
        self.failed.insert(task.subject(), failure);
    }

    /// Whether it will never be tried again.
    pub(super) fn is_given_up(&self, task: Task) -> bool {
        self.due_ms(task) == u64::MAX
    }

    /// Why it will never be tried again, if so.
    pub(super) fn refusal(&self, task: Task) -> Option<AofError> {
        let failure = self.failed.get(&task.subject())?;
        failure.error.clone().filter(|_| failure.due_ms == u64::MAX)
    }

    /// Why it failed last.
    fn explain(&mut self, task: Task, error: AofError) {
        if let Some(failure) = self.failed.get_mut(&task.subject()) {
            failure.error = Some(error);
        }
    }

    fn succeed(&mut self, task: Task) {
        self.failed.remove(&task.subject());
    }

    /// A segment is not what it was when its tasks failed.
    fn forget(&mut self, segment_id: SegmentId) {
        for task in [Task::Compress, Task::Upload, Task::VerifyAhead, Task::DropWarm] {
            self.succeed(task(segment_id));
        }
    }

    /// When the next move becomes due after this time, if any will. Not what is due: a
    /// plan has seen that, and what it left alone needs no other look.
    pub(super) fn next_move_ms(&self, now_ms: u64) -> Option<u64> {
        let is_move = |subject: &Subject| match subject {
            Subject::Moves(_) => true,
            Subject::Task(task) => task.lane() == Lane::Moves,
        };
        let moves = self.failed.iter().filter(|(subject, _)| is_move(subject));
        let due = moves.map(|(_, failure)| failure.due_ms);
        due.filter(|&due_ms| due_ms > now_ms && due_ms != u64::MAX).min()
    }

    /// The last error of something for the object store that still fails.
    fn cold_error(&self) -> Option<String> {
        let is_cold = |subject: &Subject| match subject {
            Subject::Moves(_) => false,
            Subject::Task(task) => task.lane() == Lane::Cold,
        };
        let mut errors = self.failed.iter().filter(|(subject, _)| is_cold(subject));
        errors.find_map(|(_, failure)| Some(failure.error.as_ref()?.to_string()))
    }
}

/// What a failure means for the next try.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is gone, or going: there is nothing to try again.
    Ignore,
    /// It is due when the store is back, which is known for all streams at once.
    Outage,
    /// Trying again will not help.
    GiveUp,
    /// Trying again may help, after a pause of at most so long.
    Retry { pause_ms_max: u64 },
}

/// What fails although the store answers, and may fail for everybody, is tried again at
/// least this often: a store that can be read but not written, as while it starts.
const STORE_PAUSE_MS_MAX: u64 = 10_000;

impl Verdict {
    fn of(task: Task, error: &AofError, cold: Option<&ColdTier>) -> Self {
        match error {
            AofError::Closed | AofError::NoSuchSegment(_) | AofError::Forked => Self::Ignore,
            AofError::Cold(error) if error.is_outage() => Self::Outage,
            // Of the manifest's uploads only that they were not done is known.
            AofError::Timeout { .. } if cold.is_some_and(|cold| cold.outage().is_some()) => {
                Self::Outage
            }
            // Its own bytes are damaged. It stays where it is, for repair.
            AofError::Corrupt(_) => Self::GiveUp,
            // The stream does nothing more.
            AofError::Fenced { .. } | AofError::Diverged(_) | AofError::NameTaken { .. } => {
                Self::GiveUp
            }
            // Refused for good. Not so a local move: who asks for it shall hear why, each time.
            AofError::LastCopy(_) | AofError::InvalidConfig { .. } if task.lane() == Lane::Cold => {
                Self::GiveUp
            }
            AofError::Cold(error) if error.may_be_of_all() => {
                Self::Retry { pause_ms_max: STORE_PAUSE_MS_MAX }
            }
            _ => Self::Retry { pause_ms_max: u64::MAX },
        }
    }
}

impl StreamTiers {
    /// Remembers how a task went.
    pub(super) fn note(&self, stream: &Stream, task: Task, outcome: &Result<u64>) {
        let Err(error) = outcome else { return self.backoff.lock().succeed(task) };
        let cold = self.coordinator.cold();
        let verdict = Verdict::of(task, error, cold.map(|cold| &**cold));
        let is_move = task.lane() == Lane::Moves;
        let now_ms = self.coordinator.now_ms();
        let mut backoff = self.backoff.lock();
        match &verdict {
            Verdict::Ignore => return backoff.succeed(task),
            // Whoever asked for the segment was told, so that is counted.
            Verdict::Outage if is_move => backoff.succeed(task),
            Verdict::Outage => return backoff.succeed(task),
            Verdict::GiveUp => backoff.give_up(task),
            Verdict::Retry { pause_ms_max } => backoff.fail(task, now_ms, *pause_ms_max),
        }
        backoff.explain(task, error.clone());
        drop(backoff);
        if let (Verdict::GiveUp, Subject::Moves(segment_id)) = (&verdict, task.subject()) {
            // Nothing more is planned for it: whoever asked for it is told.
            self.activations.lock().finish(segment_id, Err(error.clone()));
        }
        let (failures, message) = match is_move {
            true => (&self.counters.failures, "a move between tiers failed"),
            false => (&self.counters.cold_failures, "the cold tier failed"),
        };
        failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, stream = stream.store().name(), ?task, "{message}");
    }

    /// A segment is not what it was when its tasks failed: they are tried again.
    pub(super) fn forget_failures(&self, segment_id: SegmentId) {
        self.backoff.lock().forget(segment_id);
    }

    /// Why the object store does not get what it should, if so.
    pub(super) fn cold_error(&self) -> Option<String> {
        let cold = self.coordinator.cold();
        let outage = cold.and_then(|cold| Some((cold.outage()?, cold.probe_ms())));
        match outage {
            Some((outage, probe_ms)) => {
                Some(describe(&outage, probe_ms, self.coordinator.now_ms()))
            }
            None => self.backoff.lock().cold_error(),
        }
    }
}

/// An outage as an operator reads it.
fn describe(outage: &Outage, probe_ms: u64, now_ms: u64) -> String {
    let Outage { since_ms, cause, .. } = outage;
    let seconds = now_ms.saturating_sub(*since_ms) / 1_000;
    format!(
        "the object store has not answered for {seconds} s; one request asks every {probe_ms} ms \
         whether it is back, everything else waits for that: {cause}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> SegmentId {
        SegmentId::from_u64(n)
    }

    #[test]
    fn pauses_double_up_to_the_limit_and_end_with_success() {
        let (one, two) = (Task::Compress(id(1)), Task::Compress(id(2)));
        let mut backoff = Backoff::new(100, 300);
        backoff.fail(one, 0, u64::MAX);
        assert!(!backoff.is_due(one, 99) && backoff.is_due(one, 100) && backoff.is_due(two, 0));
        backoff.fail(one, 100, u64::MAX);
        assert_eq!((backoff.next_move_ms(100), backoff.next_move_ms(300)), (Some(300), None));
        backoff.fail(one, 300, u64::MAX);
        assert_eq!(backoff.next_move_ms(300), Some(600));
        backoff.fail(one, 600, 50);
        assert_eq!(backoff.next_move_ms(600), Some(650));
        backoff.succeed(one);
        assert!(backoff.is_due(one, 0) && backoff.next_move_ms(0).is_none());
        backoff.give_up(one);
        assert!(!backoff.is_due(one, u64::MAX - 1) && backoff.next_move_ms(0).is_none());
        assert!(backoff.is_given_up(one) && !backoff.is_given_up(two));
    }

    #[test]
    fn local_moves_of_a_segment_wait_together_and_all_else_waits_alone() {
        let mut backoff = Backoff::new(100, 300);
        backoff.fail(Task::Evict(id(1)), 0, u64::MAX);
        assert!(!backoff.is_due(Task::Compress(id(1)), 0));
        assert!(!backoff.is_due(Task::Hydrate(id(1)), 0));
        assert!(backoff.is_due(Task::Upload(id(1)), 0));
        backoff.fail(Task::Upload(id(2)), 0, u64::MAX);
        assert!(backoff.is_due(Task::Compress(id(2)), 0) && backoff.is_due(Task::Upload(id(3)), 0));
        assert_eq!(backoff.next_move_ms(0), Some(100));
        backoff.succeed(Task::Hydrate(id(1)));
        assert_eq!(backoff.next_move_ms(0), None, "the object store has a lane of its own");
    }

    #[test]
    fn a_segment_that_was_healed_is_tried_again_and_its_error_is_gone() {
        let mut backoff = Backoff::new(100, 300);
        backoff.give_up(Task::Upload(id(1)));
        backoff.explain(Task::Upload(id(1)), AofError::NoSuchSegment(id(1)));
        backoff.give_up(Task::Evict(id(1)));
        backoff.fail(Task::Delete(id(1), 1), 0, u64::MAX);
        assert_eq!(backoff.cold_error(), Some(AofError::NoSuchSegment(id(1)).to_string()));
        assert!(backoff.refusal(Task::Upload(id(1))).is_some());
        backoff.forget(id(1));
        assert!(backoff.is_due(Task::Upload(id(1)), 0) && backoff.is_due(Task::Compress(id(1)), 0));
        assert!(!backoff.is_due(Task::Delete(id(1), 1), 0), "an old object has not changed");
        assert_eq!(backoff.cold_error(), None);
    }

    #[test]
    fn what_is_refused_for_good_is_given_up_unless_somebody_waits_for_an_answer() {
        let of = |task, error: &AofError| Verdict::of(task, error, None);
        let retry = Verdict::Retry { pause_ms_max: u64::MAX };
        let refused = AofError::InvalidConfig { field: "cold", reason: String::new() };
        for error in [AofError::LastCopy(id(1)), refused] {
            assert_eq!(of(Task::Upload(id(1)), &error), Verdict::GiveUp);
            assert_eq!(of(Task::Hydrate(id(1)), &error), retry);
        }
        for task in [Task::Upload(id(1)), Task::Hydrate(id(1)), Task::Seal] {
            assert_eq!(of(task, &AofError::NoSuchSegment(id(1))), Verdict::Ignore);
            assert_eq!(of(task, &AofError::Closed), Verdict::Ignore);
            assert_eq!(of(task, &AofError::Timeout { what: "a lock" }), retry);
        }
    }
}
