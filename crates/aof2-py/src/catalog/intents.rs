//! What is going to be done outside the tables, and how it ended.

use std::sync::Arc;

use aof2_core::catalog::{IntentHost, NamespaceRecord, ObjectSpec, RolledForward};
use aof2_core::io::SystemClock;
use aof2_core::object::BlockingStore;
use aof2_core::{AofError, Result, TierConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::pending::Pending;
use super::writer::Catalog;
use super::{inputs, reports};
use crate::args::{self, unsigned};
use crate::error::to_py;
use crate::report::Built;
use crate::tiers::Tiers;
use crate::wait;

/// Buckets that Python code reaches.
struct PythonHost(Py<PyAny>);

impl PythonHost {
    fn call<T>(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| work(self.0.bind(py)))
            .map_err(|error| AofError::Refused { reason: error.to_string() })
    }
}

impl IntentHost for PythonHost {
    fn holds(&self, namespace: &NamespaceRecord, key: &str, bytes: u64, crc: u64) -> Result<bool> {
        self.call(|host| host.call_method1("holds", (&namespace.url, key, bytes, crc))?.is_truthy())
    }

    fn delete(&self, namespace: &NamespaceRecord, key: &str) -> Result<()> {
        self.call(|host| host.call_method1("delete", (&namespace.url, key)).map(drop))
    }
}

fn in_a_bucket(
    py: Python<'_>,
    catalog: aof2_core::Catalog,
    tiers: TierConfig,
) -> PyResult<Result<RolledForward>> {
    let Some(cold) = tiers.cold else {
        return Err(PyValueError::new_err("host must be Tiers with cold, or an object of yours"));
    };
    let work = move || {
        let store = BlockingStore::open(cold, Arc::new(SystemClock))?;
        catalog.roll_forward(&store)
    };
    wait::left_alone(py, "aof2-bucket", work, || ())
}

impl Catalog {
    fn object_spec(
        slf: &Bound<'_, Self>,
        catalog: &aof2_core::Catalog,
        (db, namespace_id): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        (object, key): (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
        segment: &Bound<'_, PyAny>,
    ) -> PyResult<ObjectSpec> {
        Ok(ObjectSpec {
            db_id: inputs::db(slf.py(), catalog, db)?,
            namespace_id: unsigned("namespace_id", namespace_id)?,
            object: inputs::object("object", object)?,
            key: args::text("key", "a str", key)?,
            segment: inputs::segment("segment", segment)?,
        })
    }
}

#[pymethods]
impl Catalog {
    /// Writes down that an object is going to be put into a bucket. The value is the id of the
    /// intent, which `end_intent` ends.
    ///
    /// >>> from aof2.catalog import ChunkFields, ObjectName, SegmentRef
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [chunk]).wait()
    /// >>> bucket = catalog.add_namespace("s3://bucket/prefix").wait().value
    /// >>> name = ObjectName(origin_db=1, chunk_id=1, generation=1)
    /// >>> stored = SegmentRef(segment_id=1, crc64=7, bytes=4096, epoch=1)
    /// >>> intent = catalog.begin_upload("app", bucket, name, str(name), stored).wait().value
    /// >>> committed = catalog.end_intent(intent, "done").wait()
    /// >>> catalog.view().chunk("app", 1).residency
    /// 'local_and_remote'
    fn begin_upload(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        namespace_id: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
        segment: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let of = (db, namespace_id);
        let upload = Self::object_spec(slf, &catalog, of, (object, key), segment)?;
        let guard = slf.py().detach(|| catalog.begin_upload(upload));
        Ok(Pending::new("begin_upload", guard.map_err(to_py)?))
    }

    /// Writes down that an object is going to be deleted from a bucket. The value is the id of
    /// the intent, which `end_intent` ends.
    ///
    /// >>> from aof2.catalog import ChunkFields, ObjectName, SegmentRef
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [chunk]).wait()
    /// >>> bucket = catalog.add_namespace("s3://bucket/prefix").wait().value
    /// >>> name = ObjectName(origin_db=1, chunk_id=1, generation=1)
    /// >>> stored = SegmentRef(segment_id=1, crc64=7, bytes=4096, epoch=1)
    /// >>> intent = catalog.begin_upload("app", bucket, name, str(name), stored).wait().value
    /// >>> committed = catalog.end_intent(intent, "done").wait()
    /// >>> intent = catalog.begin_delete("app", bucket, name, str(name), stored).wait().value
    /// >>> committed = catalog.end_intent(intent, "done").wait()
    /// >>> catalog.view().chunk("app", 1).residency
    /// 'local'
    fn begin_delete(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        namespace_id: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
        segment: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let of = (db, namespace_id);
        let delete = Self::object_spec(slf, &catalog, of, (object, key), segment)?;
        let guard = slf.py().detach(|| catalog.begin_delete(delete));
        Ok(Pending::new("begin_delete", guard.map_err(to_py)?))
    }

    /// Ends an intent: "done", "failed" or "aborted".
    ///
    /// >>> from aof2.catalog import ChunkFields, ObjectName, SegmentRef
    /// >>> chunk = ChunkFields(1, size_bytes=4096, crc64=7, page_count=16)
    /// >>> committed = catalog.checkpoint_apply("app", 1, [chunk]).wait()
    /// >>> bucket = catalog.add_namespace("s3://bucket/prefix").wait().value
    /// >>> name = ObjectName(origin_db=1, chunk_id=1, generation=1)
    /// >>> stored = SegmentRef(segment_id=1, crc64=7, bytes=4096, epoch=1)
    /// >>> intent = catalog.begin_upload("app", bucket, name, str(name), stored).wait().value
    /// >>> committed = catalog.end_intent(intent, "aborted").wait()
    /// >>> catalog.view().open_intents()
    /// []
    fn end_intent(
        slf: &Bound<'_, Self>,
        intent: &Bound<'_, PyAny>,
        phase: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let intent = inputs::operation_id("intent", intent)?;
        let phase = inputs::phase("phase", phase)?;
        let guard = slf.py().detach(|| catalog.end_intent(intent, phase));
        Ok(Pending::new("end_intent", guard.map_err(to_py)?))
    }

    /// Ends every intent that a crash left, before new ones begin. `host` reaches the buckets:
    /// `Tiers(cold=…)` for the one that all namespaces are in, or an object with
    /// `holds(url, key, bytes, crc64)` and `delete(url, key)`. One that cannot be ended is in
    /// the result and stays open.
    ///
    /// >>> class Nowhere:
    /// ...     def holds(self, url, key, bytes, crc64):
    /// ...         return False
    /// ...     def delete(self, url, key):
    /// ...         pass
    /// >>> catalog.roll_forward(Nowhere()).done
    /// []
    fn roll_forward<'py>(slf: &Bound<'py, Self>, host: &Bound<'py, PyAny>) -> Built<'py> {
        let (py, catalog) = (slf.py(), Self::core(slf)?);
        let report = match host.cast::<Tiers>() {
            Ok(_) => match Tiers::of(&Some(host.clone()))? {
                Some(tiers) => in_a_bucket(py, catalog, tiers)?,
                None => Ok(RolledForward::default()),
            },
            Err(_) => {
                for method in ["holds", "delete"] {
                    if !host.hasattr(method)? {
                        let expected = "Tiers, or an object with holds and delete";
                        return Err(args::wrong_type("host", expected, host));
                    }
                }
                let host = PythonHost(host.clone().unbind());
                py.detach(|| catalog.roll_forward(&host))
            }
        };
        reports::rolled_forward(py, &report.map_err(to_py)?)
    }
}
