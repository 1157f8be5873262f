//! The log against what the machine can do and against four others:
//! `cargo bench --manifest-path benches/Cargo.toml`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    aof2_bench::run(Path::new(env!("CARGO_TARGET_TMPDIR")), aof2_bench_peers::all)
}
