//! Rounds, medians and percentiles.
//!
//! The machine is shared, so nothing is measured on its own: each round runs
//! the bound, then ours, then every peer, and ratios are taken within a round.

use std::time::Duration;

use crate::engine::Result;

/// One timed round of one contestant.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub elapsed: Duration,
    pub record_count: u64,
    pub payload_bytes: u64,
    pub latency: Option<Latency>,
}

impl Sample {
    pub fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }
}

/// How long single appends took.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    pub p50_ns: f64,
    pub p999_ns: f64,
    pub max_ns: f64,
}

/// Anything that can be run again and again: a bound, or an engine doing the
/// work of a row.
pub trait Subject {
    fn round(&mut self) -> Result<Sample>;
}

/// One column of one row while it is measured.
pub struct Contestant {
    pub name: &'static str,
    pub subject: Box<dyn Subject>,
    pub samples: Vec<Sample>,
    /// Set by the first round that failed; the contestant sits out the rest.
    pub failure: Option<String>,
}

impl Contestant {
    pub fn new(name: &'static str, subject: Box<dyn Subject>) -> Self {
        Contestant { name, subject, samples: Vec::new(), failure: None }
    }
}

/// Runs the contestants in turn, `warmup_count` unrecorded rounds first.
pub fn interleave(
    row: &str,
    contestants: &mut [Contestant],
    warmup_count: usize,
    round_count: usize,
) {
    for round in 0..warmup_count + round_count {
        let recorded = round >= warmup_count;
        for contestant in contestants.iter_mut().filter(|c| c.failure.is_none()) {
            match contestant.subject.round() {
                Ok(sample) => {
                    progress(row, contestant.name, round, recorded, &sample);
                    if recorded {
                        contestant.samples.push(sample);
                    }
                }
                Err(error) => {
                    eprintln!("{row}: {} failed: {error}", contestant.name);
                    contestant.failure = Some(error.to_string());
                }
            }
        }
    }
}

fn progress(row: &str, name: &str, round: usize, recorded: bool, sample: &Sample) {
    let label = if recorded { "round" } else { "warm-up" };
    let rate = sample.record_count as f64 / sample.seconds();
    eprintln!(
        "{row}: {label} {round}, {name}: {:.3} ms, {rate:.0} records/s",
        sample.seconds() * 1e3
    );
}

pub fn median(mut values: Vec<f64>) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    Some(match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    })
}

/// How many times faster `ours` did the work than `theirs`: the median of the
/// ratios of rounds that ran side by side.
pub fn speed_ratio(ours: &[Sample], theirs: &[Sample]) -> Option<f64> {
    median(ours.iter().zip(theirs).map(|(o, t)| t.seconds() / o.seconds()).collect())
}

const SUB_BUCKET_BITS: u32 = 5;
const SUB_BUCKET_COUNT: u64 = 1 << SUB_BUCKET_BITS;

/// Counts of durations in buckets of about three percent width.
pub struct Histogram {
    counts: Vec<u64>,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let bucket_count = (64 - SUB_BUCKET_BITS as u64 + 1) * SUB_BUCKET_COUNT;
        Histogram { counts: vec![0; bucket_count as usize], max_ns: 0 }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let ns = duration.as_nanos() as u64;
        self.counts[bucket_of(ns)] += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn latency(&self) -> Latency {
        Latency {
            p50_ns: self.percentile(0.5),
            p999_ns: self.percentile(0.999),
            max_ns: self.max_ns as f64,
        }
    }

    fn percentile(&self, share: f64) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return bucket_start(bucket as u64) as f64;
            }
        }
        self.max_ns as f64
    }
}

/// Values below one octave of sub-buckets have a bucket each; above, every
/// power of two is split evenly.
fn bucket_of(ns: u64) -> usize {
    if ns < SUB_BUCKET_COUNT {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros() - SUB_BUCKET_BITS;
    ((octave as u64) * SUB_BUCKET_COUNT + (ns >> octave)) as usize
}

fn bucket_start(bucket: u64) -> u64 {
    if bucket < SUB_BUCKET_COUNT {
        return bucket;
    }
    let octave = bucket / SUB_BUCKET_COUNT - 1;
    (SUB_BUCKET_COUNT + bucket % SUB_BUCKET_COUNT) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_and_odd_counts() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_bucket_holds_its_value_within_its_width() {
        for ns in (0..200).chain([1_000, 65_535, 65_536, 1_000_000_007, u64::MAX >> 1]) {
            let start = bucket_start(bucket_of(ns) as u64);
            assert!(start <= ns, "{ns} is below its bucket {start}");
            assert!(ns - start <= ns / SUB_BUCKET_COUNT, "{ns} is far above its bucket {start}");
        }
    }

    #[test]
    fn percentiles_find_the_slow_one_in_a_thousand() {
        let mut histogram = Histogram::default();
        for _ in 0..9_980 {
            histogram.record(Duration::from_nanos(20));
        }
        for _ in 0..20 {
            histogram.record(Duration::from_nanos(6_400));
        }
        let latency = histogram.latency();
        assert_eq!(latency.p50_ns, 20.0);
        assert_eq!(latency.p999_ns, 6_400.0);
        assert_eq!(latency.max_ns, 6_400.0);
    }
}
