//! What to measure, where, and where to write it down.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::engine::Result;
use crate::row::Effort;

pub const HELP: &str = "\
cargo bench [--manifest-path benches/Cargo.toml] -- [OPTION]...

aof2 against what the machine can do; benches/Cargo.toml adds four other logs.

  --quick              small data sets and few rounds
  --rows NAME,...      only these rows (--list names them)
  --peers NAME,...     only these peers
  --no-peers           no peers
  --rounds N           rounds of each row
  --sustained-gib N    bytes of the sustained row (8, quick 1)
  --dir DIR            where to measure (tmp/ of the target directory); not tmpfs
  --json FILE          also write everything that was measured
  --markdown FILE      also write the table for docs/benchmarks.md
  --list               name the rows
";

pub struct Arguments {
    pub effort: Effort,
    pub rows: Option<Vec<String>>,
    pub peers: Option<Vec<String>>,
    pub dir: PathBuf,
    pub json: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
    pub is_list: bool,
}

/// Whether `cargo bench` started this. `cargo test --all-targets` starts it, too, and does
/// not mean to measure for an hour.
pub fn is_bench(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--bench")
}

/// Nothing if only help was asked for.
pub fn parse(given: &[OsString], default_dir: &Path) -> Result<Option<Arguments>> {
    use lexopt::prelude::*;
    let mut arguments = Arguments {
        effort: Effort { is_quick: false, round_count: None, sustained_bytes: None },
        rows: None,
        peers: None,
        dir: default_dir.into(),
        json: None,
        markdown: None,
        is_list: false,
    };
    let names = |text: String| text.split(',').map(String::from).collect::<Vec<_>>();
    let mut parser = lexopt::Parser::from_args(given);
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
            Long("dir") => arguments.dir = callers_path(parser.value()?),
            Long("json") => arguments.json = Some(callers_path(parser.value()?)),
            Long("markdown") => arguments.markdown = Some(callers_path(parser.value()?)),
            Long("list") => arguments.is_list = true,
            // From cargo.
            Long("bench") => {}
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(arguments))
}

/// A path as whoever typed it means it: cargo starts benches in the folder of their
/// package, while `PWD` is still where the shell is.
fn callers_path(path: OsString) -> PathBuf {
    let caller = std::env::var_os("PWD").map(PathBuf::from).filter(|dir| dir.is_dir());
    caller.unwrap_or_default().join(path)
}
