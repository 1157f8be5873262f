//! `CatalogView`: the catalog as it was after one batch.

use std::path::PathBuf;

use aof2_core::catalog::{Table, Value, View, view_at};
use aof2_core::io::ForkStamp;
use aof2_core::{AofError, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::table::{CatalogTable, table_of};
use super::{TYPES, values};
use crate::args::{self, Maybe, unsigned};
use crate::error::{to_py, to_py_saying};
use crate::log::check_not_forked;
use crate::report::{Built, Fields};

/// A state of a catalog: what it was after one generation. It stays as it is, whatever is
/// decided meanwhile; one that is held for long keeps the space of what was changed since.
///
/// >>> view = catalog.view()
/// >>> pending = catalog.register_db("later", "pages").wait()
/// >>> view.database("later") is None, catalog.view().database("later") is None
/// (True, False)
#[pyclass(module = "aof2", frozen)]
pub struct CatalogView {
    /// There until it is dropped.
    view: Option<View>,
    generation: u64,
    root: PathBuf,
    stamp: ForkStamp,
}

/// The state after a generation; what is wrong with the generation is told as such.
pub fn state_at(py: Python<'_>, root: &std::path::Path, at: &Bound<'_, PyAny>) -> PyResult<View> {
    let generation: u64 = unsigned("at", at)?;
    py.detach(|| view_at(root, generation)).map_err(|error| match &error {
        AofError::Trimmed { earliest } => {
            let message = format!(
                "the state after generation {generation} is not kept any more; the first one \
                 that is there is {earliest}"
            );
            to_py_saying(&error, &message)
        }
        AofError::PastEnd { end, .. } => {
            let message =
                format!("there is no generation {generation} yet; the next one will be {end}");
            to_py_saying(&error, &message)
        }
        _ => to_py(error),
    })
}

impl CatalogView {
    pub fn new(view: View, root: PathBuf) -> Self {
        let generation = view.generation();
        Self { view: Some(view), generation, root, stamp: ForkStamp::now() }
    }

    pub fn live(&self) -> PyResult<&View> {
        check_not_forked(self.stamp).map_err(to_py)?;
        self.view.as_ref().ok_or_else(|| to_py(AofError::Closed))
    }

    /// Rows whose keys begin with these numbers, as dataclasses.
    pub fn typed<'py>(
        &self,
        py: Python<'py>,
        class: &str,
        table: Table,
        key: &[u64],
    ) -> PyResult<Bound<'py, PyList>> {
        let view = self.live()?;
        let rows = py.detach(|| view.rows_with_key(table, key)).map_err(to_py)?;
        let class = py.import(TYPES)?.getattr(class)?;
        let built: Vec<_> =
            rows.iter().map(|row| dataclass(&class, table, row)).collect::<PyResult<_>>()?;
        PyList::new(py, built)
    }

    /// The only row with this key, or `None`.
    pub fn typed_one<'py>(
        &self,
        py: Python<'py>,
        class: &str,
        table: Table,
        key: &[u64],
    ) -> Built<'py> {
        let rows = self.typed(py, class, table, key)?;
        match rows.len() {
            0 => Ok(py.None().into_bound(py)),
            _ => rows.get_item(0),
        }
    }

    /// The number of a database that is there; `NoSuchDatabase` otherwise.
    pub fn db(&self, py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<u64> {
        let view = self.live()?;
        let number = match given.is_instance_of::<PyString>() {
            true => {
                let name = args::text("db", "an int or a str", given)?;
                let found = py.detach(|| view.database_named(&name)).map_err(to_py)?;
                found.ok_or(AofError::NoSuchDatabase { db: name }).map(|(id, _)| id)
            }
            false => {
                let db_id: u32 = unsigned("db", given)?;
                let found = py.detach(|| view.database(db_id)).map_err(to_py)?;
                let db = db_id.to_string();
                found.ok_or(AofError::NoSuchDatabase { db }).map(|_| db_id)
            }
        };
        number.map(u64::from).map_err(to_py)
    }
}

impl Drop for CatalogView {
    /// Letting go of a state takes locks that threads of the parent may have held.
    fn drop(&mut self) {
        let view = self.view.take();
        if self.stamp.is_forked() {
            std::mem::forget(view);
        }
    }
}

fn dataclass<'py>(class: &Bound<'py, PyAny>, table: Table, row: &[Value]) -> Built<'py> {
    let py = class.py();
    let cells: Vec<_> = table
        .columns()
        .iter()
        .zip(row)
        .map(|(column, value)| values::cell(py, column, value))
        .collect::<PyResult<_>>()?;
    class.call1(PyTuple::new(py, cells)?)
}

fn row_dict<'py>(py: Python<'py>, table: Table, row: &[Value]) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    for (column, value) in table.columns().iter().zip(row) {
        fields.set_item(column.name, values::cell(py, column, value)?)?;
    }
    Ok(fields)
}

#[pymethods]
impl CatalogView {
    /// The last batch that it includes.
    #[getter]
    fn generation(&self) -> u64 {
        self.generation
    }

    /// Version of the tables.
    #[getter]
    fn tables_version(&self) -> PyResult<u32> {
        self.live()?.tables_version().map_err(to_py)
    }

    /// All tables, with how many rows each has.
    ///
    /// >>> view.tables()["db"]
    /// 1
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = self.live()?;
        let counts = PyDict::new(py);
        for table in Table::ALL {
            counts.set_item(table.name(), view.row_count(table).map_err(to_py)?)?;
        }
        Ok(counts)
    }

    /// A table as Arrow data; with `at`, as it was after that generation. Raises `ValueError`
    /// for a name that no table has, `Trimmed` for a state that is not kept any more,
    /// `PastEnd` for one that is not there yet.
    ///
    /// >>> view.table("db").num_rows, view.table("db", at=0).num_rows
    /// (1, 0)
    #[pyo3(signature = (name, *, at = None), text_signature = "($self, name, *, at=None)")]
    fn table(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        at: Maybe<'_>,
    ) -> PyResult<CatalogTable> {
        let (view, table) = (self.live()?, table_of(name)?);
        match at {
            Some(at) => CatalogTable::read(py, &state_at(py, &self.root, &at)?, table),
            None => CatalogTable::read(py, view, table),
        }
    }

    /// The rows of a table as dicts, in the order of their keys.
    ///
    /// >>> [row["name"] for row in view.rows("db")]
    /// ['app']
    fn rows<'py>(&self, py: Python<'py>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (view, table) = (self.live()?, table_of(name)?);
        let rows = py.detach(|| all_rows(view, table)).map_err(to_py)?;
        let rows: Vec<_> =
            rows.iter().map(|row| row_dict(py, table, row)).collect::<PyResult<_>>()?;
        PyList::new(py, rows)
    }

    /// The rows that are not the same in a later view, table by table: `before` is None for a
    /// new row, `after` for one that is gone.
    ///
    /// >>> earlier = catalog.view(at=0)
    /// >>> [(c.table, c.before, c.after["name"]) for c in earlier.changes_to(view, "db")]
    /// [('db', None, 'app')]
    #[pyo3(signature = (later, name = None), text_signature = "($self, later, name=None)")]
    fn changes_to<'py>(
        &self,
        py: Python<'py>,
        later: &Bound<'py, Self>,
        name: Maybe<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (earlier, later) = (self.live()?, later.get().live()?);
        let tables = match name {
            Some(name) => vec![table_of(&name)?],
            None => Table::ALL.to_vec(),
        };
        let changes = PyList::empty(py);
        for table in tables {
            for change in py.detach(|| earlier.changes_to(later, table)).map_err(to_py)? {
                let row =
                    |row: Option<Vec<Value>>| row.map(|row| row_dict(py, table, &row)).transpose();
                let change = Fields::new(py)
                    .set("table", table.name())?
                    .set("before", row(change.before)?)?
                    .set("after", row(change.after)?)?
                    .build_in(TYPES, "RowChange")?;
                changes.append(change)?;
            }
        }
        Ok(changes)
    }

    fn __repr__(&self) -> String {
        format!("<aof2.CatalogView {:?}: generation {}>", self.root, self.generation)
    }
}

fn all_rows(view: &View, table: Table) -> Result<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    view.each_row(table, |row| {
        rows.push(row);
        Ok(true)
    })?;
    Ok(rows)
}
