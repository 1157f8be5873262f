//! Helper processes for tests: the test binary runs itself again with a role.
//!
//! A helper talks in lines: it reads commands from its standard input and answers
//! on its standard output with lines that start with `@`, which sets them apart
//! from what the test harness prints.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod bucket;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a test waits for what must come. Matters only when it does not.
pub const PATIENCE: Duration = Duration::from_secs(150);
/// After this a forgotten helper ends by itself; longer than anybody waits for it.
const HELPER_SECONDS_MAX: u32 = 180;

const ROLE: &str = "AOF2_TEST_ROLE";
const ROOT: &str = "AOF2_TEST_ROOT";

/// Waits for the background, not for a time.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// The role of this process, if it is a helper. Its life is bounded from here on.
pub fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    // SAFETY: alarm only sets a timer of this process.
    unsafe { libc::alarm(HELPER_SECONDS_MAX) };
    Some(role)
}

/// The directory a helper works on.
pub fn root() -> PathBuf {
    PathBuf::from(std::env::var(ROOT).expect("helpers are given a directory"))
}

/// A setting given to a helper, or to the test run.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Sends a line to the test that started this helper.
pub fn tell(line: std::fmt::Arguments<'_>) {
    let line = format!("@{line}\n");
    let mut out = std::io::stdout().lock();
    // The other side is gone: so is the reason to live.
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(3);
    }
}

/// Waits for the next command; `None` when the test hung up.
pub fn command() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(n) if n > 0 => Some(line.trim_end().to_owned()),
        _ => None,
    }
}

/// A process started by this test; killed when dropped.
pub struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Helper {
    /// Runs this test binary's `helper_process` in the given role.
    pub fn start(role: &str, root: &Path, settings: &[(&str, u64)]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "helper_process", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ROOT, root)
            .envs(settings.iter().map(|(name, value)| (*name, value.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a helper");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.split(b'\n') {
                // The last one may be half a line, if the helper was killed.
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                let Some((_, said)) = line.split_once('@') else { continue };
                if sender.send(said.to_owned()).is_err() {
                    break;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line, or `None` when the helper has ended.
    pub fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a helper said nothing for too long"),
        }
    }

    /// The next line, which must come.
    pub fn line(&self) -> String {
        self.next_line().expect("the helper ended early")
    }

    pub fn expect(&self, line: &str) {
        assert_eq!(self.line(), line);
    }

    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("not hung up");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the helper listens");
    }

    /// Says a command and returns the answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.line()
    }

    /// Kills it with SIGKILL and returns everything it had said.
    pub fn kill(&mut self) -> Vec<String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.lines.iter().collect()
    }

    /// Hangs up, waits until it ends by itself and returns how.
    pub fn finish(&mut self) -> ExitStatus {
        self.stdin = None;
        let deadline = Instant::now() + PATIENCE;
        // Its last line is the end of the pipe; the exit follows at once.
        while self.next_line().is_some() {}
        loop {
            match self.child.try_wait().expect("own child") {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "a helper does not end"),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
