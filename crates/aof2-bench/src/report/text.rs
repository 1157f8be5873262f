//! The table for a terminal.

use super::{Grid, LEGEND, Report, latency_lines};

pub fn text(report: &Report<'_>) -> String {
    let grid = Grid::of(report);
    let mut out = String::new();
    for (name, fact) in report.machine.facts() {
        out += &format!("{name}: {fact}\n");
    }
    out.push('\n');
    let widths = widths(&grid);
    push_line(&mut out, &grid.head, &widths);
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    push_line(&mut out, &rule, &widths);
    for line in &grid.lines {
        push_line(&mut out, line, &widths);
    }
    out.push('\n');
    for line in latency_lines(report.outcomes) {
        out += &format!("{line}\n");
    }
    out += &format!("{LEGEND}\n");
    for (number, note) in grid.footnotes.iter().enumerate() {
        out += &format!("[{}] {note}\n", number + 1);
    }
    for (name, about) in &report.abouts {
        out += &format!("{name}: {about}\n");
    }
    if report.is_quick {
        out += "Quick run: small data sets and few rounds.\n";
    }
    out
}

fn widths(grid: &Grid) -> Vec<usize> {
    (0..grid.head.len())
        .map(|column| {
            let cells = grid.lines.iter().map(|line| line[column].chars().count());
            cells.chain([grid.head[column].chars().count()]).max().unwrap_or(0)
        })
        .collect()
}

fn push_line(out: &mut String, cells: &[String], widths: &[usize]) {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    out.push_str(padded.join("  ").trim_end());
    out.push('\n');
}
