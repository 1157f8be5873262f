//! The file `cold/location` of a log: which object store holds its cold segments, so
//! that every reader of the directory finds it. It holds no secret.
//!
//! Text, so that a person can read it; lines end in LF, and `-` stands for "by default":
//!
//! ```text
//! aof2-cold 1
//! url <s3://bucket/prefix>
//! endpoint <https://host:port>
//! region <name>
//! path_style true|false
//! sse none|s3|kms|kms:<key>|customer
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```
//!
//! There is exactly one way to write a location. A file that says the same thing
//! differently was not written by us and is refused.

use std::fmt::Write as _;

use super::{FormatError, crc64};

/// Name of the file.
pub const COLD_LOCATION_NAME: &str = "location";
/// No such file is longer; a reader need not load more.
pub const COLD_LOCATION_LEN_MAX: usize = 8 << 10;

const FIRST_LINE: &str = "aof2-cold 1";
const MAGIC: &str = "aof2-cold ";
const DEFAULT: &str = "-";
const KEYS: [&str; 5] = ["url", "endpoint", "region", "path_style", "sse"];

/// Where the cold segments of a log are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdLocation {
    /// `s3://bucket/prefix`.
    pub url: String,
    /// Address of the store.
    pub endpoint: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// Whether the bucket stands in the path.
    pub path_style: Option<bool>,
    /// How objects are encrypted, by name.
    pub sse: String,
}

impl ColdLocation {
    /// The file's bytes; an error where a value cannot stand in a line.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let path_style = self.path_style.map(|is_set| is_set.to_string());
        let values = [
            Some(self.url.as_str()),
            self.endpoint.as_deref(),
            self.region.as_deref(),
            path_style.as_deref(),
            Some(self.sse.as_str()),
        ];
        let mut text = format!("{FIRST_LINE}\n");
        for (key, value) in KEYS.into_iter().zip(values) {
            let value = value.unwrap_or(DEFAULT);
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(bad(key, "empty, or with a control character"));
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key} {value}");
        }
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {crc:016x}");
        if text.len() > COLD_LOCATION_LEN_MAX {
            return Err(bad("url", "too long"));
        }
        Ok(text.into_bytes())
    }

    /// The location in the file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let text = std::str::from_utf8(bytes).map_err(|_| bad("location", "not utf-8"))?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) => {
                let version = line.strip_prefix(MAGIC).and_then(|text| text.parse().ok());
                let unknown = bad("location", "not the file of a cold tier");
                return Err(
                    version.map_or(unknown, |found| FormatError::UnsupportedVersion { found })
                );
            }
            None => return Err(bad("location", "empty")),
        }
        let mut value = |key: &'static str| -> Result<Option<String>, FormatError> {
            let line = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(' '));
            let line = line.ok_or(bad(key, "missing"))?;
            Ok((line != DEFAULT).then(|| line.to_owned()))
        };
        let location = Self {
            url: value("url")?.ok_or(bad("url", "missing"))?,
            endpoint: value("endpoint")?,
            region: value("region")?,
            path_style: match value("path_style")?.as_deref() {
                None => None,
                Some("true") => Some(true),
                Some("false") => Some(false),
                Some(_) => return Err(bad("path_style", "neither true nor false")),
            },
            sse: value("sse")?.ok_or(bad("sse", "missing"))?,
        };
        // One comparison covers the checksum and anything behind the last line.
        if location.encode()? != bytes {
            return Err(bad("location", "damaged, or not in canonical form"));
        }
        Ok(location)
    }
}

const fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_pinned() {
        let location = ColdLocation {
            url: "s3://bucket/a/b".into(),
            endpoint: Some("http://127.0.0.1:8333".into()),
            region: None,
            path_style: Some(true),
            sse: "none".into(),
        };
        let bytes = location.encode().unwrap();
        let text = "aof2-cold 1\nurl s3://bucket/a/b\nendpoint http://127.0.0.1:8333\nregion -\n\
                    path_style true\nsse none\ncrc64 ";
        assert!(bytes.starts_with(text.as_bytes()));
        assert_eq!(ColdLocation::decode(&bytes).unwrap(), location);
        let newer = b"aof2-cold 2\nsomething else\n";
        let refused = ColdLocation::decode(newer);
        assert!(matches!(refused, Err(FormatError::UnsupportedVersion { found: 2 })));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_noticed(at in 0usize..120, bit in 0u8..8) {
            let location = ColdLocation {
                url: "s3://bucket/prefix".into(),
                endpoint: None,
                region: Some("eu-central-1".into()),
                path_style: None,
                sse: "kms:key".into(),
            };
            let mut bytes = location.encode().unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(ColdLocation::decode(&bytes).is_err());
        }
    }
}
