//! What a descriptor sees of its file.

use std::{
    ffi::c_int,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use braid_client::{OpenOptions, View};

use super::{OpenFile, Seen, lock};
use crate::{
    border::{
        Failure, Outcome, call, process,
        table::{self, Open},
    },
    view::{braid_view, of},
};

/// How long the server takes to record a file that was closed, with room to spare.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked.
const SETTLED_POLL: Duration = Duration::from_millis(50);

/// Gives the descriptor another view, NULL for the whole file; the cursor is at 0. Calls that other threads have under way go on
/// with the old one. The view may be freed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_set_view(file: c_int, view: *const braid_view) -> c_int {
    call(|| {
        let open = table::file(file)?;
        // SAFETY: the promise of C's caller: NULL, or made by libbraid and not freed.
        open.set_view(unsafe { of(view) }?)?;
        Ok(0)
    })
}

/// A further descriptor of the same open file, with a view and a cursor of its own: many views at once, which may overlap.
/// Returns the descriptor, to be closed with braid_close, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_with_view(file: c_int, view: *const braid_view) -> c_int {
    call(|| {
        let open = table::file(file)?;
        // SAFETY: as above.
        let seen = seen_by(&open, unsafe { of(view) }?)?;
        open.family.fetch_add(1, Ordering::AcqRel);
        let further = OpenFile {
            cluster: Arc::clone(&open.cluster),
            modes: open.modes,
            seen: Mutex::new(seen),
            family: Arc::clone(&open.family),
            owner: lock::new_owner(),
        };
        process::table().add(Open::File(Arc::new(further))).inspect_err(|_| {
            open.family.fetch_sub(1, Ordering::AcqRel);
        })
    })
}

impl OpenFile {
    /// Another view, the cursor at 0.
    pub(crate) fn set_view(&self, view: View) -> Outcome<()> {
        let seen = seen_by(self, view)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(())
    }

    /// Does something that the server refuses while the file is open: it is closed for it, and opened again by its index. Calls of
    /// other threads that are under way meanwhile fail.
    pub(crate) fn while_closed(&self, work: impl Fn() -> Outcome<()>) -> Outcome<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if self.family.load(Ordering::Acquire) > 1 {
            return Err(Failure::new(
                libc::EBUSY,
                "the file has further descriptors with views; try: braid_close them",
            ));
        }
        let (client, index) = (&self.cluster.client, seen.file.index());
        if seen.file.size()? > 0 {
            return Err(Failure::new(
                libc::EBUSY,
                "the file was written; try: braid_open_layout of a new one",
            ));
        }
        seen.file.with_view(View::whole())?.close()?;
        client.flush_closes()?;
        let done = until_settled(work);
        let file = client
            .open(index, &OpenOptions::new().read(self.modes.read).write(self.modes.write))?;
        *seen = Seen::new(file.with_view(seen.view.clone())?, seen.view.clone())?;
        done
    }
}

/// The server records some seconds after the last close of a writer that the file is empty; until then it counts as written.
fn until_settled(work: impl Fn() -> Outcome<()>) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match work() {
            Err(failure) if failure.errno == libc::EBUSY && begun.elapsed() < SETTLED_WITHIN => {
                thread::sleep(SETTLED_POLL)
            }
            done => return done,
        }
    }
}

fn seen_by(open: &OpenFile, view: View) -> Outcome<Seen> {
    Seen::new(open.file().with_view(view.clone())?, view)
}
