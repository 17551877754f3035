//! Collective calls: all tasks of a program read or write one file together.

use std::io::{IoSlice, IoSliceMut};

use braid_client::{CollectiveMode, CollectiveOptions, Overlap};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    buffer::{FreshBytes, Memory},
    error::invalid,
    group::Group,
    handle::Handle,
};

#[pymethods]
impl Handle {
    /// Reads at a position, together with all tasks of the group: at most `size` bytes, fewer only at the end of the file.
    fn read_all_at<'py>(
        &self,
        py: Python<'py>,
        group: &Group,
        size: usize,
        position: u64,
        mode: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = FreshBytes::new(py, size)?;
        let got = self.read_all(py, group, bytes.bytes_mut(), position, mode)?;
        Ok(bytes.finish(got))
    }

    /// Reads at a position into a buffer, together with all tasks of the group. How many bytes.
    #[pyo3(signature = (group, buffer, position, mode))]
    fn readinto_all_at(
        &self,
        py: Python<'_>,
        group: &Group,
        buffer: &Bound<'_, PyAny>,
        position: u64,
        mode: &str,
    ) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        self.read_all(py, group, memory.bytes_mut(), position, mode)
    }

    /// Writes all of a buffer at a position, together with all tasks of the group. How many bytes.
    #[pyo3(signature = (group, buffer, position, mode, overlap))]
    fn write_all_at(
        &self,
        py: Python<'_>,
        group: &Group,
        buffer: &Bound<'_, PyAny>,
        position: u64,
        mode: &str,
        overlap: &str,
    ) -> PyResult<usize> {
        let (group, options) =
            (group.group()?, CollectiveOptions { mode: mode_of(mode)?, overlap: overlap_of(overlap)? });
        let memory = Memory::readable(buffer)?;
        let buffers = [IoSlice::new(memory.bytes())];
        self.run(py, |file| file.write_all_vectored_at(&*group, &buffers, position, &options))
    }
}

impl Handle {
    fn read_all(&self, py: Python<'_>, group: &Group, memory: &mut [u8], position: u64, mode: &str) -> PyResult<usize> {
        let options = CollectiveOptions { mode: mode_of(mode)?, ..CollectiveOptions::default() };
        let (group, mut buffers) = (group.group()?, [IoSliceMut::new(memory)]);
        self.run(py, |file| file.read_all_vectored_at(&*group, &mut buffers, position, &options))
    }
}

fn mode_of(name: &str) -> PyResult<CollectiveMode> {
    match name {
        "auto" => Ok(CollectiveMode::Auto),
        "server" => Ok(CollectiveMode::Server),
        "independent" => Ok(CollectiveMode::Independent),
        _ => Err(invalid("the mode of a collective call is not known", "one of auto, server, independent")),
    }
}

fn overlap_of(name: &str) -> PyResult<Overlap> {
    match name {
        "highest-rank" => Ok(Overlap::HighestRank),
        "refuse" => Ok(Overlap::Refuse),
        _ => Err(invalid("what becomes of overlaps is not known", "one of highest-rank, refuse")),
    }
}
