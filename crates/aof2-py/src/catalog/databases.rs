//! Deciding about logs, page stores, forks and places in buckets.

use aof2_core::StreamId;
use aof2_core::catalog::{ForkSpec, Policy};
use pyo3::prelude::*;

use super::pending::Pending;
use super::writer::Catalog;
use super::{inputs, reports};
use crate::args::{self, Maybe, unsigned, unsigned_if};
use crate::error::to_py;
use crate::report::Built;

fn name_of(given: &Bound<'_, PyAny>) -> PyResult<String> {
    args::text("name", "a str", given)
}

#[pymethods]
impl Catalog {
    /// Registers a page store ("pages"), or a log that has no stream id yet ("log"). Its number
    /// is the value of what `wait` returns, which raises `NameTaken` if the name is in use.
    ///
    /// >>> catalog.register_db("shop", "pages").wait().value
    /// 2
    #[pyo3(
        signature = (name, kind, *, config_hash = None),
        text_signature = "($self, name, kind, *, config_hash=0)"
    )]
    fn register_db(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        kind: &Bound<'_, PyAny>,
        config_hash: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let (name, kind) = (name_of(name)?, inputs::db_kind("kind", kind)?);
        let hash = unsigned_if("config_hash", &config_hash)?.unwrap_or(0);
        let guard = slf.py().detach(|| catalog.register_db(&name, kind, hash));
        Ok(Pending::new("register_db", guard.map_err(to_py)?))
    }

    /// Registers a log by its `stream_id`. Nothing is written into the log. Its number is the
    /// value.
    ///
    /// >>> import aof2
    /// >>> with aof2.Aof.open(f"{catalog.root}/orders") as orders:
    /// ...     catalog.create_stream("orders", orders.stream_id).wait().value
    /// 2
    #[pyo3(
        signature = (name, stream_id, *, config_hash = None),
        text_signature = "($self, name, stream_id, *, config_hash=0)"
    )]
    fn create_stream(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        stream_id: &Bound<'_, PyAny>,
        config_hash: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let (name, stream) =
            (name_of(name)?, StreamId::from_u64(unsigned("stream_id", stream_id)?));
        let hash = unsigned_if("config_hash", &config_hash)?.unwrap_or(0);
        let guard = slf.py().detach(|| catalog.create_stream(&name, stream, hash));
        Ok(Pending::new("create_stream", guard.map_err(to_py)?))
    }

    /// Registers a fork of a log or page store, and holds what it begins with: of a page store
    /// a checkpoint (`generation`), of a log what is before `offset`. Its number is the value.
    ///
    /// >>> catalog.fork_db("trial", "app").wait().value
    /// 2
    /// >>> catalog.view().database("trial").origin_db
    /// 1
    #[pyo3(
        signature = (name, parent, *, generation = None, offset = None, config_hash = None,
            stream_id = None),
        text_signature = "($self, name, parent, *, generation=0, offset=0, config_hash=0, stream_id=None)"
    )]
    fn fork_db(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        parent: &Bound<'_, PyAny>,
        generation: Maybe<'_>,
        offset: Maybe<'_>,
        config_hash: Maybe<'_>,
        stream_id: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let fork = ForkSpec {
            name: name_of(name)?,
            parent_db: inputs::db(slf.py(), &catalog, parent)?,
            generation: unsigned_if("generation", &generation)?.unwrap_or(0),
            offset: unsigned_if("offset", &offset)?.unwrap_or(0),
            config_hash: unsigned_if("config_hash", &config_hash)?.unwrap_or(0),
            stream_id: unsigned_if("stream_id", &stream_id)?.map(StreamId::from_u64),
        };
        let guard = slf.py().detach(|| catalog.fork_db(fork));
        Ok(Pending::new("fork_db", guard.map_err(to_py)?))
    }

    /// Changes the state of a database: "active", "read_only" or "dropped". A dropped one
    /// frees its name at once; what snapshots and forks hold of it stays.
    ///
    /// >>> committed = catalog.update_db_status("app", "read_only").wait()
    /// >>> catalog.view().database("app").status
    /// 'read_only'
    fn update_db_status(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        status: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let status = inputs::db_status("status", status)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.update_db_status(db, status));
        Ok(Pending::new("update_db_status", guard.map_err(to_py)?))
    }

    /// Removes the rows of a dropped database that nobody reads any more.
    ///
    /// >>> app = catalog.view().database("app").db_id
    /// >>> committed = catalog.update_db_status(app, "dropped").wait()
    /// >>> committed = catalog.remove_db(app).wait()
    /// >>> catalog.view().databases()
    /// []
    fn remove_db(slf: &Bound<'_, Self>, db: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.remove_db(db));
        Ok(Pending::new("remove_db", guard.map_err(to_py)?))
    }

    /// Registers the logs that are in the directory and not known yet. Nothing is written into
    /// them; they may be open meanwhile.
    ///
    /// >>> import aof2
    /// >>> aof2.Aof.open(f"{catalog.root}/orders").close()
    /// >>> catalog.adopt_logs().logs
    /// ['orders']
    fn adopt_logs<'py>(slf: &Bound<'py, Self>) -> Built<'py> {
        let catalog = Self::core(slf)?;
        let adopted = slf.py().detach(|| catalog.adopt_logs()).map_err(to_py)?;
        reports::adopted(slf.py(), &adopted)
    }

    /// Sets what may go of a database; what is not given is kept for ever.
    ///
    /// >>> committed = catalog.set_policy("app", snapshots_max=7).wait()
    /// >>> catalog.view().database("app").snapshots_max
    /// 7
    #[pyo3(
        signature = (db, *, max_age_ms = None, max_bytes = None, snapshots_max = None),
        text_signature = "($self, db, *, max_age_ms=None, max_bytes=None, snapshots_max=None)"
    )]
    fn set_policy(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        max_age_ms: Maybe<'_>,
        max_bytes: Maybe<'_>,
        snapshots_max: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let policy = Policy {
            max_age_ms: unsigned_if("max_age_ms", &max_age_ms)?,
            max_bytes: unsigned_if("max_bytes", &max_bytes)?,
            snapshots_max: unsigned_if("snapshots_max", &snapshots_max)?,
        };
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.set_policy(db, policy));
        Ok(Pending::new("set_policy", guard.map_err(to_py)?))
    }

    /// Notes that records of a log before an offset go. Raises why not if a snapshot or fork
    /// holds them.
    ///
    /// >>> import aof2
    /// >>> aof2.Aof.open(f"{catalog.root}/orders").close()
    /// >>> adopted = catalog.adopt_logs()
    /// >>> committed = catalog.trim("orders", 10).wait()
    /// >>> catalog.view().database("orders").start_offset
    /// 10
    fn trim(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        before_offset: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let before = unsigned("before_offset", before_offset)?;
        let db = inputs::db(slf.py(), &catalog, db)?;
        let guard = slf.py().detach(|| catalog.trim(db, before));
        Ok(Pending::new("trim", guard.map_err(to_py)?))
    }

    /// Registers a place in a bucket. Its number is the value.
    ///
    /// >>> catalog.add_namespace("s3://bucket/prefix").wait().value
    /// 1
    #[pyo3(
        signature = (url, *, encryption = None),
        text_signature = "($self, url, *, encryption=None)"
    )]
    fn add_namespace(
        slf: &Bound<'_, Self>,
        url: &Bound<'_, PyAny>,
        encryption: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let url = args::text("url", "a str", url)?;
        let encryption = args::text_if("encryption", "a str or None", &encryption)?;
        let guard = slf.py().detach(|| catalog.add_namespace(&url, encryption.as_deref()));
        Ok(Pending::new("add_namespace", guard.map_err(to_py)?))
    }

    /// Forgets a place in a bucket, if no object is there.
    ///
    /// >>> number = catalog.add_namespace("s3://bucket/prefix").wait().value
    /// >>> committed = catalog.drop_namespace(number).wait()
    /// >>> catalog.view().namespaces()
    /// []
    fn drop_namespace(slf: &Bound<'_, Self>, namespace_id: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let namespace_id = unsigned("namespace_id", namespace_id)?;
        let guard = slf.py().detach(|| catalog.drop_namespace(namespace_id));
        Ok(Pending::new("drop_namespace", guard.map_err(to_py)?))
    }
}
