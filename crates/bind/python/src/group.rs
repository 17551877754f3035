//! The tasks of a parallel program: connected over TCP, as threads, or through a Python object that
//! exchanges bytes (MPI).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use braid_client::{Error, Secret, Status, TcpGroup, ThreadGroup};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyList},
};

use crate::{
    collective::refuse,
    error::{IntoPyResult, closed, invalid},
};

/// One task of a parallel program, as a member of its group.
#[pyclass(frozen, module = "braid")]
pub(crate) struct Group {
    /// `None` when the task has left. Locked only briefly, never during a wait for others.
    held: Mutex<Option<Arc<dyn braid_client::Group>>>,
}

impl Group {
    fn new(group: impl braid_client::Group + 'static) -> Self {
        Self { held: Mutex::new(Some(Arc::new(group))) }
    }

    /// The group of the library, unless the task has left.
    pub(crate) fn group(&self) -> PyResult<Arc<dyn braid_client::Group>> {
        self.held().clone().ok_or_else(|| closed("group"))
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<dyn braid_client::Group>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Group {
    /// Joins a group of `size` tasks as task `rank`. Task 0 listens at `address`, HOST:PORT. The
    /// others connect to it; they may start before it. All have the same secret of 32 random bytes,
    /// from their launcher. Returns when all tasks are connected.
    #[staticmethod]
    #[pyo3(signature = (address, rank, size, secret, timeout=30.0))]
    fn tcp(
        py: Python<'_>,
        address: String,
        rank: u32,
        size: u32,
        secret: &[u8],
        timeout: f64,
    ) -> PyResult<Self> {
        let secret = <[u8; 32]>::try_from(secret).map_err(|_| {
            invalid(
                "joining the group: the secret must have 32 bytes",
                "secrets.token_bytes(32), the same for each task",
            )
        })?;
        let (secret, time_max) = (Secret::from_bytes(secret), seconds(timeout)?);
        py.detach(|| TcpGroup::join(address, rank, size, &secret, time_max))
            .or_raise(py)
            .map(Self::new)
    }

    /// The tasks of a group of `size` threads, in the order of ranks, one for each thread.
    #[staticmethod]
    fn threads(size: u32) -> Vec<Self> {
        ThreadGroup::of(size).into_iter().map(Self::new).collect()
    }

    /// A group from a function: `all_gather(mine, seconds)` sends bytes to all tasks and returns
    /// the bytes of each task, in the order of ranks.
    #[staticmethod]
    fn calling(rank: u32, size: u32, all_gather: Py<PyAny>) -> PyResult<Self> {
        if rank >= size {
            return Err(invalid(
                &format!("rank {rank} of {size} tasks"),
                "ranks from 0 to size - 1",
            ));
        }
        Ok(Self::new(CallbackGroup { rank, size, all_gather }))
    }

    #[getter]
    fn rank(&self) -> PyResult<u32> {
        self.group().map(|group| group.rank())
    }

    #[getter]
    fn size(&self) -> PyResult<u32> {
        self.group().map(|group| group.size())
    }

    /// Sends bytes to all tasks. Returns the bytes of each task, in the order of ranks.
    #[pyo3(signature = (mine, timeout=30.0))]
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        mine: &[u8],
        timeout: f64,
    ) -> PyResult<Bound<'py, PyList>> {
        let (group, time_max, mine) = (self.group()?, seconds(timeout)?, mine.to_vec());
        let all = py.detach(move || group.all_gather(&mine, time_max)).or_raise(py)?;
        PyList::new(py, all.iter().map(|bytes| PyBytes::new(py, bytes)).collect::<Vec<_>>())
    }

    /// Takes part with a failure in the collective call that the other tasks make, for a task that
    /// cannot make it. The call fails in all tasks with this reason, and none waits for this one.
    fn refuse_all(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        let group = self.group()?;
        py.detach(|| refuse(&*group, why)).or_raise(py)
    }

    /// Leaves the group: the other tasks see this task as lost.
    fn leave(&self, py: Python<'_>) {
        let held = self.held().take();
        py.detach(|| drop(held));
    }

    fn __repr__(&self) -> String {
        match self.group() {
            Ok(group) => format!("<braid.Group task {} of {}>", group.rank(), group.size()),
            Err(_) => "<braid.Group, left>".to_owned(),
        }
    }
}

fn seconds(timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout)
        .map_err(|_| invalid("group: timeout is not a number of seconds", "timeout=30.0"))
}

/// A group whose exchange is a Python function.
struct CallbackGroup {
    rank: u32,
    size: u32,
    all_gather: Py<PyAny>,
}

impl braid_client::Group for CallbackGroup {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_gather(&self, mine: &[u8], time_max: Duration) -> braid_client::Result<Vec<Vec<u8>>> {
        let gathered = Python::attach(|py| {
            let all =
                self.all_gather.call1(py, (PyBytes::new(py, mine), time_max.as_secs_f64()))?;
            all.bind(py)
                .try_iter()?
                .map(|one| Ok(one?.cast::<PyBytes>()?.as_bytes().to_vec()))
                .collect::<PyResult<Vec<_>>>()
        });
        let all = gathered
            .map_err(|error| exchange_failed(format!("all_gather of the group raised {error}")))?;
        match u32::try_from(all.len()) {
            Ok(count) if count == self.size => Ok(all),
            _ => Err(exchange_failed(format!(
                "all_gather of the group returned {} values for {} tasks",
                all.len(),
                self.size
            ))),
        }
    }
}

fn exchange_failed(why: String) -> Error {
    Error::new(Status::ConnectionLost, why)
        .during("meet", "the other tasks")
        .with_hint("start the program again")
}
