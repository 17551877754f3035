//! Attributes changed, layouts, room, and who the program is.

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

    /// Changes owner and group; `None` leaves one alone.
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

    /// Sets the times of last read and last write, in nanoseconds since 1970; without them, to the server's now.
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

    /// Cuts a file to `size` bytes, or extends it with zeros.
    fn truncate(&self, py: Python<'_>, path: PathArg, size: u64) -> PyResult<()> {
        self.run(py, |client| client.truncate(&path, size)).map(drop)
    }

    /// Where a file's bytes lie: distribution, stripe_size, iods (in the order of the parts) and first_part.
    fn layout<'py>(&self, py: Python<'py>, path: PathArg) -> PyResult<Bound<'py, PyDict>> {
        let reply = self.run(py, |client| client.layout(&path))?;
        let told = PyDict::new(py);
        // One component is all there is today.
        let Some(component) = reply.layout.as_ref().and_then(|layout| layout.components.first())
        else {
            return Ok(told);
        };
        let (name, stripe_size) = match &component.distribution {
            Distribution::SimpleStripe { stripe_size } => ("simple-stripe", Some(*stripe_size)),
            Distribution::Single => ("single", None),
            Distribution::VarStrip { .. } => ("varstrip", None),
            Distribution::Grouped { stripe_size, .. } => ("grouped", Some(*stripe_size)),
            _ => ("unknown", None),
        };
        told.set_item("distribution", name)?;
        told.set_item("stripe_size", stripe_size)?;
        let iods = component.parts.iter().filter_map(|part| part.iods.first()).map(|iod| iod.0);
        told.set_item("iods", PyList::new(py, iods.collect::<Vec<_>>())?)?;
        told.set_item("first_part", component.first_part)?;
        Ok(told)
    }

    /// Sets the default layout of a directory, or that of a file that was never written.
    #[pyo3(signature = (path, **layout))]
    fn set_layout(
        &self,
        py: Python<'_>,
        path: PathArg,
        layout: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let wish = options::wish(layout)?;
        self.run(py, |client| {
            client.check_iod_count(&wish)?;
            client.set_layout(&path, wish)
        })
    }

    /// Room where a path is: total, available (bytes) and files.
    fn room<'py>(&self, py: Python<'py>, path: PathArg) -> PyResult<Bound<'py, PyDict>> {
        let reply = self.run(py, |client| client.statfs(client.stat(&path)?.file))?;
        let told = PyDict::new(py);
        told.set_item("total", reply.total.0)?;
        told.set_item("available", reply.available.0)?;
        told.set_item("files", reply.files)?;
        Ok(told)
    }

    /// Who the metadata server takes this program for: user, group, further groups.
    fn whoami(&self, py: Python<'_>) -> PyResult<(u64, u64, Vec<u64>)> {
        let identity = self.run(py, braid_client::Client::whoami)?;
        Ok((identity.uid, identity.gid, identity.groups))
    }

    /// Forces a directory's changes to disk.
    fn sync_directory(&self, py: Python<'_>, path: PathArg) -> PyResult<()> {
        self.run(py, |client| client.sync_directory(&path))
    }

    /// Makes everything durable that was acknowledged before, as `os.sync()` does: of this client also what it wrote to files that
    /// are closed, and what others wrote.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, braid_client::Client::sync_all)
    }
}

fn time(nanos: i128) -> PyResult<Timestamp> {
    let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).map_err(|_| {
        invalid("the time is past what 64 bits of seconds say", "nanoseconds since 1970")
    })?;
    Ok(Timestamp { seconds, nanos: nanos.rem_euclid(NANOS_PER_SECOND) as u32 })
}
