//! The circuit breaker: after many failures in a row no request is sent for a
//! while, then one tries for all.
//!
//! Failures are those of the store as a whole (unavailable, no answer). An answer
//! of any other kind, even a refusal, shows that it is there.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::ObjectError;

/// What the breaker lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything.
    #[default]
    Closed,
    /// One request, to find out whether the store is back.
    HalfOpen,
    /// Nothing.
    Open,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// When the next request may try; `None` while closed.
    open_until: Option<Instant>,
    is_trying: bool,
    opened_count: u64,
    /// The failure that opened it.
    cause: String,
}

/// Why a request is not sent.
#[derive(Debug)]
pub(super) struct HeldBack {
    pub wait: Duration,
    /// In the words of the request that failed last.
    pub cause: String,
}

#[derive(Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    open: Duration,
    state: Mutex<State>,
}

/// Permission for one request. Dropped without a verdict, the next one may try.
pub(super) struct Pass<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
}

impl Breaker {
    pub fn new(failures_max: u32, open: Duration) -> Self {
        Self { failures_max, open, state: Mutex::default() }
    }

    /// Lets a request through, or says how long there is to wait.
    pub fn enter(&self) -> Result<Pass<'_>, HeldBack> {
        let mut state = self.state.lock();
        let Some(open_until) = state.open_until else {
            return Ok(Pass { breaker: self, is_trial: false });
        };
        let wait = open_until.saturating_duration_since(Instant::now());
        // Whoever tries decides soon; until then this is as good as open.
        if !wait.is_zero() || state.is_trying {
            let wait = wait.max(Duration::from_millis(1));
            return Err(HeldBack { wait, cause: state.cause.clone() });
        }
        state.is_trying = true;
        Ok(Pass { breaker: self, is_trial: true })
    }

    pub fn state(&self) -> BreakerState {
        let state = self.state.lock();
        match state.open_until {
            None => BreakerState::Closed,
            Some(until) if Instant::now() < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    pub fn opened_count(&self) -> u64 {
        self.state.lock().opened_count
    }
}

impl Pass<'_> {
    /// The store answered.
    pub fn succeeded(self) {
        let mut state = self.breaker.state.lock();
        state.failures = 0;
        // A request that was sent before the breaker opened may answer late: the
        // store is there after all.
        if state.open_until.take().is_some() {
            tracing::info!("the object store is back");
        }
    }

    /// The store did not answer, or said that it cannot.
    pub fn failed(self, error: &ObjectError) {
        let mut state = self.breaker.state.lock();
        state.failures = state.failures.saturating_add(1);
        let is_closed = state.open_until.is_none();
        if self.is_trial || (is_closed && state.failures >= self.breaker.failures_max) {
            state.open_until = Some(Instant::now() + self.breaker.open);
            state.opened_count += 1;
            state.cause = error.to_string();
            let failures = state.failures;
            tracing::warn!(failures, open = ?self.breaker.open, "the object store is left alone");
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.state.lock().is_trying = false;
        }
    }
}
