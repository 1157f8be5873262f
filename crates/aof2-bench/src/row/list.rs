//! The rows: what is measured, how much of it, and the goal.

use super::{Effort, Goal, Row, Unit};
use crate::engine::{Kind, Plan};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn plan(kind: Kind, payload_len: usize, record_count: u64) -> Plan {
    Plan {
        kind,
        payload_len,
        record_count,
        caller_count: 1,
        segment_bytes: 256 * MIB,
        segment_count: 0,
    }
}

fn durable(caller_count: usize, record_count: u64) -> Plan {
    Plan { caller_count, ..plan(Kind::Durable, KIB as usize, record_count) }
}

fn sealed(segment_count: u64, segment_bytes: u64) -> Plan {
    let record_count = segment_count * (segment_bytes / KIB);
    Plan { segment_bytes, segment_count, ..plan(Kind::Open, KIB as usize, record_count) }
}

fn goal(bound_ratio_min: f64, peer_ratio_min: Option<f64>) -> Goal {
    Goal { bound_ratio_min, peer_ratio_min, tail_ratio_max: None }
}

/// Every row, in the order of the table.
pub fn all(effort: &Effort) -> Vec<Row> {
    use Unit::{
        GigabytesPerSecond, MillionRecordsPerSecond, Milliseconds, ThousandRecordsPerSecond,
    };
    let sustained_bytes = effort.sustained_bytes.unwrap_or(effort.pick(8 * GIB, GIB));
    let sustained = plan(Kind::Sustained, KIB as usize, sustained_bytes / KIB);
    let sustained_goal =
        Goal { bound_ratio_min: 0.9, peer_ratio_min: None, tail_ratio_max: Some(50.0) };
    let rounds = effort.round_count.unwrap_or(effort.pick(9, 3));
    let few_rounds = effort.round_count.unwrap_or(3);
    // A neighbour's journal commits come in bursts: short rounds, and many.
    let many_rounds = effort.round_count.unwrap_or(effort.pick(21, 9));
    // 200,000 records of 1 KiB fill most of one 256 MiB segment.
    let data_set = effort.pick(200_000, 100_000);
    let append_goal = goal(0.7, Some(3.0));
    let row = |name, title, unit, goal, plan| Row {
        name,
        title,
        unit,
        goal,
        plan,
        warmup_count: 1,
        round_count: rounds,
    };
    vec![
        row(
            "append-100",
            "append, page cache, 100 B",
            MillionRecordsPerSecond,
            append_goal,
            plan(Kind::Append, 100, effort.pick(1_000_000, 500_000)),
        ),
        row(
            "append-1k",
            "append, page cache, 1 KiB",
            MillionRecordsPerSecond,
            append_goal,
            plan(Kind::Append, 1 << 10, data_set),
        ),
        row(
            "append-16k",
            "append, page cache, 16 KiB",
            MillionRecordsPerSecond,
            append_goal,
            plan(Kind::Append, 16 << 10, effort.pick(14_000, 7_000)),
        ),
        Row {
            warmup_count: 0,
            round_count: few_rounds,
            ..row(
                "sustained",
                "append sustained, 1 KiB, rollovers",
                GigabytesPerSecond,
                sustained_goal,
                sustained,
            )
        },
        Row {
            round_count: many_rounds,
            ..row(
                "durable-1",
                "durable append, 1 KiB, 1 caller",
                ThousandRecordsPerSecond,
                goal(0.95, None),
                durable(1, effort.pick(500, 150)),
            )
        },
        Row {
            round_count: many_rounds,
            ..row(
                "durable-32",
                "durable append, 1 KiB, 32 callers",
                ThousandRecordsPerSecond,
                goal(0.8, Some(1.5)),
                durable(32, effort.pick(6_400, 3_200)),
            )
        },
        row(
            "scan",
            "sequential scan, 1 KiB",
            GigabytesPerSecond,
            goal(0.8, None),
            plan(Kind::Scan, 1 << 10, data_set),
        ),
        row(
            "random-read",
            "random read by id, 1 KiB",
            MillionRecordsPerSecond,
            goal(0.6, None),
            plan(Kind::RandomRead, 1 << 10, data_set),
        ),
        row(
            "open-10",
            "open, 10 sealed segments",
            Milliseconds,
            goal(0.5, None),
            sealed(10, 64 * KIB),
        ),
        row(
            "open-1000",
            "open, 1,000 sealed segments",
            Milliseconds,
            goal(0.5, None),
            sealed(1_000, 64 * KIB),
        ),
        // The bound reads one page of each file however large it is: reaching
        // the same goal with sixteen times the bytes is no growth with bytes.
        row(
            "open-1000-1m",
            "open, 1,000 sealed segments of 1 MiB",
            Milliseconds,
            goal(0.5, None),
            sealed(1_000, MIB),
        ),
        Row {
            round_count: few_rounds,
            ..row(
                "open-10000",
                "open, 10,000 sealed segments",
                Milliseconds,
                goal(0.5, None),
                sealed(10_000, 64 * KIB),
            )
        },
        row(
            "recovery",
            "recovery of an unsealed tail, 1 KiB",
            GigabytesPerSecond,
            goal(0.7, None),
            plan(Kind::Recovery, 1 << 10, data_set),
        ),
    ]
}
