//! Whether a request may be sent now: [`Availability`](crate::object::availability::Availability)
//! knows, and whoever finds that a probe is due sends it.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::availability::{Entry, Outage, ProbeTurn};
use super::error::{ObjectError, ObjectErrorKind, ObjectOp, ObjectResult};
use super::resilient::ResilientStore;

/// What a probe asks about, below the prefix.
pub(super) const PROBE_NAME: &str = ".probe/answers";

impl ResilientStore {
    /// The outage, while the store is known not to answer.
    pub fn outage(&self) -> Option<Outage> {
        self.shared.availability.outage()
    }

    /// Asks a store that does not answer whether it is back, if that is due.
    pub async fn ask_if_due(&self) {
        if let Entry::Probe(turn) = self.shared.availability.enter() {
            self.ask(turn).await;
        }
    }

    /// One cheap request, to find out whether the store answers.
    async fn ask(&self, turn: ProbeTurn<'_>) {
        let (shared, key) = (&*self.shared, &*self.shared.probe_key);
        let (op, start) = (ObjectOp::Head, Instant::now());
        shared.counters.request(op, false, 0);
        let limit = start + Duration::from_millis(turn.timeout_ms);
        let answer = timeout_at(limit, shared.store.head(key)).await;
        let answer = answer.unwrap_or_else(|_| Err(no_answer(op, key, start)));
        shared.counters.answer(op, start.elapsed(), answer.is_err());
        let failure = answer.err().filter(ObjectError::is_of_store);
        turn.verdict(failure.as_ref());
    }

    /// Whether the store is there, as far as that is known; in doubt it is found out.
    pub(super) async fn find_outage(&self, deadline: Instant) -> Option<(Outage, Duration)> {
        let availability = &self.shared.availability;
        loop {
            let changed = availability.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_late = match availability.enter() {
                Entry::Open => return None,
                Entry::Down(outage, wait) => return Some((outage, wait)),
                Entry::Probe(turn) => timeout_at(deadline, self.ask(turn)).await.is_err(),
                Entry::Doubt => timeout_at(deadline, changed).await.is_err(),
            };
            if is_late {
                return availability.outage().map(|outage| (outage, Duration::ZERO));
            }
        }
    }

    /// Returns when a request may be sent, or why none may.
    pub(super) async fn admit(
        &self,
        op: ObjectOp,
        key: &str,
        deadline: Instant,
    ) -> ObjectResult<()> {
        loop {
            let changed = self.shared.availability.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let Some((outage, wait)) = self.find_outage(deadline).await else { return Ok(()) };
            let until = deadline.min(Instant::now() + wait);
            if !is_continued(op) || Instant::now() >= deadline {
                return Err(held_back(op, key, &outage, wait));
            }
            let _ = timeout_at(until, changed).await;
        }
    }

    /// Waits so long, or until a store that was down is back.
    pub(super) async fn pause(&self, wait: Duration) {
        let _ = timeout(wait, self.shared.availability.returned()).await;
    }
}

/// What must not begin anew because of an outage: the parts that were sent before it are
/// not sent again.
pub(super) fn is_continued(op: ObjectOp) -> bool {
    matches!(op, ObjectOp::MultipartPart | ObjectOp::MultipartFinish)
}

pub(super) fn no_answer(op: ObjectOp, key: &str, start: Instant) -> ObjectError {
    let detail = format!("waited {} ms", start.elapsed().as_millis());
    ObjectError::new(ObjectErrorKind::Timeout, op, key, &detail)
}

/// A request that is not sent because no other was answered.
fn held_back(op: ObjectOp, key: &str, outage: &Outage, wait: Duration) -> ObjectError {
    let detail = format!("not sent: the store does not answer; {}", outage.cause);
    ObjectError::new(ObjectErrorKind::Unavailable, op, key, &detail)
        .retry_after_ms(u64::try_from(wait.as_millis()).ok())
        .blame_store(true, true)
}
