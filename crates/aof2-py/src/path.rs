//! Paths for Python, as Python itself would have them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

static FSDECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A path on its way to Python: decoded by `os.fsdecode`, so that whatever takes a path
/// finds the same file. Its bytes as UTF-8 would be another path, or none, where the
/// locale is not UTF-8.
pub struct FsPath<'a>(pub &'a Path);

impl<'py> IntoPyObject<'py> for FsPath<'_> {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let bytes = self.0.as_os_str().as_bytes();
        if bytes.is_ascii() {
            // The same in every locale there is.
            return Ok(PyString::new(py, &String::from_utf8_lossy(bytes)));
        }
        let decode = FSDECODE
            .get_or_try_init(py, || py.import("os")?.getattr("fsdecode").map(Bound::unbind))?;
        let text = decode.bind(py).call1((PyBytes::new(py, bytes),))?;
        Ok(text.cast_into::<PyString>()?)
    }
}
