//! Whether the store answers: known once, for everybody who asks something of it.
//!
//! ```text
//! answers   many failures in a row, or an operation that ran out of tries while nothing
//!           else was answered                                            -> in doubt
//! in doubt  one probe is sent at once, everybody else waits for it:
//!           answered -> answers; not answered -> down
//! down      nothing is sent but one probe every `probe_ms`. When it is answered, or
//!           something that was sent earlier is, everybody goes on        -> answers
//! ```
//!
//! Failures are those of the store as a whole ([`ObjectError::is_of_store`]). An answer of
//! any other kind, even a refusal, shows that it is there. The doubt tells a store that is
//! down from one that fails with a single object.
//!
//! There is no task that probes: whoever wants something of the store when a probe is due
//! sends it, so that a store that nobody needs is not asked.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::config::ColdConfig;
use super::error::{ObjectError, ObjectErrorKind, ObjectOp};
use crate::io::Clock;

/// How long the first probe may take. One that takes longer doubles it, up to the limit of
/// any request: a network that swallows packets must not cost more than a moment, and a
/// slow store must be found.
const PROBE_TIMEOUT_MS: u64 = 2_000;

/// A store that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// When the first request failed, milliseconds since the epoch.
    pub since_ms: u64,
    /// When the store is asked again whether it is there.
    pub probe_due_ms: u64,
    /// How the request failed that raised the doubt.
    pub cause: String,
}

#[derive(Debug, Default)]
struct State {
    /// Failures since the last answer, and when the first of them was.
    failures: u32,
    failing_since_ms: u64,
    /// Requests that were answered, and those of them that change something: operations
    /// see whether others like them are.
    answers: u64,
    writes: u64,
    presence: Presence,
    is_probing: bool,
    probe_due_ms: u64,
    /// Probes in a row that were not answered in time.
    probe_timeouts: u32,
    cause: String,
    outages: u64,
    probes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Answers,
    InDoubt,
    Down,
}

/// What a request may do.
pub(super) enum Entry<'a> {
    /// It may be sent.
    Open,
    /// It is the caller who asks whether the store is there.
    Probe(ProbeTurn<'a>),
    /// Somebody else asks, and will know in a moment.
    Doubt,
    /// It must wait for the store, which is asked again after this time.
    Down(Outage, Duration),
}

/// Everything about a store that all its users share.
#[derive(Debug)]
pub(super) struct Availability {
    failures_max: u32,
    probe_ms: u64,
    request_timeout_ms: u64,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The store came, went, or is doubted.
    changed: Notify,
    /// The store came.
    returned: Notify,
}

/// The right to send the probe. Dropped without a verdict, somebody else may.
pub(super) struct ProbeTurn<'a> {
    availability: &'a Availability,
    pub(super) timeout_ms: u64,
    is_decided: bool,
}

impl Availability {
    pub(super) fn new(config: &ColdConfig, clock: Arc<dyn Clock>) -> Self {
        Self {
            failures_max: config.breaker_failures,
            probe_ms: config.probe_ms,
            request_timeout_ms: config.request_timeout_ms,
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            returned: Notify::new(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }

    /// Completes when the store came, went or was doubted after this call.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Completes when the store was down and answers again.
    pub(super) fn returned(&self) -> Notified<'_> {
        self.returned.notified()
    }

    /// What a request may do now.
    pub(super) fn enter(&self) -> Entry<'_> {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        if state.presence == Presence::Answers {
            return Entry::Open;
        }
        // A clock that was set back must not keep a store down.
        let wait_ms = state.probe_due_ms.saturating_sub(now_ms);
        let is_due = state.presence == Presence::InDoubt || wait_ms == 0 || wait_ms > self.probe_ms;
        match (state.is_probing, is_due) {
            (false, true) => {
                state.is_probing = true;
                state.probes += 1;
                let doubled = PROBE_TIMEOUT_MS.saturating_mul(1 << state.probe_timeouts.min(20));
                let timeout_ms = doubled.min(self.request_timeout_ms);
                // Not before this one has its answer.
                state.probe_due_ms = now_ms.saturating_add(timeout_ms.max(self.probe_ms));
                Entry::Probe(ProbeTurn { availability: self, timeout_ms, is_decided: false })
            }
            (true, _) if state.presence == Presence::InDoubt => Entry::Doubt,
            _ => {
                // The answer to a probe that is on its way is told.
                let wait_ms = if state.is_probing { self.probe_ms } else { wait_ms };
                Entry::Down(state.outage(), Duration::from_millis(wait_ms))
            }
        }
    }

    /// Whether requests may be sent, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().presence == Presence::Answers
    }

    /// The outage, if the store is known not to answer.
    pub(super) fn outage(&self) -> Option<Outage> {
        let state = self.state.lock();
        (state.presence == Presence::Down).then(|| state.outage())
    }

    /// How often the store went down, and how often it was asked whether it is back.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.outages, state.probes)
    }

    /// How many requests like this one were answered so far.
    pub(super) fn answers(&self, op: ObjectOp) -> u64 {
        self.state.lock().answers_like(op)
    }

    /// The store answered a request, whatever it said.
    pub(super) fn answered(&self, op: ObjectOp) {
        let mut state = self.state.lock();
        state.answers += 1;
        state.writes += u64::from(is_write(op));
        self.back(&mut state);
    }

    fn back(&self, state: &mut State) {
        state.failures = 0;
        state.probe_timeouts = 0;
        if state.presence == Presence::Answers {
            return;
        }
        if state.presence == Presence::Down {
            let down_ms = self.now_ms().saturating_sub(state.failing_since_ms);
            tracing::info!(down_ms, "the object store answers again");
        }
        state.presence = Presence::Answers;
        self.changed.notify_waiters();
        self.returned.notify_waiters();
    }

    /// The store did not answer a request, or said that it cannot.
    pub(super) fn failed(&self, error: &ObjectError) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        if state.failures == 0 {
            state.failing_since_ms = now_ms;
        }
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.failures_max {
            self.doubt(&mut state, error);
        }
    }

    /// An operation has no try left. If nothing like it was answered since it failed first,
    /// that may be the store's doing and not the object's: says whether so.
    pub(super) fn gave_up(&self, error: &ObjectError, answers_before: u64) -> bool {
        let mut state = self.state.lock();
        let is_alone = state.answers_like(error.op) == answers_before;
        if is_alone {
            self.doubt(&mut state, error);
        }
        is_alone
    }

    fn doubt(&self, state: &mut State, error: &ObjectError) {
        if state.presence == Presence::Answers {
            state.presence = Presence::InDoubt;
            state.cause = error.to_string();
            self.changed.notify_waiters();
        }
    }
}

/// A store that can be read may still be unable to write.
fn is_write(op: ObjectOp) -> bool {
    !matches!(op, ObjectOp::Head | ObjectOp::Get | ObjectOp::List | ObjectOp::MultipartList)
}

impl State {
    fn answers_like(&self, op: ObjectOp) -> u64 {
        if is_write(op) { self.writes } else { self.answers }
    }

    fn outage(&self) -> Outage {
        Outage {
            since_ms: self.failing_since_ms,
            probe_due_ms: self.probe_due_ms,
            cause: self.cause.clone(),
        }
    }
}

impl ProbeTurn<'_> {
    /// Whether the store answered, or how it failed to.
    pub(super) fn verdict(mut self, failure: Option<&ObjectError>) {
        self.is_decided = true;
        let availability = self.availability;
        let now_ms = availability.now_ms();
        let mut state = availability.state.lock();
        let Some(error) = failure else {
            availability.back(&mut state);
            return;
        };
        if error.kind == ObjectErrorKind::Timeout {
            state.probe_timeouts = state.probe_timeouts.saturating_add(1);
        }
        state.probe_due_ms = now_ms.saturating_add(availability.probe_ms);
        if state.presence == Presence::InDoubt {
            state.presence = Presence::Down;
            state.outages += 1;
            availability.changed.notify_waiters();
            tracing::warn!(
                cause = state.cause,
                probe_ms = availability.probe_ms,
                "the object store does not answer; one request asks whether it is back"
            );
        }
    }
}

impl Drop for ProbeTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.availability.state.lock();
        state.is_probing = false;
        if !self.is_decided {
            state.probe_due_ms = 0;
            self.availability.changed.notify_waiters();
        }
    }
}
