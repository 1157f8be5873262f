//! The values that the fields of operations are made of, each with one encoding.
//!
//! Integers are little-endian; text and bytes stand behind a `u32` length, lists behind a
//! `u32` count; an option is `0`, or `1` and the value. Reading never takes more than there
//! is, and what is left over at the end is an error.

use super::value::Value;
use crate::format::FormatError;

/// A value in the fields of an operation.
pub(super) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from the front of what is left.
    fn take(input: &mut &[u8]) -> Result<Self, FormatError>;
    /// The same without its type.
    fn value(&self) -> Value;
}

pub(super) fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}

/// The next bytes, as many as asked for.
pub(super) fn take_bytes<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], FormatError> {
    let available = input.len();
    let (taken, rest) =
        input.split_at_checked(len).ok_or(FormatError::TooShort { needed: len, available })?;
    *input = rest;
    Ok(taken)
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
                let mut bytes = [0; size_of::<$ty>()];
                bytes.copy_from_slice(take_bytes(input, size_of::<$ty>())?);
                Ok(Self::from_le_bytes(bytes))
            }

            fn value(&self) -> Value {
                Value::Number(u64::from(*self))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64);

/// A length or count. What has more than `u32::MAX` of anything never fits into a record.
fn put_len(out: &mut Vec<u8>, len: usize) {
    u32::try_from(len).unwrap_or(u32::MAX).put(out);
}

impl Field for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(out, self.len());
        out.extend_from_slice(self);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        let len = u32::take(input)? as usize;
        take_bytes(input, len).map(<[u8]>::to_vec)
    }

    fn value(&self) -> Value {
        Value::Bytes(self.clone())
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_len(out, self.len());
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        let bytes = Vec::<u8>::take(input)?;
        Self::from_utf8(bytes).map_err(|_| bad("text", "not utf-8"))
    }

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => 0u8.put(out),
            Some(value) => {
                1u8.put(out);
                value.put(out);
            }
        }
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        match u8::take(input)? {
            0 => Ok(None),
            1 => T::take(input).map(Some),
            _ => Err(bad("option", "neither 0 nor 1")),
        }
    }

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::None, Field::value)
    }
}

/// A list of anything but bytes, which [`Vec<u8>`] covers.
pub(super) fn put_list<T: Field>(list: &[T], out: &mut Vec<u8>) {
    put_len(out, list.len());
    list.iter().for_each(|item| item.put(out));
}

/// The memory that it takes is bounded by the input: every item takes at least a byte.
pub(super) fn take_list<T: Field>(input: &mut &[u8]) -> Result<Vec<T>, FormatError> {
    let count = u32::take(input)?;
    if count as usize > input.len() {
        return Err(FormatError::TooShort { needed: count as usize, available: input.len() });
    }
    (0..count).map(|_| T::take(input)).collect()
}

pub(super) fn list_value<T: Field>(list: &[T]) -> Value {
    Value::List(list.iter().map(Field::value).collect())
}

/// A struct whose fields stand one behind the other, in this order.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $crate::format::operation::fields::Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(input: &mut &[u8]) -> Result<Self, $crate::format::FormatError> {
                Ok(Self { $($field: <$ty as $crate::format::operation::fields::Field>::take(input)?,)* })
            }

            fn value(&self) -> $crate::format::operation::Value {
                use $crate::format::operation::Value;
                Value::Fields(vec![
                    $(Value::named(stringify!($field), self.$field.value()),)*
                ])
            }
        }
    )*};
}

/// An enum of numbers. One that no writer gives is an error.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $repr:ty {
        $($(#[$variant_doc:meta])* $variant:ident = $number:literal $word:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The number that stands for it on disk.
            pub const fn number(self) -> $repr {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            /// The one with this number.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The word for it in reports.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::format::operation::fields::Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.number().put(out);
            }

            fn take(input: &mut &[u8]) -> Result<Self, $crate::format::FormatError> {
                let number = <$repr as $crate::format::operation::fields::Field>::take(input)?;
                Self::from_number(number).ok_or($crate::format::operation::fields::bad(
                    stringify!($name),
                    "a number that stands for nothing",
                ))
            }

            fn value(&self) -> $crate::format::operation::Value {
                $crate::format::operation::Value::Text(self.as_str().into())
            }
        }
    )*};
}

pub(super) use {codes, parts};
