//! Collective calls: all tasks of a program read or write one file together.
//!
//! A task with a wrong argument of its own notifies the others: they have started the call and
//! would wait for it. So arguments are taken as plain objects and checked here. An error in PyO3's
//! conversion would not reach the other tasks.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
    time::Duration,
};

use braid_client::{CollectiveMode, CollectiveOptions, Error, File, Overlap, Status, refuse_all};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    buffer::{Memory, UninitBytes},
    drop_without_gil::DropWithoutGil,
    error::invalid,
    group::Group,
    handle::{Handle, run},
};

/// How long a refusing task waits for the others to receive the refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(60);

#[pymethods]
impl Handle {
    /// Reads at a position, together with all tasks of the group: at most `size` bytes, fewer only
    /// at the end of the file.
    fn read_all_at<'py>(
        &self,
        py: Python<'py>,
        group: &Group,
        size: &Bound<'py, PyAny>,
        position: &Bound<'py, PyAny>,
        mode: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let group = group.group()?;
        let ready = || {
            Ok((
                TaskCall::of(self, position, mode)?,
                UninitBytes::new(py, size.extract::<usize>()?)?,
            ))
        };
        let (part, mut bytes) = prepared(py, &*group, ready())?;
        let got = part.read(py, &*group, bytes.bytes_mut())?;
        Ok(bytes.finish(got))
    }

    /// Reads at a position into a buffer, together with all tasks of the group. Returns the number
    /// of bytes.
    #[pyo3(signature = (group, buffer, position, mode))]
    fn readinto_all_at(
        &self,
        py: Python<'_>,
        group: &Group,
        buffer: &Bound<'_, PyAny>,
        position: &Bound<'_, PyAny>,
        mode: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let group = group.group()?;
        let ready = || Ok((TaskCall::of(self, position, mode)?, Memory::writable(buffer)?));
        let (part, mut memory) = prepared(py, &*group, ready())?;
        part.read(py, &*group, memory.bytes_mut())
    }

    /// Writes all of a buffer at a position, together with all tasks of the group. Returns the
    /// number of bytes.
    #[pyo3(signature = (group, buffer, position, mode, overlap))]
    fn write_all_at(
        &self,
        py: Python<'_>,
        group: &Group,
        buffer: &Bound<'_, PyAny>,
        position: &Bound<'_, PyAny>,
        mode: &Bound<'_, PyAny>,
        overlap: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let group = group.group()?;
        let ready = || {
            Ok((
                TaskCall::of(self, position, mode)?,
                overlap_of(overlap)?,
                Memory::readable(buffer)?,
            ))
        };
        let (part, overlap, memory) = prepared(py, &*group, ready())?;
        let (options, buffers) =
            (CollectiveOptions { overlap, ..part.options }, [IoSlice::new(memory.bytes())]);
        run(py, &part.file, |file| {
            file.write_all_vectored_at(&*group, &buffers, part.position, &options)
        })
    }
}

/// The part of one task in a collective call.
struct TaskCall {
    file: Arc<DropWithoutGil<File>>,
    position: u64,
    options: CollectiveOptions,
}

impl TaskCall {
    fn of(handle: &Handle, position: &Bound<'_, PyAny>, mode: &Bound<'_, PyAny>) -> PyResult<Self> {
        let options = CollectiveOptions { mode: mode_of(mode)?, ..CollectiveOptions::default() };
        Ok(Self { file: handle.open()?, position: position.extract()?, options })
    }

    fn read(
        &self,
        py: Python<'_>,
        group: &dyn braid_client::Group,
        memory: &mut [u8],
    ) -> PyResult<usize> {
        let mut buffers = [IoSliceMut::new(memory)];
        run(py, &self.file, |file| {
            file.read_all_vectored_at(group, &mut buffers, self.position, &self.options)
        })
    }
}

/// Returns the prepared arguments. If they are wrong, notifies the other tasks. This task raises
/// its own error, whether the others received it or not.
fn prepared<T>(py: Python<'_>, group: &dyn braid_client::Group, ready: PyResult<T>) -> PyResult<T> {
    ready.inspect_err(|error| {
        let mut why = error.value(py).to_string();
        if why.is_empty() {
            why = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        }
        let _ = py.detach(|| refuse(group, &why));
    })
}

/// Takes part in a call with a failure.
pub(crate) fn refuse(group: &dyn braid_client::Group, why: &str) -> braid_client::Result<()> {
    // The general advice of the status is for users of the `braid` command.
    let advice = if why.contains("; try: ") { "" } else { "; try: see the error of that task" };
    refuse_all(group, &Error::new(Status::Invalid, format!("{why}{advice}")), REFUSAL_TIME)
        .map(drop)
}

fn mode_of(name: &Bound<'_, PyAny>) -> PyResult<CollectiveMode> {
    match name.extract::<&str>()? {
        "auto" => Ok(CollectiveMode::Auto),
        "server" => Ok(CollectiveMode::Server),
        "independent" => Ok(CollectiveMode::Independent),
        _ => {
            Err(invalid("collective call: the mode is unknown", "one of auto, server, independent"))
        }
    }
}

fn overlap_of(name: &Bound<'_, PyAny>) -> PyResult<Overlap> {
    match name.extract::<&str>()? {
        "highest-rank" => Ok(Overlap::HighestRank),
        "refuse" => Ok(Overlap::Refuse),
        _ => Err(invalid("collective call: the overlap is unknown", "one of highest-rank, refuse")),
    }
}
