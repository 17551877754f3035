//! Converts errors of the library to Python exceptions.

use std::io;

use braid_client::{Error, Status};
use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
};

/// Converts a result for Python.
pub(crate) trait IntoPyResult<T> {
    /// The value, or an `OSError`. Python chooses the subclass for the errno. Besides `errno` and
    /// the whole message it has `status`, `server`, `path` and `hint`.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPyResult<T> for braid_client::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

impl<T> IntoPyResult<T> for io::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
                Some(error) => exception(py, error),
                None => error.into(),
            }
        })
    }
}

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let raised = PyOSError::new_err((error.errno(), error.to_string()));
    let value = raised.value(py);
    let attributes = value
        .setattr("status", format!("{:?}", error.status()))
        .and_then(|()| value.setattr("server", error.server()))
        .and_then(|()| value.setattr("path", error.path()))
        .and_then(|()| value.setattr("hint", error.hint()));
    attributes.err().unwrap_or(raised)
}

/// A `ValueError`, in the format of the library's errors.
pub(crate) fn invalid(why: &str, hint: &str) -> PyErr {
    PyValueError::new_err(format!("{why}; try: {hint}"))
}

/// The exception of a call on a closed object, as in Python's own files.
pub(crate) fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("I/O operation on closed {what}"))
}

/// The exception for a wrong argument that the library refuses without asking a server.
pub(crate) fn argument_error(error: &Error) -> PyErr {
    match error.status() {
        Status::Invalid => PyValueError::new_err(error.to_string()),
        _ => PyOSError::new_err((error.errno(), error.to_string())),
    }
}
