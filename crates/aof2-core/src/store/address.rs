//! Telling an address from a directory.
//!
//! A log is written in a directory. `s3://bucket/name` is also a relative path, and taken
//! for one it would leave a directory `s3:` behind, with a log in it that nobody looks for.

use std::path::Path;

use crate::error::{AofError, Result};

/// Whether this is an address, `scheme://…`, and no directory. One slash is enough: who
/// handles an address as a path, as Python's `pathlib` does, leaves no more of them. A
/// directory that is really called so is `./scheme:/…`.
///
/// ```
/// use aof2_core::is_address;
/// assert!(is_address("s3://bucket/prefix/events"));
/// assert!(!is_address("data/events") && !is_address("./s3:/events"));
/// ```
pub fn is_address(path: impl AsRef<Path>) -> bool {
    let bytes = path.as_ref().as_os_str().as_encoded_bytes();
    let Some(colon) = bytes.iter().position(|&byte| byte == b':') else { return false };
    let (scheme, rest) = bytes.split_at(colon);
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    scheme.len() > 1
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(is_scheme)
        && rest.starts_with(b":/")
}

/// Refuses an address where a directory is needed. Whoever creates or changes something
/// asks before the first file is touched.
pub fn refuse_address(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    if !is_address(path) {
        return Ok(());
    }
    let shown = path.display();
    let remedy = match path.as_os_str().as_encoded_bytes().starts_with(b"s3:") {
        true => {
            "what is archived there is read, verified and scrubbed by its address as text, and \
             written only in a directory: restore makes one of it"
        }
        false => "give the path of a directory; of addresses only s3://bucket/prefix/NAME is known",
    };
    let reason = format!("{shown} is an address and not a directory; {remedy}");
    Err(AofError::InvalidConfig { field: "path", reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_paths_and_paths_are_not_addresses() {
        for address in ["s3://b/p/log", "s3:/b/p/log", "file:///data", "gs://b", "a+b.c-1://x"] {
            assert!(is_address(address), "{address}");
        }
        for path in ["", "data", "/data/s3://b", "./s3:/b", "s3:", "s3:b", "c:/x", "1s://x", ":/x"]
        {
            assert!(!is_address(path), "{path}");
        }
    }
}
