//! Who may write a log whose segments are in an object store, and what its name is there.
//!
//! ```text
//! {prefix}/names/{name}                                     which log has the name: its identity
//! {prefix}/{stream_id:016x}/writer/{epoch:08x}              a claim: who writes from now on
//! {prefix}/{stream_id:016x}/writer/{epoch:08x}.from-{first:020}-{start:020}
//!                                                           where that writer continues
//! {prefix}/{stream_id:016x}/writer/{epoch:08x}.start-{start:020}
//!                                                           the log begins here: older segments may go
//! ```
//!
//! What the last two say stands in their keys, so that one listing of a stream tells all
//! of it; they sort behind the segments, so that a listing which takes several requests
//! sees them later. None of them is ever changed or overwritten.
//!
//! The epoch in the key of a segment's object is `writer epoch << 8 | attempt`: objects
//! that were uploaded before there were claims have writer epoch 0.
//!
//! `cold/writer` in a log's directory remembers the claim that the directory made last:
//!
//! ```text
//! aof2-writer 1
//! epoch <decimal>
//! lineage <decimal>
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```

use std::fmt::Write as _;

use super::name::{hexadecimal, number};
use super::stream::percent_encode;
use super::{FormatError, SegmentId, crc64};

/// Name of the file in `cold/`.
pub const COLD_WRITER_NAME: &str = "writer";
/// No such file, and no claim, is longer; a reader need not load more.
pub const WRITER_CLAIM_LEN_MAX: usize = 2048;
/// Writer epochs above this do not fit into the keys of objects.
pub const WRITER_EPOCH_MAX: u32 = u32::MAX >> ATTEMPT_BITS;

/// Uploads of one segment by one writer.
const ATTEMPT_BITS: u32 = 8;
const DIRECTORY: &str = "writer/";
const NAMES: &str = "names/";
/// Longest part of a key that is a name as it is; stores that keep objects as files take
/// no more than 255 bytes between slashes.
const NAME_PART_LEN_MAX: usize = 200;

/// The writer that uploaded an object.
pub const fn writer_epoch(object_epoch: u32) -> u32 {
    object_epoch >> ATTEMPT_BITS
}

/// The first epoch that a writer uses for the objects of a segment.
pub const fn first_object_epoch(writer_epoch: u32) -> u32 {
    writer_epoch << ATTEMPT_BITS
}

/// The last part of the key that says which log has a name.
pub fn name_key(name: &str) -> String {
    let mut text = String::from(NAMES);
    percent_encode(name, &mut text);
    // A part of dots alone means another place to whatever keeps objects as files.
    if name.bytes().all(|byte| byte == b'.') {
        text.truncate(NAMES.len());
        text.extend(name.bytes().map(|_| "%2E"));
    }
    if text.len() > NAMES.len() + NAME_PART_LEN_MAX {
        // The object itself holds the whole name.
        text.truncate(NAMES.len() + NAME_PART_LEN_MAX);
        let _ = write!(text, "%{:016x}", crc64(name.as_bytes()));
    }
    text
}

/// An object below `writer/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterKey {
    /// Somebody writes from now on.
    Claim {
        /// Which writer it is.
        epoch: u32,
    },
    /// Where that writer continues.
    From(WriterFrom),
    /// The log begins with this segment.
    Start {
        /// The writer that says so.
        epoch: u32,
        /// The first segment that stays.
        start: SegmentId,
    },
}

/// Where a writer continues: objects of earlier writers from `first` on, and objects
/// before `start`, are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterFrom {
    /// The writer.
    pub epoch: u32,
    /// The first segment of its own.
    pub first: SegmentId,
    /// The first segment of the log.
    pub start: SegmentId,
}

impl WriterKey {
    /// The key's end, behind the prefix of the stream.
    pub fn format(&self) -> String {
        match self {
            Self::Claim { epoch } => format!("{DIRECTORY}{epoch:08x}"),
            Self::From(WriterFrom { epoch, first, start }) => {
                format!("{DIRECTORY}{epoch:08x}.from-{:020}-{:020}", first.as_u64(), start.as_u64())
            }
            Self::Start { epoch, start } => {
                format!("{DIRECTORY}{epoch:08x}.start-{:020}", start.as_u64())
            }
        }
    }

    /// What every such key has behind the prefix of the stream.
    pub const fn directory() -> &'static str {
        DIRECTORY
    }

    /// The parts of a key's end, or `None` when it is not exactly one of these.
    pub fn parse(rest: &str) -> Option<Self> {
        let rest = rest.strip_prefix(DIRECTORY)?;
        let (epoch, what) = rest.split_at_checked(8)?;
        let epoch = hexadecimal(epoch, 8)? as u32;
        let segment = |text: &str| number(text).map(SegmentId::from_u64);
        if what.is_empty() {
            return Some(Self::Claim { epoch });
        }
        if let Some(start) = what.strip_prefix(".start-") {
            return Some(Self::Start { epoch, start: segment(start)? });
        }
        let (first, start) = what.strip_prefix(".from-")?.split_once('-')?;
        Some(Self::From(WriterFrom { epoch, first: segment(first)?, start: segment(start)? }))
    }

    /// The writer it is of.
    pub fn epoch(&self) -> u32 {
        match self {
            Self::Claim { epoch }
            | Self::From(WriterFrom { epoch, .. })
            | Self::Start { epoch, .. } => *epoch,
        }
    }
}

/// What a claim says, for people: text, one field a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterClaim {
    /// Name of the machine.
    pub host: String,
    /// Process on it.
    pub process: u32,
    /// When, UTC milliseconds. Nothing depends on it.
    pub claimed_at_ms: u64,
    /// A random number: two claims never have the same bytes.
    pub nonce: u64,
}

const CLAIM_MAGIC: &str = "aof2-claim 1";

impl WriterClaim {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { process, claimed_at_ms, nonce, .. } = self;
        let mut text = format!("{CLAIM_MAGIC}\nhost ");
        percent_encode(&self.host, &mut text);
        let _ = write!(
            text,
            "\nprocess {process}\nclaimed_at_ms {claimed_at_ms}\nnonce {nonce:016x}\n"
        );
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {crc:016x}");
        text.into_bytes()
    }

    /// The claim in an object's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = checked_lines(bytes, CLAIM_MAGIC)?;
        let claim = Self {
            host: crate::format::stream::percent_decode(value(&mut lines, "host ")?)?,
            process: decimal(value(&mut lines, "process ")?)?,
            claimed_at_ms: decimal(value(&mut lines, "claimed_at_ms ")?)?,
            nonce: u64::from_str_radix(value(&mut lines, "nonce ")?, 16)
                .map_err(|_| bad("nonce", "not a hexadecimal number"))?,
        };
        canonical(claim.encode() == bytes, claim)
    }
}

/// The claim that a directory made last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastClaim {
    /// The writer's epoch.
    pub epoch: u32,
    /// The epoch with which this directory's manifest began to be uploaded: chunks of
    /// other directories do not continue it.
    pub lineage: u32,
}

const LAST_MAGIC: &str = "aof2-writer 1";

impl LastClaim {
    /// The epoch of a claim that removed segments of the directory which another writer had
    /// dropped, and did not bring all that follows them yet. Epochs of claims begin with 1.
    pub const UNDER_WAY: u32 = 0;

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { epoch, lineage } = self;
        let mut text = format!("{LAST_MAGIC}\nepoch {epoch}\nlineage {lineage}\n");
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {crc:016x}");
        text.into_bytes()
    }

    /// The claim in the file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut lines = checked_lines(bytes, LAST_MAGIC)?;
        let last = Self {
            epoch: decimal(value(&mut lines, "epoch ")?)?,
            lineage: decimal(value(&mut lines, "lineage ")?)?,
        };
        canonical(last.encode() == bytes, last)
    }
}

/// There is one way to write a claim: one comparison covers leading zeros, letter case,
/// needless escapes and further lines.
fn canonical<T>(is_same: bool, decoded: T) -> Result<T, FormatError> {
    if is_same { Ok(decoded) } else { Err(bad("writer", "not in canonical form")) }
}

/// The lines between the first, which must be `magic`, and the checksum, which must fit.
fn checked_lines<'a>(bytes: &'a [u8], magic: &str) -> Result<std::str::Lines<'a>, FormatError> {
    const LINE_LEN: usize = "crc64 ".len() + 16 + 1;
    if bytes.len() > WRITER_CLAIM_LEN_MAX {
        return Err(bad("writer", "too long"));
    }
    let (body, line) = bytes.split_at(bytes.len().saturating_sub(LINE_LEN));
    let found = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_prefix("crc64 ")?.strip_suffix('\n'))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or(bad("crc64", "missing or malformed"))?;
    let expected = crc64(body);
    if expected != found {
        return Err(FormatError::BadChecksum { expected, found });
    }
    let text = std::str::from_utf8(body).map_err(|_| bad("writer", "not utf-8"))?;
    let mut lines = text.lines();
    if lines.next() != Some(magic) {
        return Err(bad("writer", "not of a kind or version that is known"));
    }
    Ok(lines)
}

fn value<'a>(lines: &mut std::str::Lines<'a>, key: &'static str) -> Result<&'a str, FormatError> {
    let line = lines.next().and_then(|line| line.strip_prefix(key));
    line.ok_or(bad("writer", "a line is missing"))
}

fn decimal<N: std::str::FromStr>(text: &str) -> Result<N, FormatError> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = is_plain.then(|| text.parse().ok()).flatten();
    parsed.ok_or(bad("writer", "not a decimal number"))
}

const fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_pinned() {
        let id = SegmentId::from_u64;
        let from = WriterKey::From(WriterFrom { epoch: 0x1a, first: id(7), start: id(3) });
        for (key, text) in [
            (WriterKey::Claim { epoch: 0x1a }, "writer/0000001a"),
            (from, "writer/0000001a.from-00000000000000000007-00000000000000000003"),
            (
                WriterKey::Start { epoch: 2, start: id(9) },
                "writer/00000002.start-00000000000000000009",
            ),
        ] {
            assert_eq!(key.format(), text);
            assert_eq!(WriterKey::parse(text), Some(key));
            assert_eq!(WriterKey::parse(&format!("{text}x")), None);
        }
        assert_eq!(WriterKey::parse("writer/0000001A"), None);
        assert_eq!((first_object_epoch(3), writer_epoch(0x3ff)), (0x300, 3));
        assert_eq!(writer_epoch(first_object_epoch(WRITER_EPOCH_MAX)), WRITER_EPOCH_MAX);
    }

    #[test]
    fn every_name_is_one_part_of_a_key() {
        assert_eq!(name_key("events"), "names/events");
        assert_eq!(name_key("größe/a b"), "names/gr%C3%B6%C3%9Fe%2Fa%20b");
        assert_eq!((name_key("."), name_key("..")), ("names/%2E".into(), "names/%2E%2E".into()));
        let (long, other) = ("ü".repeat(120), format!("{}x", "ü".repeat(119)));
        assert!(name_key(&long).len() < 255);
        assert_ne!(name_key(&long), name_key(&other));
    }

    proptest! {
        #[test]
        fn names_do_not_share_a_key(a in "\\PC{1,40}", b in "\\PC{1,40}") {
            prop_assert_eq!(a == b, name_key(&a) == name_key(&b));
            prop_assert_eq!(name_key(&a).matches('/').count(), 1);
        }

        #[test]
        fn a_claim_comes_back_and_a_flipped_bit_is_noticed(
            host in "[a-zA-Z0-9.\\- ü]{0,40}", process: u32, claimed_at_ms: u64, nonce: u64,
            at: usize, bit in 0u8..8,
        ) {
            let claim = WriterClaim { host, process, claimed_at_ms, nonce };
            let mut bytes = claim.encode();
            prop_assert_eq!(WriterClaim::decode(&bytes), Ok(claim));
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(WriterClaim::decode(&bytes).is_err());
        }

        #[test]
        fn the_last_claim_comes_back(epoch: u32, lineage: u32) {
            let last = LastClaim { epoch, lineage };
            prop_assert_eq!(LastClaim::decode(&last.encode()), Ok(last));
        }

        #[test]
        fn whatever_is_there_is_decoded_without_a_panic(bytes: Vec<u8>, key in "\\PC{0,80}") {
            let _ = (WriterClaim::decode(&bytes), LastClaim::decode(&bytes));
            let _ = WriterKey::parse(&format!("writer/{key}"));
        }
    }
}
