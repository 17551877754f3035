//! Nonblocking collective calls. Each runs on a thread of its own, since it waits for the other
//! tasks.

use std::{
    ffi::{c_int, c_void},
    io::{IoSlice, IoSliceMut},
    sync::Arc,
};

use braid_client::{File, Group, PendingOperation};
use libc::ssize_t;

use crate::{
    collective::{options, refuse},
    ffi::{
        Outcome, call,
        pointers::{array, memory, position},
    },
    file::{readable, writable},
    group::{braid_group, group_arc},
    nonblocking::{braid_request, into_raw_request},
};

/// Starts braid_pread_all; otherwise as braid_pread_start. If the group was made from a function of
/// the program, a thread of the library calls that function. Calls of one group run one after the
/// other: wait for this one before you make or start the next. Wrong arguments are reported by
/// braid_wait, in all tasks. Returns NULL when `group` is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pread_all_start(
    file: c_int,
    group: *const braid_group,
    buffer: *mut c_void,
    bytes: usize,
    at: i64,
    how: c_int,
) -> *mut braid_request {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`, for the memory until the request is
        // waited for; also below.
        let group = unsafe { group_arc(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer = unsafe { memory(buffer.cast(), bytes, "buffer") }?;
            let (open, at, options) = (readable(file)?, position(at, "position")?, options(how)?);
            let work = move |file: &File, group: &dyn Group| {
                Ok(file.read_all_vectored_at(group, &mut [IoSliceMut::new(buffer)], at, &options)?
                    as ssize_t)
            };
            Ok((open.file(), work))
        };
        Ok(start(group, ready()))
    })
}

/// Starts braid_pwrite_all; otherwise as braid_pread_all_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwrite_all_start(
    file: c_int,
    group: *const braid_group,
    buffer: *const c_void,
    bytes: usize,
    at: i64,
    how: c_int,
) -> *mut braid_request {
    call(|| {
        // SAFETY: as above.
        let group = unsafe { group_arc(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer: &'static [u8] = unsafe { array(buffer.cast(), bytes, "buffer") }?;
            let (open, at, options) = (writable(file)?, position(at, "position")?, options(how)?);
            let work = move |file: &File, group: &dyn Group| {
                Ok(file.write_all_vectored_at(group, &[IoSlice::new(buffer)], at, &options)?
                    as ssize_t)
            };
            Ok((open.file(), work))
        };
        Ok(start(group, ready()))
    })
}

/// Starts the call; or, for a task that cannot make it, the refusal: the others have started the
/// call and would wait.
fn start<W>(group: Arc<dyn Group>, ready: Outcome<(Arc<File>, W)>) -> *mut braid_request
where
    W: FnOnce(&File, &dyn Group) -> Outcome<ssize_t> + Send + 'static,
{
    into_raw_request(match ready {
        // The work holds the handle itself. If braid_close comes first, the work closes the file,
        // as for calls that are not collective.
        Ok((file, work)) => PendingOperation::on_own_thread(move || work(&file, &*group)),
        Err(failure) => PendingOperation::on_own_thread(move || {
            refuse(&*group, &failure);
            Err(failure)
        }),
    })
}
