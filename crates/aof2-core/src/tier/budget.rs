//! Which segments leave the hot tier, and which come back. A pure function of what is
//! there, so that it can be tested without a disk.

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

/// A segment that somebody asked to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Index of its stream.
    pub(super) stream: usize,
    pub(super) segment_id: SegmentId,
    /// Bytes that its coming takes; 0 if it is there.
    pub(super) bytes: u64,
}

/// What to do now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Segments that leave, in this order.
    pub(super) evictions: Vec<Candidate>,
    /// Then these come back. Others wait for room.
    pub(super) hydrations: Vec<Request>,
    /// Whether a limit is exceeded all the same, or somebody has to wait.
    pub(super) is_short: bool,
}

/// Makes room for writers and for `requests`, the most urgent first, and lets those come
/// back that fit. What is in use already has precedence over what is asked for.
pub(super) fn choose(
    streams: &[StreamView],
    candidates: Vec<Candidate>,
    mut requests: Vec<Request>,
    hot_bytes: u64,
) -> Choice {
    let mut views = streams.to_vec();
    for request in &requests {
        if let Some(view) = views.get_mut(request.stream) {
            view.used = view.used.saturating_add(request.bytes);
        }
    }
    let evictions = choose_evictions(&views, candidates, hot_bytes);
    for gone in &evictions {
        if let Some(view) = views.get_mut(gone.stream) {
            view.used = view.used.saturating_sub(gone.bytes);
        }
    }
    let mut total: u64 = views.iter().map(|view| view.used).sum();
    let is_short =
        total > hot_bytes || views.iter().any(|v| v.hot_bytes.is_some_and(|limit| v.used > limit));
    // The least urgent waits first.
    let mut kept = Vec::with_capacity(requests.len());
    while let Some(request) = requests.pop() {
        let Some(view) = views.get_mut(request.stream) else { continue };
        let is_over = total > hot_bytes || view.hot_bytes.is_some_and(|limit| view.used > limit);
        if is_over && request.bytes > 0 {
            view.used -= request.bytes;
            total -= request.bytes;
        } else {
            kept.push(request);
        }
    }
    kept.reverse();
    Choice { evictions, hydrations: kept, is_short }
}

/// What must go so that every stream is within its own limit and all of them within
/// theirs: those read longest ago first.
fn choose_evictions(
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
    fn what_comes_back_makes_room_first_and_waits_where_there_is_none() {
        let streams = [StreamView { used: 90, hot_bytes: None }];
        let request = |id, bytes| Request { stream: 0, segment_id: SegmentId::from_u64(id), bytes };
        let idle = candidate(0, 1, 40, 1);
        let made = choose(&streams, vec![idle], vec![request(5, 30), request(6, 30)], 100);
        let (evictions, hydrations) = (vec![idle], vec![request(5, 30)]);
        assert_eq!(made, Choice { evictions, hydrations, is_short: true });
        let full = choose(&streams, Vec::new(), vec![request(5, 30), request(6, 0)], 100);
        let hydrations = vec![request(6, 0)];
        assert_eq!(full, Choice { evictions: Vec::new(), hydrations, is_short: true });
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
            for (s, limit) in limits.iter().enumerate() {
                prop_assert!(limit.is_none_or(|limit| used(&left, s) <= limit));
            }
        }
    }
}
