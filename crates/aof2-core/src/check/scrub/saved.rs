//! The file `scrub` in a log's directory: when everything was checked, and how far the
//! check that is under way has got, so that the next process goes on there.
//!
//! Text, one `name value` on each line behind the first; what is not known is left out:
//!
//! ```text
//! aof2 scrub 1
//! since_ms 1700000000000        since when the log is scrubbed
//! completed_ms 1700003600000    when the last check of everything ended
//! reached 17                    segment checked last by the one under way
//! ```
//!
//! Replaced as a whole, so that a crash leaves the old one or the new one. Without it, or
//! with one that does not parse, a check starts over: nothing else depends on it.

use std::path::PathBuf;

use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::io::OpenMode;
use crate::write::Stream;

const FIRST_LINE: &str = "aof2 scrub 1";
/// Longer than any that is written.
const LEN_MAX: u64 = 256;

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) since_ms: Option<u64>,
    pub(super) completed_ms: Option<u64>,
    pub(super) reached: Option<SegmentId>,
}

fn path(stream: &Stream) -> PathBuf {
    stream.store().layout().root().join("scrub")
}

impl Saved {
    /// What an earlier process left; nothing if that cannot be read.
    pub(super) fn load(stream: &Stream) -> Self {
        let path = path(stream);
        let read = || -> Option<Self> {
            let file = stream.store().storage().open(&path, OpenMode::Read).ok()?;
            let len = file.len().ok().filter(|len| *len <= LEN_MAX)?;
            let mut text = vec![0; len as usize];
            file.read_exact_at(&mut text, 0).ok()?;
            Self::parse(std::str::from_utf8(&text).ok()?)
        };
        read().unwrap_or_default()
    }

    pub(super) fn store(&self, stream: &Stream) -> Result<()> {
        // A closing log waits for it before it lets the next writer in.
        let _right = stream.store().begin_note()?;
        let text = self.render();
        stream.store().layout().replace_file(
            stream.store().storage(),
            &path(stream),
            text.as_bytes(),
        )
    }

    fn render(&self) -> String {
        let fields = [
            ("since_ms", self.since_ms),
            ("completed_ms", self.completed_ms),
            ("reached", self.reached.map(|id| id.as_u64())),
        ];
        let lines =
            fields.iter().filter_map(|(name, value)| Some(format!("{name} {}\n", (*value)?)));
        format!("{FIRST_LINE}\n{}", lines.collect::<String>())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == FIRST_LINE)?;
        let mut saved = Self::default();
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            let value: u64 = value.parse().ok()?;
            match name {
                "since_ms" => saved.since_ms = Some(value),
                "completed_ms" => saved.completed_ms = Some(value),
                "reached" if value <= u64::from(u32::MAX) => {
                    saved.reached = Some(SegmentId::from_u64(value));
                }
                _ => return None,
            }
        }
        Some(saved)
    }
}

/// A file that cannot be written costs the next process a fresh start, and nothing else.
pub(super) fn told(stored: Result<()>) {
    match stored {
        Ok(()) | Err(AofError::Closed) => {}
        Err(error) => tracing::warn!(%error, "how far the scrub has got was not written down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_anything_else_is_nothing() {
        let saved =
            Saved { since_ms: Some(5), completed_ms: None, reached: Some(SegmentId::from_u64(17)) };
        assert_eq!(saved.render(), "aof2 scrub 1\nsince_ms 5\nreached 17\n");
        assert_eq!(Saved::parse(&saved.render()), Some(saved));
        for other in ["", "aof2 scrub 2\n", "aof2 scrub 1\nreached x\n", "aof2 scrub 1\nreached\n"]
        {
            assert_eq!(Saved::parse(other), None, "{other:?}");
        }
        assert_eq!(Saved::parse("aof2 scrub 1\nreached 99999999999\n"), None);
    }
}
