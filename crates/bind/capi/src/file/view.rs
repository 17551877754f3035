//! The views of descriptors.

use std::{
    ffi::c_int,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use braid_client::{OpenOptions, View};

use super::{DescriptorView, OpenFile, lock};
use crate::{
    ffi::{
        Failure, Outcome, call, process,
        table::{self, DescriptorTarget},
    },
    view::{braid_view, view_or_whole},
};

/// How long the server may take to record the size of a closed file, with a margin.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Gives the descriptor another view, NULL for the whole file, and sets the cursor to 0. Calls of
/// other threads that run meanwhile use the old view. The view may be freed after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_set_view(file: c_int, view: *const braid_view) -> c_int {
    call(|| {
        let open = table::file(file)?;
        // SAFETY: the promise of C's caller: NULL, or made by libbraid and not freed.
        open.set_view(unsafe { view_or_whole(view) }?)?;
        Ok(0)
    })
}

/// Another descriptor of the same open file, with a view and a cursor of its own. A file may have
/// many views at the same time, and they may overlap. Returns the descriptor, to be closed with
/// braid_close, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_with_view(file: c_int, view: *const braid_view) -> c_int {
    call(|| {
        let open = table::file(file)?;
        // SAFETY: as above.
        let seen = view_of(&open, unsafe { view_or_whole(view) }?)?;
        open.descriptor_count.fetch_add(1, Ordering::AcqRel);
        let further = OpenFile {
            cluster: Arc::clone(&open.cluster),
            modes: open.modes,
            view: Mutex::new(seen),
            descriptor_count: Arc::clone(&open.descriptor_count),
            lock_owner: lock::new_lock_owner(),
        };
        process::table().add(DescriptorTarget::File(Arc::new(further))).inspect_err(|_| {
            open.descriptor_count.fetch_sub(1, Ordering::AcqRel);
        })
    })
}

impl OpenFile {
    /// Sets another view, with the cursor at 0.
    pub(crate) fn set_view(&self, view: View) -> Outcome<()> {
        let seen = view_of(self, view)?;
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(())
    }

    /// Runs a call that the server refuses while the file is open. The file is closed before it,
    /// and opened again by its index after it. Calls of other threads fail meanwhile.
    pub(crate) fn with_file_closed(&self, work: impl Fn() -> Outcome<()>) -> Outcome<()> {
        let mut seen = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if self.descriptor_count.load(Ordering::Acquire) > 1 {
            return Err(Failure::new(
                libc::EBUSY,
                "fcntl: the file has further descriptors with views; try: braid_close them",
            ));
        }
        let (client, index) = (&self.cluster.client, seen.file.index());
        if seen.file.size()? > 0 {
            return Err(Failure::new(
                libc::EBUSY,
                "fcntl: the file has data; try: braid_open_layout of a new file",
            ));
        }
        seen.file.with_view(View::whole())?.close()?;
        client.flush_closes()?;
        let done = retry_until_recorded(work);
        let file = client
            .open(index, &OpenOptions::new().read(self.modes.read).write(self.modes.write))?;
        *seen = DescriptorView::new(file.with_view(seen.view.clone())?, seen.view.clone())?;
        done
    }
}

/// The server records only some seconds after the last close of a writer that the file is empty.
/// Until then it refuses with EBUSY.
fn retry_until_recorded(work: impl Fn() -> Outcome<()>) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match work() {
            Err(failure) if failure.errno == libc::EBUSY && begun.elapsed() < RECORD_TIMEOUT => {
                thread::sleep(RETRY_INTERVAL)
            }
            done => return done,
        }
    }
}

fn view_of(open: &OpenFile, view: View) -> Outcome<DescriptorView> {
    DescriptorView::new(open.file().with_view(view.clone())?, view)
}
