//! `RecordIds`: the ids of many records.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use super::RecordId;

/// Records that were appended together have consecutive offsets; those of several
/// batches may have others in between.
#[derive(Clone, Copy)]
struct Run {
    /// Index of its first id.
    index: usize,
    /// Logical offset of that record.
    offset: u64,
}

/// The ids of records that were appended together: a sequence of `RecordId`, eight
/// bytes each. `first_offset` is the logical offset of the first one.
///
/// >>> ids = log.append_many([b"a", b"b", b"c"])
/// >>> len(ids), ids.first_offset
/// (3, 0)
/// >>> log.flush(ids[-1])
/// >>> [bytes(log.read(rid)) for rid in ids[1:]]
/// [b'b', b'c']
/// >>> ids[1:].first_offset
/// 1
#[pyclass(module = "aof2", frozen, sequence)]
pub struct RecordIds {
    ids: Vec<u64>,
    runs: Vec<Run>,
    first_offset: u64,
}

impl RecordIds {
    pub fn new(first_offset: u64) -> Self {
        Self { ids: Vec::new(), runs: Vec::new(), first_offset }
    }

    /// Adds the records of a batch.
    pub fn add(&mut self, batch: &aof2_core::AppendedBatch) {
        self.push_run(batch.first_offset);
        self.ids.extend(batch.ids.iter().map(|id| id.as_u64()));
    }

    /// Says that the next id has this offset.
    fn push_run(&mut self, offset: u64) {
        let index = self.ids.len();
        if index == 0 {
            self.first_offset = offset;
        }
        let follows =
            self.runs.last().is_some_and(|run| run.offset + (index - run.index) as u64 == offset);
        if !follows {
            self.runs.push(Run { index, offset });
        }
    }

    fn push(&mut self, id: u64, offset: u64) {
        self.push_run(offset);
        self.ids.push(id);
    }

    fn offset(&self, index: usize) -> u64 {
        let after = self.runs.partition_point(|run| run.index <= index);
        match self.runs[..after].last() {
            Some(run) => run.offset + (index - run.index) as u64,
            None => self.first_offset + index as u64,
        }
    }

    fn slice(&self, slice: &Bound<'_, PySlice>) -> PyResult<Self> {
        let range = slice.indices(self.ids.len() as isize)?;
        let mut index = range.start;
        let first = usize::try_from(range.start).unwrap_or(0).min(self.ids.len());
        let mut part = Self::new(self.offset(first));
        for _ in 0..range.slicelength {
            let at = index as usize;
            part.push(self.ids[at], self.offset(at));
            index += range.step;
        }
        Ok(part)
    }

    fn position(&self, value: &Bound<'_, PyAny>, from: usize) -> Option<usize> {
        let wanted = value.cast::<RecordId>().ok()?.get().0;
        self.ids.iter().skip(from).position(|id| *id == wanted).map(|at| at + from)
    }
}

#[pymethods]
impl RecordIds {
    /// Logical offset of the first record; of the next one to come if there is none.
    #[getter]
    fn first_offset(&self) -> u64 {
        self.first_offset
    }

    fn __len__(&self) -> usize {
        self.ids.len()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if let Ok(slice) = index.cast::<PySlice>() {
            return Ok(Bound::new(py, self.slice(slice)?)?.into_any());
        }
        let given: isize = index
            .extract()
            .map_err(|_: PyErr| PyTypeError::new_err("index must be an int or a slice"))?;
        let at = if given < 0 { given + self.ids.len() as isize } else { given };
        let id = usize::try_from(at).ok().and_then(|at| self.ids.get(at));
        let id =
            id.ok_or_else(|| PyIndexError::new_err(format!("index {given} is out of range")))?;
        Ok(Bound::new(py, RecordId(*id))?.into_any())
    }

    fn __iter__(slf: Bound<'_, Self>) -> RecordIdIterator {
        let len = slf.get().ids.len();
        RecordIdIterator { ids: slf.unbind(), next: 0, end: len, backwards: false }
    }

    fn __reversed__(slf: Bound<'_, Self>) -> RecordIdIterator {
        let len = slf.get().ids.len();
        RecordIdIterator { ids: slf.unbind(), next: 0, end: len, backwards: true }
    }

    fn __contains__(&self, value: &Bound<'_, PyAny>) -> bool {
        self.position(value, 0).is_some()
    }

    /// First position of an id; `ValueError` if it is not there.
    #[pyo3(signature = (value, start = 0, stop = None))]
    fn index(
        &self,
        value: &Bound<'_, PyAny>,
        start: isize,
        stop: Option<isize>,
    ) -> PyResult<usize> {
        let len = self.ids.len() as isize;
        let place = |at: isize| if at < 0 { (at + len).max(0) } else { at.min(len) } as usize;
        let stop = stop.map_or(self.ids.len(), place);
        let found = self.position(value, place(start)).filter(|at| *at < stop);
        found.ok_or_else(|| PyValueError::new_err("that id is not among these"))
    }

    /// How often an id is there: once or never.
    fn count(&self, value: &Bound<'_, PyAny>) -> usize {
        let Ok(wanted) = value.cast::<RecordId>() else { return 0 };
        self.ids.iter().filter(|id| **id == wanted.get().0).count()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        let other = other.get();
        self.ids == other.ids && (0..self.ids.len()).all(|at| self.offset(at) == other.offset(at))
    }

    fn __hash__(&self) -> u64 {
        // Ids of different records differ, so the ends tell most sequences apart.
        let ends = self.ids.first().zip(self.ids.last());
        ends.map_or(0, |(first, last)| first.rotate_left(17) ^ last ^ self.ids.len() as u64)
    }

    fn __repr__(&self) -> String {
        match self.ids.as_slice() {
            [] => "<RecordIds: none>".into(),
            [only] => format!("<RecordIds: 1, {}>", aof2_core::RecordId::from_u64(*only)),
            [first, .., last] => format!(
                "<RecordIds: {}, {} to {}>",
                self.ids.len(),
                aof2_core::RecordId::from_u64(*first),
                aof2_core::RecordId::from_u64(*last)
            ),
        }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let runs: Vec<(usize, u64)> = self.runs.iter().map(|r| (r.index, r.offset)).collect();
        let state = (PyList::new(py, &self.ids)?, runs, self.first_offset);
        let rebuild = py.get_type::<Self>().getattr("_rebuild")?;
        (rebuild, state).into_pyobject(py)
    }

    /// For pickle.
    #[staticmethod]
    fn _rebuild(ids: Vec<u64>, runs: Vec<(usize, u64)>, first_offset: u64) -> PyResult<Self> {
        let runs: Vec<Run> =
            runs.into_iter().map(|(index, offset)| Run { index, offset }).collect();
        let fits = runs.first().is_none_or(|run| run.index == 0)
            && runs.is_sorted_by(|a, b| a.index < b.index)
            && runs.is_empty() == ids.is_empty();
        match fits {
            true => Ok(Self { ids, runs, first_offset }),
            false => Err(PyValueError::new_err("these are not the parts of a RecordIds")),
        }
    }
}

/// Iterator of [`RecordIds`].
#[pyclass(module = "aof2._aof2", name = "_RecordIdIterator")]
pub struct RecordIdIterator {
    ids: Py<RecordIds>,
    next: usize,
    end: usize,
    backwards: bool,
}

#[pymethods]
impl RecordIdIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<RecordId> {
        if self.next >= self.end {
            return None;
        }
        let at = match self.backwards {
            true => {
                self.end -= 1;
                self.end
            }
            false => {
                self.next += 1;
                self.next - 1
            }
        };
        self.ids.get().ids.get(at).copied().map(RecordId)
    }

    fn __length_hint__(&self) -> usize {
        self.end - self.next
    }
}
