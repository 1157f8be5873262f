//! A run: what was asked for is measured and reported.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use crate::arguments::{self, Arguments};
use crate::engine::{Engine, Kind, Result};
use crate::machine::{Machine, filesystem_of};
use crate::report::{self, Report};
use crate::row::{self, Outcome, Row};
use crate::{ours, scratch::Scratch};

/// Makes the other logs of a run, which work inside this directory.
pub type Peers = fn(&Scratch) -> Result<Vec<Box<dyn Engine>>>;

/// Measures what the command line asks for, in `default_dir` if it names no directory.
/// The whole of a bench program.
pub fn run(default_dir: &Path, peers: Peers) -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    if !arguments::is_bench(&given) {
        println!("nothing is measured unless `cargo bench` asks for it (--bench)");
        return ExitCode::SUCCESS;
    }
    match measure(&given, default_dir, peers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aof2-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(given: &[OsString], default_dir: &Path, peers: Peers) -> Result<()> {
    let Some(arguments) = arguments::parse(given, default_dir)? else {
        print!("{}", arguments::HELP);
        return Ok(());
    };
    let rows = chosen_rows(&arguments)?;
    if arguments.is_list {
        for row in &rows {
            println!("{:<14}{}", row.name, row.title);
        }
        return Ok(());
    }
    // It is in the target directory by default, and that can be cleaned between runs.
    std::fs::create_dir_all(&arguments.dir)?;
    let filesystem = filesystem_of(&arguments.dir)?;
    if filesystem.starts_with("tmpfs") {
        return Err("this directory is in memory (tmpfs), which has no disk to wait for; \
                    choose another with --dir"
            .into());
    }
    let scratch = Rc::new(Scratch::new(&arguments.dir)?);
    let machine = Machine::inspect(scratch.root())?;
    let peers = chosen_peers(&arguments, peers, &scratch)?;
    if !arguments.effort.is_quick {
        eprintln!("this takes up to an hour on a quiet machine; `-- --quick` takes minutes");
    }

    let outcomes = measure_all(&rows, ours().as_ref(), &peers, &scratch);
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

fn chosen_peers(
    arguments: &Arguments,
    make: Peers,
    scratch: &Scratch,
) -> Result<Vec<Rc<dyn Engine>>> {
    let names = arguments.peers.as_deref();
    if names.is_some_and(<[String]>::is_empty) {
        return Ok(Vec::new());
    }
    let all = make(scratch)?;
    for name in names.into_iter().flatten() {
        if !all.iter().any(|peer| peer.name() == name) {
            let known: Vec<_> = all.iter().map(|peer| peer.name()).collect();
            return Err(match known.is_empty() {
                true => "there are no peers here; cargo bench --manifest-path benches/Cargo.toml \
                         has them"
                    .into(),
                false => format!("no peer is called {name}; there are {}", known.join(", ")).into(),
            });
        }
    }
    let is_chosen =
        |peer: &dyn Engine| names.is_none_or(|names| names.iter().any(|name| name == peer.name()));
    Ok(all.into_iter().filter(|peer| is_chosen(peer.as_ref())).map(Rc::from).collect())
}
