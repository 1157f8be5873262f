//! What Python gives for the parts of operations. Every error names the argument and, of a
//! dataclass, the field.

use aof2_core::catalog::{
    Catalog, ChunkCompression, ChunkFields, ChunkMutation, ChunkResidency, DbKind, DbStatus,
    DeltaFields, JobKind, JobOutcome, ObjectName, OperationId, Phase, RemoteObject, SegmentRef,
    Variant,
};
use aof2_core::{AofError, SegmentId};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyString};

use super::TYPES;
use crate::args::{self, Maybe, unsigned, word, wrong_type, wrong_value};
use crate::error::to_py;
use crate::time::from_datetime;

/// A database by its number or its name.
pub fn db(py: Python<'_>, catalog: &Catalog, given: &Bound<'_, PyAny>) -> PyResult<u32> {
    if !given.is_instance_of::<PyString>() {
        return unsigned("db", given);
    }
    let name = args::text("db", "an int or a str", given)?;
    let found = py.detach(|| catalog.view()?.database_named(&name)).map_err(to_py)?;
    found.map(|(db_id, _)| db_id).ok_or_else(|| to_py(AofError::NoSuchDatabase { db: name }))
}

/// One of the words of a list of codes.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $ty:ty,)*) => {$(
        $(#[$doc])*
        pub fn $name(name: &str, given: &Bound<'_, PyAny>) -> PyResult<$ty> {
            let words: Vec<_> = <$ty>::ALL.iter().map(|code| (code.as_str(), *code)).collect();
            word(name, given, &words)
        }
    )*};
}

words! {
    db_kind: DbKind,
    db_status: DbStatus,
    job_kind: JobKind,
    job_outcome: JobOutcome,
    phase: Phase,
    residency: ChunkResidency,
    compression: ChunkCompression,
}

/// A moment, as an aware datetime or as milliseconds since the epoch.
pub fn moment(name: &str, given: &Maybe<'_>) -> PyResult<Option<u64>> {
    let Some(given) = given else { return Ok(None) };
    match given.cast::<PyDateTime>() {
        Ok(moment) => from_datetime(name, moment).map(Some),
        Err(_) if given.extract::<u64>().is_ok() => unsigned(name, given).map(Some),
        Err(_) => Err(wrong_type(name, "an aware datetime or an int of milliseconds", given)),
    }
}

/// A duration in seconds.
pub fn seconds(name: &str, given: &Bound<'_, PyAny>) -> PyResult<std::time::Duration> {
    let seconds: f64 =
        given.extract().map_err(|_| wrong_type(name, "a number of seconds", given))?;
    std::time::Duration::try_from_secs_f64(seconds)
        .map_err(|_| wrong_value(name, "at least 0 seconds", given))
}

/// A dataclass of the catalog whose fields are looked at.
struct Parts<'a, 'py> {
    name: &'a str,
    given: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Parts<'a, 'py> {
    fn of(name: &'a str, class: &str, given: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        match is_a(class, given)? {
            true => Ok(Self { name, given }),
            false => Err(wrong_type(name, &format!("aof2.catalog.{class}"), given)),
        }
    }

    fn place(&self, field: &str) -> String {
        format!("{}.{field}", self.name)
    }

    fn get(&self, field: &str) -> PyResult<Bound<'py, PyAny>> {
        self.given.getattr(field)
    }

    fn maybe(&self, field: &str) -> PyResult<Maybe<'py>> {
        Ok(Some(self.get(field)?).filter(|value| !value.is_none()))
    }

    fn number<T>(&self, field: &str) -> PyResult<T>
    where
        T: for<'b, 'q> FromPyObject<'b, 'q, Error = PyErr>,
    {
        unsigned(&self.place(field), &self.get(field)?)
    }

    fn remote(&self) -> PyResult<Option<RemoteObject>> {
        let (namespace, object) = (self.maybe("remote_namespace")?, self.maybe("remote_object")?);
        match (namespace, object) {
            (Some(_), Some(object)) => Ok(Some(RemoteObject {
                namespace_id: self.number("remote_namespace")?,
                name: self::object(&self.place("remote_object"), &object)?,
            })),
            (None, None) => Ok(None),
            _ => Err(wrong_value(
                self.name,
                "a chunk or delta with both of remote_namespace and remote_object, or neither",
                self.given,
            )),
        }
    }
}

fn is_a(class: &str, given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = given.py().import(TYPES)?.getattr(class)?;
    given.is_instance(&class)
}

/// An object by what it holds.
pub fn object(name: &str, given: &Bound<'_, PyAny>) -> PyResult<ObjectName> {
    let parts = Parts::of(name, "ObjectName", given)?;
    Ok(ObjectName {
        origin_db: parts.number("origin_db")?,
        chunk_id: parts.number("chunk_id")?,
        variant: variant(&parts.place("variant"), &parts.get("variant")?)?,
        generation: parts.number("generation")?,
    })
}

/// `base`, `wal`, `segment` or `delta-` and four hexadecimal digits.
fn variant(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Variant> {
    let expected = "\"base\", \"wal\", \"segment\" or \"delta-0001\"";
    let text = args::text(name, expected, given)?;
    let delta = || {
        let digits = text.strip_prefix("delta-").filter(|digits| digits.len() == 4)?;
        u16::from_str_radix(digits, 16).ok().map(Variant::delta)
    };
    match &*text {
        "base" => Ok(Variant::BASE),
        "wal" => Ok(Variant::WAL),
        "segment" => Ok(Variant::SEGMENT),
        _ => delta().ok_or_else(|| wrong_value(name, expected, given)),
    }
}

/// A segment and what is stored of it.
pub fn segment(name: &str, given: &Bound<'_, PyAny>) -> PyResult<SegmentRef> {
    let parts = Parts::of(name, "SegmentRef", given)?;
    Ok(SegmentRef {
        segment_id: SegmentId::from_u64(parts.number("segment_id")?),
        crc64: parts.number("crc64")?,
        bytes: parts.number("bytes")?,
        epoch: parts.number("epoch")?,
    })
}

/// Several of something.
pub fn several<T>(
    name: &str,
    given: &Bound<'_, PyAny>,
    one: impl Fn(&str, &Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let items = given.try_iter().map_err(|_| wrong_type(name, "an iterable", given))?;
    let each = |(place, item): (usize, PyResult<_>)| one(&format!("{name}[{place}]"), &item?);
    items.enumerate().map(each).collect()
}

/// A chunk as it is registered, and the one that it replaces.
fn chunk_and_superseded(
    name: &str,
    given: &Bound<'_, PyAny>,
) -> PyResult<(ChunkFields, Option<u32>)> {
    let parts = Parts::of(name, "ChunkFields", given)?;
    let chunk = ChunkFields {
        chunk_id: parts.number("chunk_id")?,
        first_page: parts.number("first_page")?,
        page_count: parts.number("page_count")?,
        size_bytes: parts.number("size_bytes")?,
        crc64: parts.number("crc64")?,
        compression: compression(&parts.place("compression"), &parts.get("compression")?)?,
        residency: residency(&parts.place("residency"), &parts.get("residency")?)?,
        lsn_start: parts.number("lsn_start")?,
        lsn_end: parts.number("lsn_end")?,
        remote: parts.remote()?,
    };
    let superseded = parts.maybe("supersedes")?.map(|_| parts.number("supersedes")).transpose()?;
    Ok((chunk, superseded))
}

/// A chunk that replaces none.
pub fn chunk(name: &str, given: &Bound<'_, PyAny>) -> PyResult<ChunkFields> {
    match chunk_and_superseded(name, given)? {
        (chunk, None) => Ok(chunk),
        _ => Err(wrong_value(name, "a chunk that supersedes none", given)),
    }
}

/// What a checkpoint does to a chunk.
pub fn mutation(name: &str, given: &Bound<'_, PyAny>) -> PyResult<ChunkMutation> {
    if is_a("ChunkFields", given)? {
        let (chunk, supersedes) = chunk_and_superseded(name, given)?;
        return Ok(ChunkMutation::Full { chunk, supersedes });
    }
    if !is_a("DeltaFields", given)? {
        let expected = "aof2.catalog.ChunkFields or aof2.catalog.DeltaFields";
        return Err(wrong_type(name, expected, given));
    }
    let parts = Parts { name, given };
    let dirty_pages = parts.get("dirty_pages")?;
    let dirty_pages = dirty_pages
        .cast::<PyBytes>()
        .map_err(|_| wrong_type(&parts.place("dirty_pages"), "bytes", &dirty_pages))?;
    Ok(ChunkMutation::Delta(DeltaFields {
        base_chunk_id: parts.number("base_chunk_id")?,
        delta_id: parts.number("delta_id")?,
        dirty_pages: dirty_pages.as_bytes().to_vec(),
        size_bytes: parts.number("size_bytes")?,
        crc64: parts.number("crc64")?,
        compression: compression(&parts.place("compression"), &parts.get("compression")?)?,
        residency: residency(&parts.place("residency"), &parts.get("residency")?)?,
        remote: parts.remote()?,
    }))
}

/// The id of an operation, also as text such as "12.0".
pub fn operation_id(name: &str, given: &Bound<'_, PyAny>) -> PyResult<OperationId> {
    if let Ok(text) = given.cast::<PyString>() {
        let parsed = text.to_string_lossy().parse();
        return parsed
            .map_err(|_| wrong_value(name, "an OperationId, or text like \"12.0\"", given));
    }
    let parts = Parts::of(name, "OperationId", given)?;
    Ok(OperationId { generation: parts.number("generation")?, index: parts.number("index")? })
}

/// A job and which of its runs.
pub fn job(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(u64, u32)> {
    let parts = Parts::of(name, "Job", given)?;
    Ok((parts.number("job_id")?, parts.number("runs")?))
}
