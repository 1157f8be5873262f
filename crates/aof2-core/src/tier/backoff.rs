//! When a job that failed is tried again.

use std::collections::HashMap;
use std::hash::Hash;

/// Failures by what failed. Bounded by what there is to fail.
#[derive(Debug)]
pub(super) struct Backoff<K> {
    failed: HashMap<K, Failure>,
    base_ms: u64,
    max_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    count: u32,
    /// Not before this; `u64::MAX` for never.
    due_ms: u64,
}

impl<K: Eq + Hash + Copy> Backoff<K> {
    pub(super) fn new(base_ms: u64, max_ms: u64) -> Self {
        Self { failed: HashMap::new(), base_ms, max_ms }
    }

    /// When it may be tried; 0 if it did not fail, `u64::MAX` if it was given up.
    pub(super) fn due_ms(&self, key: &K) -> u64 {
        self.failed.get(key).map_or(0, |failure| failure.due_ms)
    }

    pub(super) fn is_due(&self, key: &K, now_ms: u64) -> bool {
        self.due_ms(key) <= now_ms
    }

    pub(super) fn fail(&mut self, key: K, now_ms: u64) {
        self.fail_for(key, now_ms, self.max_ms);
    }

    /// The same with a pause of at most so long.
    pub(super) fn fail_for(&mut self, key: K, now_ms: u64, max_ms: u64) {
        let failure = self.failed.entry(key).or_insert(Failure { count: 0, due_ms: 0 });
        let doubled = self.base_ms.saturating_mul(1 << failure.count.min(20));
        let pause = doubled.min(self.max_ms).min(max_ms);
        failure.count = failure.count.saturating_add(1);
        failure.due_ms = now_ms.saturating_add(pause);
    }

    /// Nothing but healing it or opening the log again will help.
    pub(super) fn give_up(&mut self, key: K) {
        self.failed.insert(key, Failure { count: u32::MAX, due_ms: u64::MAX });
    }

    /// Whether it will never be tried again.
    pub(super) fn is_given_up(&self, key: &K) -> bool {
        self.due_ms(key) == u64::MAX
    }

    pub(super) fn succeed(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// When the next one becomes due after this time, if any will. Not what is due: a
    /// look has seen that, and what it left alone needs no other look.
    pub(super) fn next_due_ms(&self, now_ms: u64) -> Option<u64> {
        let due = self.failed.values().map(|failure| failure.due_ms);
        due.filter(|&due_ms| due_ms > now_ms && due_ms != u64::MAX).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_end_with_success() {
        let mut backoff = Backoff::new(100, 300);
        backoff.fail(1, 0);
        assert!(!backoff.is_due(&1, 99) && backoff.is_due(&1, 100) && backoff.is_due(&2, 0));
        backoff.fail(1, 100);
        assert_eq!((backoff.next_due_ms(100), backoff.next_due_ms(300)), (Some(300), None));
        backoff.fail(1, 300);
        assert_eq!(backoff.next_due_ms(300), Some(600));
        backoff.fail_for(1, 600, 50);
        assert_eq!(backoff.next_due_ms(600), Some(650));
        backoff.succeed(&1);
        assert!(backoff.is_due(&1, 0) && backoff.next_due_ms(0).is_none());
        backoff.give_up(1);
        assert!(!backoff.is_due(&1, u64::MAX - 1) && backoff.next_due_ms(0).is_none());
        assert!(backoff.is_given_up(&1) && !backoff.is_given_up(&2));
    }
}
