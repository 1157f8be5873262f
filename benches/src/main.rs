//! Measures aof2 against what the machine can do and against other logs, and
//! prints one table. See README.md.

mod bounds;
mod engine;
mod machine;
mod measure;
mod ours;
mod payload;
mod peers;
mod report;
mod row;
mod scratch;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use engine::{Engine, Kind, Result};
use machine::{Machine, filesystem_of};
use report::Report;
use row::{Effort, Outcome, Row};
use scratch::Scratch;

const HELP: &str = "\
aof2-bench: aof2 against its bounds and its peers

  --quick              small data sets and few rounds
  --rows NAME,...      only these rows (--list names them)
  --peers NAME,...     only these peers
  --no-peers           no peers
  --rounds N           rounds of each row
  --sustained-gib N    bytes of the sustained row (8, quick 1)
  --dir DIR            where to measure (the current directory); not tmpfs
  --json FILE          also write everything that was measured
  --markdown FILE      also write the table for docs/benchmarks.md
  --list               name the rows
";

struct Arguments {
    effort: Effort,
    rows: Option<Vec<String>>,
    peers: Option<Vec<String>>,
    dir: PathBuf,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    is_list: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aof2-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(arguments) = parse()? else {
        print!("{HELP}");
        return Ok(());
    };
    let rows = chosen_rows(&arguments)?;
    if arguments.is_list {
        for row in &rows {
            println!("{:<14}{}", row.name, row.title);
        }
        return Ok(());
    }
    let filesystem = filesystem_of(&arguments.dir)?;
    if filesystem.starts_with("tmpfs") {
        return Err("this directory is in memory (tmpfs), which has no disk to wait for; \
                    choose another with --dir"
            .into());
    }
    let scratch = Rc::new(Scratch::new(&arguments.dir)?);
    let machine = Machine::inspect(scratch.root())?;
    let peers = chosen_peers(&arguments, &scratch)?;
    let ours = ours();

    let outcomes = measure_all(&rows, ours.as_ref(), &peers, &scratch);
    let report = Report {
        machine: &machine,
        outcomes: &outcomes,
        abouts: peers.iter().map(|peer| (peer.name(), peer.about())).collect(),
        is_quick: arguments.effort.is_quick,
    };
    print!("{}", report::text(&report));
    if let Some(path) = &arguments.json {
        std::fs::write(path, report::json(&report))?;
    }
    if let Some(path) = &arguments.markdown {
        std::fs::write(path, report::markdown(&report))?;
    }
    Ok(())
}

/// Runs the rows that wait for the disk before those that leave gigabytes to
/// discard behind them, and returns them in the order of the table.
fn measure_all(
    rows: &[Row],
    ours: Option<&Rc<dyn Engine>>,
    peers: &[Rc<dyn Engine>],
    scratch: &Rc<Scratch>,
) -> Vec<Outcome> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&position| rows[position].plan.kind != Kind::Durable);
    let mut outcomes: Vec<_> = order
        .into_iter()
        .map(|position| (position, rows[position].run(ours, peers, scratch)))
        .collect();
    outcomes.sort_by_key(|(position, _)| *position);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn ours() -> Option<Rc<dyn Engine>> {
    Some(Rc::new(ours::Aof2))
}

fn chosen_rows(arguments: &Arguments) -> Result<Vec<Row>> {
    let all = row::all(&arguments.effort);
    let Some(names) = &arguments.rows else {
        return Ok(all);
    };
    names
        .iter()
        .map(|name| {
            all.iter()
                .find(|row| row.name == name)
                .copied()
                .ok_or_else(|| format!("no row is called {name}; --list names them").into())
        })
        .collect()
}

fn chosen_peers(arguments: &Arguments, scratch: &Scratch) -> Result<Vec<Rc<dyn Engine>>> {
    let names = arguments.peers.as_deref();
    if names.is_some_and(|names| names.is_empty()) {
        return Ok(Vec::new());
    }
    let is_chosen =
        |peer: &dyn Engine| names.is_none_or(|names| names.iter().any(|name| name == peer.name()));
    let all = peers::all(scratch)?.into_iter();
    Ok(all.filter(|peer| is_chosen(peer.as_ref())).map(Rc::from).collect())
}

/// Nothing if only help was asked for.
fn parse() -> Result<Option<Arguments>> {
    use lexopt::prelude::*;
    let mut arguments = Arguments {
        effort: Effort { is_quick: false, round_count: None, sustained_bytes: None },
        rows: None,
        peers: None,
        dir: std::env::current_dir()?,
        json: None,
        markdown: None,
        is_list: false,
    };
    let names = |text: String| text.split(',').map(String::from).collect::<Vec<_>>();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => arguments.effort.is_quick = true,
            Long("rows") => arguments.rows = Some(names(parser.value()?.string()?)),
            Long("peers") => arguments.peers = Some(names(parser.value()?.string()?)),
            Long("no-peers") => arguments.peers = Some(Vec::new()),
            Long("rounds") => arguments.effort.round_count = Some(parser.value()?.parse()?),
            Long("sustained-gib") => {
                let gib: u64 = parser.value()?.parse()?;
                arguments.effort.sustained_bytes = Some(gib << 30);
            }
            Long("dir") => arguments.dir = parser.value()?.into(),
            Long("json") => arguments.json = Some(parser.value()?.into()),
            Long("markdown") => arguments.markdown = Some(parser.value()?.into()),
            Long("list") => arguments.is_list = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(arguments))
}
