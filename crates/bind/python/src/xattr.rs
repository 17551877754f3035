//! Extended attributes, under the names of `os`.

use braid_client::XattrMode;
use pyo3::{
    prelude::*,
    types::{PyAny, PyBytes, PyString},
};

use crate::{
    buffer::Memory,
    client::Client,
    path::{PathArg, bytes_of, text_of},
};

#[pymethods]
impl Client {
    /// The value of an extended attribute. The name includes its prefix, such as `user.`.
    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: PathArg,
        name: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let name = bytes_of(name)?;
        let value = self.run(py, |client| client.xattr(&path, &name))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Sets an extended attribute.
    fn setxattr(
        &self,
        py: Python<'_>,
        path: PathArg,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (name, value) = (bytes_of(name)?, Memory::readable(value)?);
        let value = value.bytes();
        self.run(py, |client| client.set_xattr(&path, &name, value, XattrMode::Either))
    }

    /// Names of all extended attributes.
    fn listxattr<'py>(
        &self,
        py: Python<'py>,
        path: PathArg,
    ) -> PyResult<Vec<Bound<'py, PyString>>> {
        let names = self.run(py, |client| client.xattrs(&path))?;
        names.iter().map(|name| text_of(py, name)).collect()
    }

    /// Removes an extended attribute.
    fn removexattr(&self, py: Python<'_>, path: PathArg, name: &Bound<'_, PyAny>) -> PyResult<()> {
        let name = bytes_of(name)?;
        self.run(py, |client| client.remove_xattr(&path, &name))
    }
}
