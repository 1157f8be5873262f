//! The C structures that another library filled in, read in place.
//!
//! The interface cannot say how much memory a pointer points to, so that much has to be
//! believed; offsets, views and lengths are checked before they are followed.

use std::slice;

use arrow_data::ffi::FFI_ArrowArray;

use super::plan::{NumberKind, PayloadKind, Result, refuse};

/// Some rows of an array: `len` of them behind `start`.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    array: &'a FFI_ArrowArray,
    start: usize,
    len: usize,
}

impl<'a> Window<'a> {
    pub fn of(array: &'a FFI_ArrowArray) -> Result<Self> {
        let window = Self { array, start: array.offset(), len: array.len() };
        // The structure has signed numbers; negative ones arrive as huge ones.
        match window.start.checked_add(window.len).filter(|end| *end < isize::MAX as usize) {
            Some(_) => Ok(window),
            None => refuse("the data is malformed: an array has a negative length".into()),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The rows of a column.
    pub fn child(&self, index: usize) -> Result<Self> {
        if index >= self.array.num_children() {
            return refuse("the data is malformed: a column is missing".into());
        }
        let child = Self::of(self.array.child(index))?;
        if self.start + self.len > child.len {
            return refuse("the data is malformed: a column is too short".into());
        }
        Ok(Self { start: child.start + self.start, len: self.len, ..child })
    }

    /// The first `count` items of a buffer, of `N` bytes each. They need not be aligned.
    fn buffer<const N: usize>(&self, index: usize, count: usize) -> Result<&'a [[u8; N]]> {
        if count == 0 {
            return Ok(&[]);
        }
        let pointer = match index < self.array.num_buffers() {
            true => self.array.buffer(index),
            false => std::ptr::null(),
        };
        let bytes = count.checked_mul(N).filter(|bytes| *bytes <= isize::MAX as usize);
        if pointer.is_null() || bytes.is_none() {
            return refuse(format!("the data is malformed: buffer {index} is missing"));
        }
        // SAFETY: not null, not larger than an object can be, and items of bytes need no
        // alignment. That the producer's buffer has the length that its array implies is the
        // contract of the C data interface, as is that it stays unchanged until the array is
        // released; the array outlives 'a.
        Ok(unsafe { slice::from_raw_parts(pointer.cast::<[u8; N]>(), count) })
    }

    fn bytes(&self, index: usize, count: usize) -> Result<&'a [u8]> {
        self.buffer::<1>(index, count).map(<[[u8; 1]]>::as_flattened)
    }

    pub fn first_null(&self) -> Result<Option<usize>> {
        let has_none = self.array.null_count_opt() == Some(0)
            || self.array.num_buffers() == 0
            || self.array.buffer(0).is_null();
        if has_none {
            return Ok(None);
        }
        let valid = self.bytes(0, (self.start + self.len).div_ceil(8))?;
        let is_null = |row: &usize| {
            let bit = self.start + row;
            valid[bit / 8] & (1 << (bit % 8)) == 0
        };
        Ok((0..self.len).find(is_null))
    }

    pub fn payloads(&self, kind: PayloadKind) -> Result<Payloads<'a>> {
        let end = self.start + self.len;
        if self.len == 0 {
            return Ok(Payloads::Fixed { width: 0, values: &[] });
        }
        Ok(match kind {
            PayloadKind::Offsets32 => {
                let offsets = self.buffer::<4>(1, end + 1)?;
                let values_len = offsets.last().map_or(0, |last| i32::from_ne_bytes(*last).into());
                let values = self.values(values_len)?;
                Payloads::Offsets32 { offsets: &offsets[self.start..], values }
            }
            PayloadKind::Offsets64 => {
                let offsets = self.buffer::<8>(1, end + 1)?;
                let values_len = offsets.last().map_or(0, |last| i64::from_ne_bytes(*last));
                let values = self.values(values_len)?;
                Payloads::Offsets64 { offsets: &offsets[self.start..], values }
            }
            PayloadKind::Views => {
                let views = &self.buffer::<16>(1, end)?[self.start..];
                Payloads::Views { views, buffers: self.view_buffers()? }
            }
            PayloadKind::Fixed { width } => {
                let values = self.bytes(1, end.saturating_mul(width))?;
                Payloads::Fixed { width, values: &values[self.start * width..] }
            }
        })
    }

    fn values(&self, len: i64) -> Result<&'a [u8]> {
        match usize::try_from(len) {
            Ok(len) => self.bytes(2, len),
            Err(_) => refuse("the data is malformed: an offset is negative".into()),
        }
    }

    /// Behind validity and views come the buffers that views point into, and last the
    /// buffer with the lengths of those.
    fn view_buffers(&self) -> Result<Vec<&'a [u8]>> {
        let Some(last) = self.array.num_buffers().checked_sub(1).filter(|last| *last >= 2) else {
            return refuse("the data is malformed: a column of views has too few buffers".into());
        };
        let lengths = self.buffer::<8>(last, last - 2)?;
        let buffer = |(i, len): (usize, &[u8; 8])| match usize::try_from(i64::from_ne_bytes(*len)) {
            Ok(len) => self.bytes(2 + i, len),
            Err(_) => refuse("the data is malformed: a buffer has a negative length".into()),
        };
        lengths.iter().enumerate().map(buffer).collect()
    }

    pub fn numbers(&self, kind: NumberKind) -> Result<Numbers<'a>> {
        let values = self.bytes(1, (self.start + self.len).saturating_mul(kind.width))?;
        let values = values.get(self.start * kind.width..).unwrap_or_default();
        Ok(Numbers { kind, values })
    }
}

#[derive(Debug)]
pub enum Payloads<'a> {
    Offsets32 { offsets: &'a [[u8; 4]], values: &'a [u8] },
    Offsets64 { offsets: &'a [[u8; 8]], values: &'a [u8] },
    Views { views: &'a [[u8; 16]], buffers: Vec<&'a [u8]> },
    Fixed { width: usize, values: &'a [u8] },
}

impl<'a> Payloads<'a> {
    /// The bytes of a row; `None` if they would lie outside the buffers.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Offsets32 { offsets, values } => {
                let start = usize::try_from(i32::from_ne_bytes(*offsets.get(row)?)).ok()?;
                let end = usize::try_from(i32::from_ne_bytes(*offsets.get(row + 1)?)).ok()?;
                values.get(start..end)
            }
            Self::Offsets64 { offsets, values } => {
                let start = usize::try_from(i64::from_ne_bytes(*offsets.get(row)?)).ok()?;
                let end = usize::try_from(i64::from_ne_bytes(*offsets.get(row + 1)?)).ok()?;
                values.get(start..end)
            }
            Self::Views { views, buffers } => {
                let view: &'a [u8; 16] = views.get(row)?;
                let [len, _, buffer, start] = view.as_chunks::<4>().0 else { return None };
                let len = usize::try_from(i32::from_ne_bytes(*len)).ok()?;
                if len <= 12 {
                    return view.get(4..4 + len);
                }
                let buffer = usize::try_from(i32::from_ne_bytes(*buffer)).ok()?;
                let start = usize::try_from(i32::from_ne_bytes(*start)).ok()?;
                buffers.get(buffer)?.get(start..start.checked_add(len)?)
            }
            Self::Fixed { width, values } => {
                let start = row.checked_mul(*width)?;
                values.get(start..start.checked_add(*width)?)
            }
        }
    }
}

#[derive(Debug)]
pub struct Numbers<'a> {
    kind: NumberKind,
    values: &'a [u8],
}

impl Numbers<'_> {
    /// The number of a row.
    #[inline]
    pub fn get(&self, row: usize) -> i128 {
        let NumberKind { width, signed } = self.kind;
        let stored = self.values.get(row * width..(row + 1) * width).unwrap_or_default();
        // Every integer fits into the low bytes of a wider one, the rest repeats its sign.
        let mut wide = [0; 16];
        for (to, from) in wide.iter_mut().zip(stored) {
            *to = *from;
        }
        let value = i128::from_le_bytes(wide);
        let unused = 128 - 8 * width as u32;
        if signed { (value << unused) >> unused } else { value }
    }
}
