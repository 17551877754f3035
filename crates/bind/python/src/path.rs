//! Paths: Python strings, bytes and `os.PathLike`. They become bytes, always relative to the root
//! of the file system.

use std::borrow::Cow;

use braid_client::{PathRef, ToPathRef};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};

/// A path argument.
#[derive(Debug)]
pub(crate) struct PathArg(PathRef);

impl Default for PathArg {
    /// The root.
    fn default() -> Self {
        Self(PathRef::root(b""))
    }
}

impl ToPathRef for PathArg {
    fn to_path_ref(&self) -> PathRef {
        self.0.clone()
    }
}

impl<'py> FromPyObject<'_, 'py> for PathArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        bytes_of(&object).map(|bytes| Self(bytes.as_slice().to_path_ref()))
    }
}

/// `os.fsencode(object)`; plain strings do not need the Python call.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = object.cast::<PyString>()
        && let Ok(text) = text.to_cow()
    {
        return Ok(text.into_owned().into_bytes());
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let encoded = object.py().import("os")?.call_method1("fsencode", (object,))?;
    Ok(encoded.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// `os.fsdecode(bytes)`: a name that is not UTF-8 comes back unchanged.
pub(crate) fn text_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => Ok(PyString::new(py, text)),
        Cow::Owned(_) => Ok(py
            .import("os")?
            .call_method1("fsdecode", (PyBytes::new(py, bytes),))?
            .cast_into::<PyString>()?),
    }
}
