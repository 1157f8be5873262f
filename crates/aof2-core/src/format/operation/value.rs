//! The fields of operations as plain values: for reports, other languages and JSON.

use std::fmt::Write;

/// A value without its type: what can be shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing is there.
    None,
    /// A number.
    Number(u64),
    /// A number that only says whether two things are the same: a checksum, a random id. In
    /// text it has 16 hexadecimal digits, since many readers of JSON round large numbers.
    Hash(u64),
    /// A text, or the word for one of a few things.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several values.
    List(Vec<Self>),
    /// Values with names.
    Fields(Vec<(&'static str, Self)>),
}

impl Value {
    /// The value of a field of this name.
    pub(super) fn named(name: &'static str, value: Self) -> (&'static str, Self) {
        match value {
            Self::Number(number) if matches!(name, "crc64" | "config_hash") => {
                (name, Self::Hash(number))
            }
            other => (name, other),
        }
    }

    /// Adds the value as JSON, with bytes as hexadecimal digits.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::None => out.push_str("null"),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Hash(hash) => write_text(&format!("{hash:016x}"), out),
            Self::Text(text) => write_text(text, out),
            Self::Bytes(bytes) => {
                write_text(
                    &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                    out,
                );
            }
            Self::List(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    item.write_json(out);
                }
                out.push(']');
            }
            Self::Fields(fields) => {
                out.push('{');
                for (place, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if place > 0 { "," } else { "" });
                    write_text(name, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                // Writing into a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SegmentId;
    use crate::format::operation::{ObjectName, OperationBody, SegmentRef, Variant};

    #[test]
    fn fields_have_their_names_words_and_hexadecimal_checksums() {
        let object = ObjectName { origin_db: 1, chunk_id: 2, variant: Variant::WAL, generation: 3 };
        let body = OperationBody::CollectObjects { db_id: 7, objects: vec![object] };
        assert_eq!(
            Value::Fields(body.fields()).to_json(),
            r#"{"db_id":7,"objects":[{"origin_db":1,"chunk_id":2,"variant":"wal","generation":3}]}"#
        );
        let segment =
            SegmentRef { segment_id: SegmentId::from_u64(5), crc64: u64::MAX, bytes: 9, epoch: 1 };
        let body = OperationBody::CompactRange { db_id: 7, outputs: vec![segment] };
        assert_eq!(
            Value::Fields(body.fields()).to_json(),
            concat!(
                r#"{"db_id":7,"outputs":[{"segment_id":5,"crc64":"ffffffffffffffff","#,
                r#""bytes":9,"epoch":1}]}"#
            )
        );
    }

    #[test]
    fn json_escapes_what_it_must() {
        let text = Value::Text("a \"b\" \\ \n \u{1} ü".into());
        assert_eq!(text.to_json(), "\"a \\\"b\\\" \\\\ \\u000a \\u0001 ü\"");
        assert_eq!(Value::Bytes(vec![0, 255]).to_json(), "\"00ff\"");
        assert_eq!(Value::List(vec![Value::None, Value::Number(1)]).to_json(), "[null,1]");
    }
}
