//! Directory listings: an iterator that fetches as needed.

use std::collections::VecDeque;

use braid_client::{DirectoryEntry, Error, Listing};
use pyo3::{prelude::*, types::PyString};

use crate::{
    attributes::{Stat, kind_name},
    error::exception,
    path::text_of,
};

/// Number of entries fetched at a time. The GIL is released once for each batch.
const BATCH: usize = 256;

/// One entry of a listing, as `os.DirEntry`.
#[pyclass(frozen, module = "braid")]
#[derive(Debug)]
pub(crate) struct DirEntry(DirectoryEntry);

#[pymethods]
impl DirEntry {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text_of(py, &self.0.name)
    }

    /// `file`, `directory`, `link` or `other`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(self.0.kind)
    }

    /// The file index.
    fn inode(&self) -> u64 {
        self.0.file.0
    }

    fn is_dir(&self) -> bool {
        self.kind() == "directory"
    }

    fn is_file(&self) -> bool {
        self.kind() == "file"
    }

    fn is_symlink(&self) -> bool {
        self.kind() == "link"
    }

    /// The attributes of the entry, if the listing was asked for them. They do not follow symbolic
    /// links.
    #[getter]
    fn attributes(&self) -> Option<Stat> {
        self.0.attributes.clone().map(Stat::from)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<DirEntry {}>", text_of(py, &self.0.name)?.repr()?))
    }
}

/// The entries of a directory, fetched as needed.
#[pyclass(module = "braid")]
pub(crate) struct Scan {
    listing: Listing,
    fetched: VecDeque<DirectoryEntry>,
    /// The error that follows the entries in `fetched`.
    failed: Option<Error>,
}

impl Scan {
    pub(crate) fn new(listing: Listing) -> Self {
        Self { listing, fetched: VecDeque::new(), failed: None }
    }

    fn fetch(&mut self) {
        for entry in self.listing.by_ref().take(BATCH) {
            match entry {
                Ok(entry) => self.fetched.push_back(entry),
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }
}

#[pymethods]
impl Scan {
    fn __iter__(scan: PyRef<'_, Self>) -> PyRef<'_, Self> {
        scan
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<DirEntry>> {
        if self.fetched.is_empty() && self.failed.is_none() {
            py.detach(|| self.fetch());
        }
        match (self.fetched.pop_front(), self.failed.take()) {
            (Some(entry), failed) => {
                self.failed = failed;
                Ok(Some(DirEntry(entry)))
            }
            (None, Some(error)) => Err(exception(py, &error)),
            (None, None) => Ok(None),
        }
    }
}
