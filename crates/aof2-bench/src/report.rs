//! The table: cells, ratios, marks and footnotes, printed three ways.

mod json;
mod markdown;
mod text;

pub use json::json;
pub use markdown::markdown;
pub use text::text;

use crate::engine::Support;
use crate::machine::Machine;
use crate::measure::{Latency, median, speed_ratio};
use crate::row::{Column, Goal, Outcome};

/// Everything that is printed.
pub struct Report<'a> {
    pub machine: &'a Machine,
    pub outcomes: &'a [Outcome],
    /// The name of each peer with the line that says how it was run.
    pub abouts: Vec<(&'static str, &'static str)>,
    pub is_quick: bool,
}

/// What a row says about ours.
pub struct Verdict {
    pub bound_ratio: Option<f64>,
    pub peer_ratio: Option<f64>,
    pub latency: Option<Latency>,
    /// Nothing where ours was not measured.
    pub is_met: Option<bool>,
}

impl Verdict {
    pub fn of(outcome: &Outcome) -> Self {
        let ours = outcome.ours.as_ref().filter(|column| !column.samples.is_empty());
        let bound_ratio = ours.and_then(|ours| speed_ratio(&ours.samples, &outcome.bound.samples));
        let peer_ratio = ours.and_then(|ours| {
            let ratios = outcome.peers.iter().filter(|peer| counts_as_peer(peer));
            ratios
                .filter_map(|peer| speed_ratio(&ours.samples, &peer.samples))
                .min_by(f64::total_cmp)
        });
        let latency = ours.and_then(median_latency);
        let is_met = bound_ratio
            .map(|bound_ratio| meets(&outcome.row.goal, bound_ratio, peer_ratio, latency));
        Verdict { bound_ratio, peer_ratio, latency, is_met }
    }
}

fn counts_as_peer(column: &Column) -> bool {
    matches!(column.support, Support::Full | Support::Noted(_)) && column.failure.is_none()
}

fn meets(goal: &Goal, bound_ratio: f64, peer_ratio: Option<f64>, latency: Option<Latency>) -> bool {
    let peer_is_met = match (goal.peer_ratio_min, peer_ratio) {
        (Some(min), Some(ratio)) => ratio >= min,
        _ => true,
    };
    let tail_is_met = match (goal.tail_ratio_max, latency) {
        (Some(max), Some(latency)) => latency.p999_ns <= max * latency.p50_ns,
        (Some(_), None) => false,
        (None, _) => true,
    };
    bound_ratio >= goal.bound_ratio_min && peer_is_met && tail_is_met
}

fn median_latency(column: &Column) -> Option<Latency> {
    let each = |field: fn(&Latency) -> f64| {
        median(column.samples.iter().filter_map(|s| s.latency.as_ref()).map(field).collect())
    };
    Some(Latency {
        p50_ns: each(|l| l.p50_ns)?,
        p999_ns: each(|l| l.p999_ns)?,
        max_ns: each(|l| l.max_ns)?,
    })
}

/// The table as strings, with the footnotes its marks refer to.
pub struct Grid {
    pub head: Vec<String>,
    pub lines: Vec<Vec<String>>,
    pub footnotes: Vec<String>,
}

impl Grid {
    pub fn of(report: &Report<'_>) -> Self {
        let mut grid =
            Grid { head: head(report.outcomes), lines: Vec::new(), footnotes: Vec::new() };
        for outcome in report.outcomes {
            let line = grid.line(outcome);
            grid.lines.push(line);
        }
        grid
    }

    fn line(&mut self, outcome: &Outcome) -> Vec<String> {
        let verdict = Verdict::of(outcome);
        let mut line = vec![
            outcome.row.title.to_string(),
            outcome.row.unit.label().to_string(),
            self.cell(outcome, &outcome.bound),
        ];
        line.push(outcome.ours.as_ref().map_or("–".into(), |ours| self.cell(outcome, ours)));
        for peer in &outcome.peers {
            line.push(self.cell(outcome, peer));
        }
        line.push(ratio(verdict.bound_ratio));
        line.push(ratio(verdict.peer_ratio));
        line.push(goal(&outcome.row.goal));
        line.push(match verdict.is_met {
            Some(true) => "yes".into(),
            Some(false) => "NO".into(),
            None => "–".into(),
        });
        line
    }

    fn cell(&mut self, outcome: &Outcome, column: &Column) -> String {
        if let Some(failure) = &column.failure {
            return format!("failed [{}]", self.mark(&format!("{}: {failure}", column.name)));
        }
        let values = column.samples.iter().map(|sample| outcome.row.unit.value(sample));
        let Some(value) = median(values.collect()) else {
            return match column.support {
                Support::No(reason) => format!("n/a [{}]", self.mark(reason)),
                _ => "–".into(),
            };
        };
        let value = significant(value);
        match column.support {
            Support::Full | Support::No(_) => value,
            Support::Noted(note) => format!("{value} [{}]", self.mark(note)),
            Support::Weaker(note) => format!("({value}) [{}]", self.mark(note)),
        }
    }

    /// The number of a footnote; the same text has one number.
    fn mark(&mut self, note: &str) -> usize {
        match self.footnotes.iter().position(|known| known == note) {
            Some(position) => position + 1,
            None => {
                self.footnotes.push(note.to_string());
                self.footnotes.len()
            }
        }
    }
}

fn head(outcomes: &[Outcome]) -> Vec<String> {
    let peers = outcomes.first().map_or(&[][..], |outcome| &outcome.peers);
    ["work", "unit", "bound", "ours"]
        .into_iter()
        .chain(peers.iter().map(|peer| peer.name))
        .chain(["ours / bound", "ours / best peer", "goal", "met"])
        .map(String::from)
        .collect()
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"))
}

fn goal(goal: &Goal) -> String {
    let mut text = format!("≥ {} bound", goal.bound_ratio_min);
    if let Some(min) = goal.peer_ratio_min {
        text += &format!(", ≥ {min} × best peer");
    }
    if let Some(max) = goal.tail_ratio_max {
        text += &format!(", p99.9 ≤ {max} × p50");
    }
    text
}

/// Three significant digits are more than the machine can repeat.
fn significant(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// One line per row whose appends were timed one by one.
fn latency_lines(outcomes: &[Outcome]) -> Vec<String> {
    let line = |outcome: &Outcome| {
        let latency = Verdict::of(outcome).latency?;
        Some(format!(
            "{}, ours: p50 {:.0} ns, p99.9 {:.0} ns ({:.1} × p50), slowest {:.1} ms",
            outcome.row.title,
            latency.p50_ns,
            latency.p999_ns,
            latency.p999_ns / latency.p50_ns,
            latency.max_ns / 1e6
        ))
    };
    outcomes.iter().filter_map(line).collect()
}

/// How to read the table.
const LEGEND: &str = "Medians of interleaved rounds; ratios are medians of ratios within a round, \
     above 1 where ours is faster. Rates count payload bytes. A figure in parentheses is for less \
     than the row asks for and is not counted as the best peer.";
