//! Which segments leave the hot tier. A pure function of what is there, so that it can
//! be tested without a disk.

use crate::format::SegmentId;

/// One stream, as far as its hot tier goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamView {
    /// Bytes in use, and those that a waiting writer asks for.
    pub(super) used: u64,
    /// Its own limit, besides that of all streams together.
    pub(super) hot_bytes: Option<u64>,
}

/// A sealed segment in the hot tier that may leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Index of its stream.
    pub(super) stream: usize,
    pub(super) segment_id: SegmentId,
    pub(super) bytes: u64,
    /// When it was last read or sealed; only the order counts.
    pub(super) last_read: u64,
}

/// What must go so that every stream is within its own limit and all of them within
/// theirs: those read longest ago first.
pub(super) fn choose_evictions(
    streams: &[StreamView],
    mut candidates: Vec<Candidate>,
    hot_bytes: u64,
) -> Vec<Candidate> {
    let mut used: Vec<u64> = streams.iter().map(|stream| stream.used).collect();
    let mut total: u64 = used.iter().sum();
    candidates.sort_by_key(|c| (c.last_read, c.segment_id, c.stream));
    candidates.retain(|candidate| {
        let Some(own) = used.get_mut(candidate.stream) else { return false };
        let limit = streams.get(candidate.stream).and_then(|stream| stream.hot_bytes);
        let goes = total > hot_bytes || limit.is_some_and(|limit| *own > limit);
        if goes {
            *own = own.saturating_sub(candidate.bytes);
            total = total.saturating_sub(candidate.bytes);
        }
        goes
    });
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(stream: usize, id: u64, bytes: u64, last_read: u64) -> Candidate {
        Candidate { stream, segment_id: SegmentId::from_u64(id), bytes, last_read }
    }

    #[test]
    fn what_was_read_longest_ago_goes_first_and_no_more_than_needed() {
        let streams = [StreamView { used: 100, hot_bytes: None }];
        let all = vec![candidate(0, 1, 30, 7), candidate(0, 2, 30, 3), candidate(0, 3, 30, 5)];
        let gone: Vec<u64> =
            choose_evictions(&streams, all, 45).iter().map(|c| c.segment_id.as_u64()).collect();
        assert_eq!(gone, [2, 3]);
    }

    #[test]
    fn a_stream_over_its_own_limit_makes_room_in_itself() {
        let own = StreamView { used: 60, hot_bytes: Some(40) };
        let other = StreamView { used: 60, hot_bytes: None };
        let all = vec![candidate(1, 1, 30, 0), candidate(0, 1, 30, 1), candidate(0, 2, 30, 2)];
        let gone = choose_evictions(&[own, other], all, 1000);
        assert_eq!(gone, [candidate(0, 1, 30, 1)]);
    }

    proptest! {
        #[test]
        fn limits_hold_or_nothing_is_left_to_evict(
            parts in prop::collection::vec((0usize..3, 1u64..50, 0u64..100), 0..40),
            limits in prop::collection::vec(prop::option::of(0u64..200), 3),
            hot_bytes in 0u64..300,
        ) {
            let all: Vec<Candidate> = parts
                .iter()
                .enumerate()
                .map(|(i, &(stream, bytes, read))| candidate(stream, i as u64, bytes, read))
                .collect();
            let used = |left: &[Candidate], s: usize| -> u64 {
                left.iter().filter(|c| c.stream == s).map(|c| c.bytes).sum()
            };
            let streams: Vec<StreamView> = (0..3)
                .map(|s| StreamView { used: used(&all, s), hot_bytes: limits[s] })
                .collect();
            let gone = choose_evictions(&streams, all.clone(), hot_bytes);
            let left: Vec<Candidate> = all.into_iter().filter(|c| !gone.contains(c)).collect();
            let total: u64 = (0..3).map(|s| used(&left, s)).sum();
            prop_assert!(total <= hot_bytes);
            for s in 0..3 {
                prop_assert!(limits[s].is_none_or(|limit| used(&left, s) <= limit));
            }
        }
    }
}
