//! Open files: one source file for each group of calls.

pub mod close;
pub mod copy;
pub mod lock;
pub mod open;
pub mod read;
pub mod seek;
pub mod size;
pub mod sync;
pub mod view;
pub mod write;

use std::{
    ffi::c_int,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
};

use braid_client::{File, View};
use braid_layout::ViewMap;

use crate::{
    cluster::Cluster,
    ffi::{Failure, Outcome, table},
};

/// The state of a file descriptor.
pub(crate) struct OpenFile {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) modes: AccessModes,
    view: Mutex<DescriptorView>,
    /// Number of descriptors of the same open file, this one included.
    descriptor_count: Arc<AtomicUsize>,
    /// The owner of this descriptor's locks.
    pub(crate) lock_owner: u64,
}

/// The access modes of the open.
#[derive(Clone, Copy)]
pub(crate) struct AccessModes {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// What the descriptor sees of the file: a view and its cursor. Both belong to the handle.
#[derive(Clone)]
pub(crate) struct DescriptorView {
    pub(crate) file: Arc<File>,
    pub(crate) view: View,
    pub(crate) map: Arc<ViewMap>,
}

impl DescriptorView {
    fn new(file: File, view: View) -> Outcome<Self> {
        let map = Arc::new(view.map()?);
        Ok(Self { file: Arc::new(file), view, map })
    }
}

impl OpenFile {
    fn new(cluster: Arc<Cluster>, modes: AccessModes, file: File) -> Outcome<Self> {
        let seen = Mutex::new(DescriptorView::new(file, View::whole())?);
        Ok(Self {
            cluster,
            modes,
            view: seen,
            descriptor_count: Arc::new(AtomicUsize::new(1)),
            lock_owner: lock::new_lock_owner(),
        })
    }

    /// The current handle. Calls that run keep it when another thread sets another view.
    pub(crate) fn current_view(&self) -> DescriptorView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner).file)
    }
}

/// An open file to read from. POSIX: EBADF when it is not open for reading.
pub(crate) fn readable(number: c_int) -> Outcome<Arc<OpenFile>> {
    let found = table::file(number)?;
    if found.modes.read {
        Ok(found)
    } else {
        Err(not_open_for(number, "reading; try: O_RDONLY or O_RDWR"))
    }
}

/// An open file to write to. POSIX: EBADF when it is not open for writing.
pub(crate) fn writable(number: c_int) -> Outcome<Arc<OpenFile>> {
    let found = table::file(number)?;
    if found.modes.write {
        Ok(found)
    } else {
        Err(not_open_for(number, "writing; try: O_WRONLY or O_RDWR"))
    }
}

fn not_open_for(number: c_int, what: &str) -> Failure {
    Failure::new(libc::EBADF, format!("descriptor {number}: it is not open for {what}"))
}
