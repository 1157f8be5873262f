//! Deciding about snapshots.

use aof2_core::catalog::SnapshotSpec;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::pending::Pending;
use super::writer::Catalog;
use super::{TYPES, inputs};
use crate::args::{self, Maybe, unsigned, unsigned_if};
use crate::error::to_py;
use crate::report::{Fields, list};

#[pymethods]
impl Catalog {
    /// Names and holds a state of a database: of a page store a checkpoint (`generation`), of
    /// a log what is before `offset`. `expires`, an aware datetime or milliseconds since the
    /// epoch, says when it may go by itself. Its number is the value; `wait` raises `NameTaken`
    /// if the database has a snapshot of this name, `Trimmed` if that state is not there.
    ///
    /// >>> catalog.publish_snapshot("app", "monday").wait().value
    /// 1
    #[pyo3(
        signature = (db, name, *, generation = None, offset = None, expires = None),
        text_signature = "($self, db, name, *, generation=0, offset=0, expires=None)"
    )]
    fn publish_snapshot(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        generation: Maybe<'_>,
        offset: Maybe<'_>,
        expires: Maybe<'_>,
    ) -> PyResult<Pending> {
        let catalog = Self::core(slf)?;
        let snapshot = SnapshotSpec {
            db_id: inputs::db(slf.py(), &catalog, db)?,
            name: args::text("name", "a str", name)?,
            generation: unsigned_if("generation", &generation)?.unwrap_or(0),
            offset: unsigned_if("offset", &offset)?.unwrap_or(0),
            expires_at_ms: inputs::moment("expires", &expires)?,
        };
        let guard = slf.py().detach(|| catalog.publish_snapshot(snapshot));
        Ok(Pending::new("publish_snapshot", guard.map_err(to_py)?))
    }

    /// Lets a snapshot go, by its name or number. Raises `NoSuchSnapshot` if there is none.
    ///
    /// >>> committed = catalog.publish_snapshot("app", "monday").wait()
    /// >>> committed = catalog.drop_snapshot("app", "monday").wait()
    /// >>> catalog.view().snapshots("app")
    /// []
    fn drop_snapshot(
        slf: &Bound<'_, Self>,
        db: &Bound<'_, PyAny>,
        snapshot: &Bound<'_, PyAny>,
    ) -> PyResult<Pending> {
        let (py, catalog) = (slf.py(), Self::core(slf)?);
        let db = inputs::db(py, &catalog, db)?;
        let number = match snapshot.is_instance_of::<PyString>() {
            true => {
                let name = args::text("snapshot", "an int or a str", snapshot)?;
                let found = py.detach(|| catalog.view()?.snapshot_named(db, &name));
                found.map_err(to_py)?.0
            }
            false => unsigned("snapshot", snapshot)?,
        };
        let guard = py.detach(|| catalog.drop_snapshot(db, number));
        Ok(Pending::new("drop_snapshot", guard.map_err(to_py)?))
    }

    /// Drops the snapshots whose time is up, and the oldest of those that are more than a
    /// policy's `snapshots_max`. Returns them.
    ///
    /// >>> committed = catalog.publish_snapshot("app", "for a moment", expires=1).wait()
    /// >>> [snapshot.name for snapshot in catalog.drop_expired_snapshots()]
    /// ['for a moment']
    fn drop_expired_snapshots<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let catalog = Self::core(slf)?;
        let dropped = slf.py().detach(|| catalog.drop_expired_snapshots()).map_err(to_py)?;
        list(slf.py(), &dropped, |py, snapshot| {
            Fields::new(py)
                .set("db_id", snapshot.db_id)?
                .set("snapshot_id", snapshot.snapshot_id)?
                .set("name", &snapshot.name)?
                .build_in(TYPES, "DroppedSnapshot")
        })
    }
}
