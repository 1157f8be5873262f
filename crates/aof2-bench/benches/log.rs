//! The log against what the machine can do: `cargo bench`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    aof2_bench::run(Path::new(env!("CARGO_TARGET_TMPDIR")), |_| Ok(Vec::new()))
}
