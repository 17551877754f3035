//! Changes of attributes, layouts, free space, and the identity of the program.

use braid_client::{Distribution, SetTime, Timestamp};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{client::Client, error::invalid, options, path::PathArg};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

#[pymethods]
impl Client {
    /// Changes the low 12 bits of the mode.
    fn chmod(&self, py: Python<'_>, path: PathArg, mode: u32) -> PyResult<()> {
        self.run(py, |client| client.chmod(&path, mode)).map(drop)
    }

    /// Changes owner and group; `None` leaves one unchanged.
    #[pyo3(signature = (path, uid, gid, *, follow_symlinks=true))]
    fn chown(
        &self,
        py: Python<'_>,
        path: PathArg,
        uid: Option<u64>,
        gid: Option<u64>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.run(py, |client| client.chown(&path, uid, gid, follow_symlinks)).map(drop)
    }

    /// Sets the times of last access and last write, in nanoseconds since 1970; without them, to
    /// the current time of the server.
    #[pyo3(signature = (path, ns=None, *, follow_symlinks=true))]
    fn utime(
        &self,
        py: Python<'_>,
        path: PathArg,
        ns: Option<(i128, i128)>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let (atime, mtime) = match ns {
            Some((atime, mtime)) => (Some(time(atime)?), Some(time(mtime)?)),
            None => (None, None),
        };
        let (atime, mtime) = (SetTime { time: atime }, SetTime { time: mtime });
        self.run(py, |client| client.set_times(&path, Some(atime), Some(mtime), follow_symlinks))
            .map(drop)
    }

    /// Truncates a file to `size` bytes, or extends it with zeros.
    fn truncate(&self, py: Python<'_>, path: PathArg, size: u64) -> PyResult<()> {
        self.run(py, |client| client.truncate(&path, size)).map(drop)
    }

    /// The layout of a file: distribution, stripe_size, iods (in the order of the parts) and
    /// first_part.
    fn layout<'py>(&self, py: Python<'py>, path: PathArg) -> PyResult<Bound<'py, PyDict>> {
        let reply = self.run(py, |client| client.layout(&path))?;
        let layout = PyDict::new(py);
        // Layouts have one component today.
        let Some(component) = reply.layout.as_ref().and_then(|layout| layout.components.first())
        else {
            return Ok(layout);
        };
        let (name, stripe_size) = match &component.distribution {
            Distribution::SimpleStripe { stripe_size } => ("simple-stripe", Some(*stripe_size)),
            Distribution::Single => ("single", None),
            Distribution::VarStrip { .. } => ("varstrip", None),
            Distribution::Grouped { stripe_size, .. } => ("grouped", Some(*stripe_size)),
            _ => ("unknown", None),
        };
        layout.set_item("distribution", name)?;
        layout.set_item("stripe_size", stripe_size)?;
        let iods = component.parts.iter().filter_map(|part| part.iods.first()).map(|iod| iod.0);
        layout.set_item("iods", PyList::new(py, iods.collect::<Vec<_>>())?)?;
        layout.set_item("first_part", component.first_part)?;
        Ok(layout)
    }

    /// Sets the default layout of a directory, or the layout of a file that was never written.
    #[pyo3(signature = (path, **layout))]
    fn set_layout(
        &self,
        py: Python<'_>,
        path: PathArg,
        layout: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let wish = options::layout_hint(layout)?;
        self.run(py, |client| {
            client.check_iod_count(&wish)?;
            client.set_layout(&path, wish)
        })
    }

    /// Free space at a path: total, available (bytes) and files.
    fn room<'py>(&self, py: Python<'py>, path: PathArg) -> PyResult<Bound<'py, PyDict>> {
        let reply = self.run(py, |client| client.statfs(client.stat(&path)?.file))?;
        let space = PyDict::new(py);
        space.set_item("total", reply.total.0)?;
        space.set_item("available", reply.available.0)?;
        space.set_item("files", reply.files)?;
        Ok(space)
    }

    /// The identity of this program at the metadata server: user, group, further groups.
    fn whoami(&self, py: Python<'_>) -> PyResult<(u64, u64, Vec<u64>)> {
        let identity = self.run(py, braid_client::Client::whoami)?;
        Ok((identity.uid, identity.gid, identity.groups))
    }

    /// Forces a directory's changes to disk.
    fn sync_directory(&self, py: Python<'_>, path: PathArg) -> PyResult<()> {
        self.run(py, |client| client.sync_directory(&path))
    }

    /// Makes everything durable that was acknowledged before, as `os.sync()` does: from this client
    /// and others, also to files that are closed.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, braid_client::Client::sync_all)
    }
}

fn time(nanos: i128) -> PyResult<Timestamp> {
    let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).map_err(|_| {
        invalid(
            "setting times: the time does not fit in 64 bits of seconds",
            "nanoseconds since 1970",
        )
    })?;
    Ok(Timestamp { seconds, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32 })
}
