//! A client of a cluster: connect, open, list. The other calls of the namespace are in `names.rs`,
//! `change.rs` and `xattr.rs`.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pyo3::{prelude::*, types::PyDict};

use crate::{
    connect,
    directory::Scan,
    drop_without_gil::DropWithoutGil,
    error::{IntoPyResult, closed},
    handle::Handle,
    options,
    path::PathArg,
};

/// A client of a cluster. Many threads may use it at the same time; a child after `fork` makes its
/// own.
#[pyclass(frozen, subclass, weakref, module = "braid")]
pub(crate) struct Client {
    /// `None` when it is closed. Locked only briefly, never during a call to a server.
    held: Mutex<Option<DropWithoutGil<braid_client::Client>>>,
}

impl Client {
    /// Runs a call of the library without the GIL.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&braid_client::Client) -> braid_client::Result<T> + Send,
    ) -> PyResult<T> {
        let client = self.held().as_ref().and_then(DropWithoutGil::value).cloned();
        let client = client.ok_or_else(|| closed("client"))?;
        // If another thread closes the client meanwhile, this call drops the last clone, also
        // without the GIL.
        py.detach(move || call(&client)).or_raise(py)
    }

    fn held(&self) -> MutexGuard<'_, Option<DropWithoutGil<braid_client::Client>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (*, mds, key, agent, tls, timeout, name, umask, read_cache=0))]
    #[expect(clippy::too_many_arguments, reason = "one per setting; callers pass them by keyword")]
    fn new(
        py: Python<'_>,
        mds: Vec<String>,
        key: Option<PathBuf>,
        agent: Option<PathBuf>,
        tls: &str,
        timeout: f64,
        name: String,
        umask: u32,
        read_cache: u64,
    ) -> PyResult<Self> {
        let config = connect::config(py, mds, key, agent, tls, timeout, name)?;
        let config = braid_client::Config { read_cache_bytes: read_cache, ..config };
        let client = py.detach(|| braid_client::Client::connect(config)).or_raise(py)?;
        Ok(Self { held: Mutex::new(Some(DropWithoutGil::new(client.with_umask(umask)))) })
    }

    /// Opens a file; see `options.rs` for the flags.
    #[pyo3(signature = (path, flags, mode, layout=None))]
    fn open_handle(
        &self,
        py: Python<'_>,
        path: PathArg,
        flags: &str,
        mode: u32,
        layout: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Handle> {
        let wish = options::layout_hint(layout)?;
        let options = options::open(flags, mode, wish.clone())?;
        let opened = self.run(py, |client| {
            client.check_iod_count(&wish)?;
            client.open(&path, &options)
        });
        opened.map(Handle::new)
    }

    /// The entries of a directory, fetched as needed; with attributes if asked for.
    #[pyo3(signature = (path=None, *, attributes=false))]
    fn scandir(&self, py: Python<'_>, path: Option<PathArg>, attributes: bool) -> PyResult<Scan> {
        let path = path.unwrap_or_default();
        self.run(py, |client| client.read_dir(&path, attributes)).map(Scan::new)
    }

    /// Closes the client. The session ends when its files are closed too.
    fn close(&self, py: Python<'_>) {
        let held = self.held().take();
        py.detach(|| drop(held));
    }

    #[getter]
    fn closed(&self) -> bool {
        self.held().is_none()
    }
}
