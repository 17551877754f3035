//! The namespace: look up, create, rename, remove.

use braid_client::{LayoutHint, RenameMode};
use pyo3::{
    prelude::*,
    types::{PyAny, PyString},
};

use crate::{
    attributes::Stat,
    client::Client,
    path::{PathArg, bytes_of, text_of},
};

#[pymethods]
impl Client {
    /// Attributes. Follows a final symbolic link, unless `follow_symlinks` is false.
    #[pyo3(signature = (path, *, follow_symlinks=true))]
    fn stat(&self, py: Python<'_>, path: PathArg, follow_symlinks: bool) -> PyResult<Stat> {
        let stat = |client: &braid_client::Client| {
            if follow_symlinks { client.stat(&path) } else { client.lstat(&path) }
        };
        self.run(py, stat).map(Stat::from)
    }

    /// Checks the permissions in `mode`: a combination of `os.R_OK`, `W_OK`, `X_OK`.
    fn check_access(&self, py: Python<'_>, path: PathArg, mode: u8) -> PyResult<()> {
        self.run(py, |client| client.access(&path, mode))
    }

    /// Creates a directory.
    #[pyo3(signature = (path, mode=0o777))]
    fn mkdir(&self, py: Python<'_>, path: PathArg, mode: u32) -> PyResult<()> {
        self.run(py, |client| client.mkdir(&path, mode)).map(drop)
    }

    /// Creates an empty file without opening it. An existing one does not change, or is an error.
    #[pyo3(signature = (path, mode=0o666, exist_ok=true))]
    fn make_file(&self, py: Python<'_>, path: PathArg, mode: u32, exist_ok: bool) -> PyResult<()> {
        self.run(py, |client| client.touch(&path, mode, !exist_ok, LayoutHint::none())).map(drop)
    }

    /// Removes a file.
    fn remove(&self, py: Python<'_>, path: PathArg) -> PyResult<()> {
        self.run(py, |client| client.unlink(&path))
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: PathArg) -> PyResult<()> {
        self.run(py, |client| client.rmdir(&path))
    }

    /// Renames a file, atomically for every client. An existing file `to` is replaced, unless
    /// `replace` is false.
    #[pyo3(signature = (from_, to, *, replace=true))]
    fn rename(&self, py: Python<'_>, from_: PathArg, to: PathArg, replace: bool) -> PyResult<()> {
        let mode = if replace { RenameMode::Replace } else { RenameMode::NoReplace };
        self.run(py, |client| client.rename(&from_, &to, mode))
    }

    /// Exchanges two names, atomically for every client.
    fn exchange(&self, py: Python<'_>, a: PathArg, b: PathArg) -> PyResult<()> {
        self.run(py, |client| client.rename(&a, &b, RenameMode::Exchange))
    }

    /// Creates a symbolic link `path` to `target`.
    fn symlink(&self, py: Python<'_>, target: &Bound<'_, PyAny>, path: PathArg) -> PyResult<()> {
        let target = bytes_of(target)?;
        self.run(py, |client| client.symlink(&path, &target)).map(drop)
    }

    /// The target of a symbolic link.
    fn readlink<'py>(&self, py: Python<'py>, path: PathArg) -> PyResult<Bound<'py, PyString>> {
        let target = self.run(py, |client| client.read_link(&path))?;
        text_of(py, &target)
    }

    /// Gives a file another name `to`.
    fn link(&self, py: Python<'_>, from_: PathArg, to: PathArg) -> PyResult<()> {
        self.run(py, |client| client.hard_link(&from_, &to)).map(drop)
    }
}
