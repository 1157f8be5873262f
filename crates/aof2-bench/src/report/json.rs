//! Everything that was measured, for programs.

use serde_json::{Value, json};

use super::{Report, Verdict};
use crate::engine::Support;
use crate::row::{Column, Outcome};

pub fn json(report: &Report<'_>) -> String {
    let facts: serde_json::Map<String, Value> =
        report.machine.facts().into_iter().map(|(name, fact)| (name.into(), fact.into())).collect();
    let document = json!({
        "machine": facts,
        "is_quick": report.is_quick,
        "rows": report.outcomes.iter().map(row).collect::<Vec<_>>(),
        "peers": report.abouts.iter().map(|(name, about)| json!({"name": name, "about": about}))
            .collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn row(outcome: &Outcome) -> Value {
    let verdict = Verdict::of(outcome);
    let row = &outcome.row;
    json!({
        "name": row.name,
        "title": row.title,
        "unit": row.unit.label(),
        "payload_len": row.plan.payload_len,
        "record_count": row.plan.record_count,
        "caller_count": row.plan.caller_count,
        "bound": column(outcome, &outcome.bound),
        "bound_about": outcome.bound_about,
        "ours": outcome.ours.as_ref().map(|ours| column(outcome, ours)),
        "peers": outcome.peers.iter().map(|peer| column(outcome, peer)).collect::<Vec<_>>(),
        "bound_ratio": verdict.bound_ratio,
        "peer_ratio": verdict.peer_ratio,
        "p50_ns": verdict.latency.map(|latency| latency.p50_ns),
        "p999_ns": verdict.latency.map(|latency| latency.p999_ns),
        "goal": {
            "bound_ratio_min": row.goal.bound_ratio_min,
            "peer_ratio_min": row.goal.peer_ratio_min,
            "tail_ratio_max": row.goal.tail_ratio_max,
        },
        "is_met": verdict.is_met,
    })
}

fn column(outcome: &Outcome, column: &Column) -> Value {
    let (counts, note) = match column.support {
        Support::Full => (true, None),
        Support::Noted(note) => (true, Some(note)),
        Support::Weaker(note) | Support::No(note) => (false, Some(note)),
    };
    json!({
        "name": column.name,
        "rounds": column.samples.iter().map(|s| outcome.row.unit.value(s)).collect::<Vec<_>>(),
        "seconds": column.samples.iter().map(|s| s.seconds()).collect::<Vec<_>>(),
        "counts_as_peer": counts,
        "note": note,
        "failure": column.failure,
    })
}
