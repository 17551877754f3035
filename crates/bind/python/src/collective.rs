//! Collective calls: all tasks of a program read or write one file together.
//!
//! A task whose own arguments are refused here tells the others, who have begun the call and would wait for it. So arguments are taken
//! as they come and looked at here: what the border refuses before, nobody hears of.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
    time::Duration,
};

use braid_client::{CollectiveMode, CollectiveOptions, Error, File, Overlap, Status, refuse_all};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    buffer::{FreshBytes, Memory},
    detached::Detached,
    error::invalid,
    group::Group,
    handle::{Handle, run},
};

/// How long a task that refuses waits for the others to hear of it.
const REFUSAL_TIME: Duration = Duration::from_secs(60);

#[pymethods]
impl Handle {
    /// Reads at a position, together with all tasks of the group: at most `size` bytes, fewer only at the end of the file.
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
            Ok((Part::of(self, position, mode)?, FreshBytes::new(py, size.extract::<usize>()?)?))
        };
        let (part, mut bytes) = told(py, &*group, ready())?;
        let got = part.read(py, &*group, bytes.bytes_mut())?;
        Ok(bytes.finish(got))
    }

    /// Reads at a position into a buffer, together with all tasks of the group. How many bytes.
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
        let ready = || Ok((Part::of(self, position, mode)?, Memory::writable(buffer)?));
        let (part, mut memory) = told(py, &*group, ready())?;
        part.read(py, &*group, memory.bytes_mut())
    }

    /// Writes all of a buffer at a position, together with all tasks of the group. How many bytes.
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
            Ok((Part::of(self, position, mode)?, overlap_of(overlap)?, Memory::readable(buffer)?))
        };
        let (part, overlap, memory) = told(py, &*group, ready())?;
        let (options, buffers) =
            (CollectiveOptions { overlap, ..part.options }, [IoSlice::new(memory.bytes())]);
        run(py, &part.file, |file| {
            file.write_all_vectored_at(&*group, &buffers, part.position, &options)
        })
    }
}

/// What every collective call needs of this task.
struct Part {
    file: Arc<Detached<File>>,
    position: u64,
    options: CollectiveOptions,
}

impl Part {
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

/// What is ready; or why it is not, which the others hear of too. Whether they heard it or not, what this task raises is its own failure.
fn told<T>(py: Python<'_>, group: &dyn braid_client::Group, ready: PyResult<T>) -> PyResult<T> {
    ready.inspect_err(|error| {
        let mut why = error.value(py).to_string();
        if why.is_empty() {
            why = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        }
        let _ = py.detach(|| refuse(group, &why));
    })
}

/// Takes part with a failure.
pub(crate) fn refuse(group: &dyn braid_client::Group, why: &str) -> braid_client::Result<()> {
    // The advice that the status has is for who uses the command.
    let advice = if why.contains("; try: ") { "" } else { "; try: what that task itself says" };
    refuse_all(group, &Error::new(Status::Invalid, format!("{why}{advice}")), REFUSAL_TIME)
        .map(drop)
}

fn mode_of(name: &Bound<'_, PyAny>) -> PyResult<CollectiveMode> {
    match name.extract::<&str>()? {
        "auto" => Ok(CollectiveMode::Auto),
        "server" => Ok(CollectiveMode::Server),
        "independent" => Ok(CollectiveMode::Independent),
        _ => Err(invalid(
            "the mode of a collective call is not known",
            "one of auto, server, independent",
        )),
    }
}

fn overlap_of(name: &Bound<'_, PyAny>) -> PyResult<Overlap> {
    match name.extract::<&str>()? {
        "highest-rank" => Ok(Overlap::HighestRank),
        "refuse" => Ok(Overlap::Refuse),
        _ => Err(invalid("what becomes of overlaps is not known", "one of highest-rank, refuse")),
    }
}
