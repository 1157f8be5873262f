//! The table for `docs/benchmarks.md`.

use super::{Grid, LEGEND, Report, latency_lines};

pub fn markdown(report: &Report<'_>) -> String {
    let grid = Grid::of(report);
    let facts: Vec<String> =
        report.machine.facts().iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
    let mut out = format!("Machine: {}.\n\n", facts.join("; "));
    push_line(&mut out, &grid.head);
    let rule: Vec<String> = grid.head.iter().map(|_| "---".into()).collect();
    push_line(&mut out, &rule);
    for line in &grid.lines {
        push_line(&mut out, line);
    }
    out.push('\n');
    for line in latency_lines(report.outcomes) {
        out += &format!("{line}.\n\n");
    }
    out += &format!("{LEGEND}\n\n");
    for (number, note) in grid.footnotes.iter().enumerate() {
        out += &format!("- [{}] {note}\n", number + 1);
    }
    out += "\nThe bounds:\n\n";
    for outcome in report.outcomes {
        out += &format!("- {}: {}\n", outcome.row.title, outcome.bound_about);
    }
    out += "\nHow the peers were run:\n\n";
    for (name, about) in &report.abouts {
        out += &format!("- {name}: {about}\n");
    }
    if report.is_quick {
        out += "\nQuick run: small data sets and few rounds.\n";
    }
    out
}

fn push_line(out: &mut String, cells: &[String]) {
    *out += &format!("| {} |\n", cells.join(" | "));
}
