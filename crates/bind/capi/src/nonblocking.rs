//! Nonblocking calls: started now and waited for later, while the program computes.
//!
//! Threads of the cluster's client run them.

use std::{
    ffi::{c_int, c_void},
    io::{IoSlice, IoSliceMut},
    ptr,
    sync::Arc,
};

use braid_client::PendingOperation;
use libc::{iovec, ssize_t};

use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::{array, io_slices, io_slices_mut, memory, position, value},
        process, table,
    },
    file::{OpenFile, readable, seek, writable},
    list::{self, braid_piece},
};

/// A nonblocking call that was started.
#[allow(non_camel_case_types)]
pub struct braid_request {
    operation: PendingOperation<Outcome<ssize_t>>,
    /// The process whose threads run it.
    process: u32,
}

/// Memory of the program that a started call uses. It belongs to the library until the request is
/// waited for.
struct BorrowedMemory<T>(T);

// SAFETY: one thread at a time uses the pointers in it: the C caller does not touch the memory
// before braid_wait.
unsafe impl<T> Send for BorrowedMemory<T> {}

/// Starts braid_pread. The memory belongs to the library until braid_wait. Returns a request for
/// braid_test and braid_wait, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pread_start(
    file: c_int,
    buffer: *mut c_void,
    bytes: usize,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (open, at) = (readable(file)?, position(at, "position")?);
        // SAFETY: the promise of C's caller, see `pointers`, until the request is waited for; also
        // below.
        let borrowed = BorrowedMemory(unsafe { memory(buffer.cast(), bytes, "buffer") }?);
        let file = open.file();
        start(&open, move || {
            let BorrowedMemory(buffer) = { borrowed };
            Ok(file.read_vectored_at(&mut [IoSliceMut::new(buffer)], at)? as ssize_t)
        })
    })
}

/// Starts braid_pwrite; otherwise as braid_pread_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwrite_start(
    file: c_int,
    buffer: *const c_void,
    bytes: usize,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (open, at) = (writable(file)?, position(at, "position")?);
        // SAFETY: as above.
        let buffer: &'static [u8] = unsafe { array(buffer.cast(), bytes, "buffer") }?;
        let file = open.file();
        start(&open, move || Ok(file.write_vectored_at(&[IoSlice::new(buffer)], at)? as ssize_t))
    })
}

/// Starts braid_preadv. The program may reuse the array of pieces when this call returns, and their
/// memory after braid_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_preadv_start(
    file: c_int,
    iov: *const iovec,
    count: c_int,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (open, at) = (readable(file)?, position(at, "position")?);
        // SAFETY: as above.
        let mut buffers: Vec<IoSliceMut<'static>> =
            unsafe { io_slices_mut(iov, seek::iov_count(count)?) }?;
        let file = open.file();
        start(&open, move || Ok(file.read_vectored_at(&mut buffers, at)? as ssize_t))
    })
}

/// Starts braid_pwritev; otherwise as braid_preadv_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwritev_start(
    file: c_int,
    iov: *const iovec,
    count: c_int,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (open, at) = (writable(file)?, position(at, "position")?);
        // SAFETY: as above.
        let buffers: Vec<IoSlice<'static>> = unsafe { io_slices(iov, seek::iov_count(count)?) }?;
        let file = open.file();
        start(&open, move || Ok(file.write_vectored_at(&buffers, at)? as ssize_t))
    })
}

/// Starts braid_read_list. The program may reuse the array of pieces when this call returns, and
/// their memory after braid_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_read_list_start(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> *mut braid_request {
    call(|| {
        let open = readable(file)?;
        // SAFETY: as above.
        let borrowed = BorrowedMemory(unsafe { array(pieces, count, "pieces") }?.to_vec());
        let file = Arc::clone(&open);
        start(&open, move || {
            let BorrowedMemory(pieces) = { borrowed };
            // SAFETY: as above.
            unsafe { list::read(&file, &pieces) }
        })
    })
}

/// Starts braid_write_list; otherwise as braid_read_list_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_write_list_start(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> *mut braid_request {
    call(|| {
        let open = writable(file)?;
        // SAFETY: as above.
        let borrowed = BorrowedMemory(unsafe { array(pieces, count, "pieces") }?.to_vec());
        let file = Arc::clone(&open);
        start(&open, move || {
            let BorrowedMemory(pieces) = { borrowed };
            // SAFETY: as above.
            unsafe { list::write(&file, &pieces) }
        })
    })
}

/// Starts braid_fsync, for everything that was written before this call.
#[unsafe(no_mangle)]
pub extern "C" fn braid_fsync_start(file: c_int) -> *mut braid_request {
    call(|| {
        let open = table::file(file)?;
        let file = open.file();
        start(&open, move || {
            file.sync()?;
            Ok(0)
        })
    })
}

/// Returns 1 when a request is done, 0 while it is pending. In both cases it must be waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_test(request: *const braid_request) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller: NULL, or started and not waited for.
        let request = unsafe { value(request, "request") }?;
        check_process(request)?;
        Ok(request.operation.is_done().into())
    })
}

/// Waits for a request and frees it. Returns what the blocking call returns, and sets errno and the
/// message of this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_wait(request: *mut braid_request) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        check_process(unsafe { value(request, "request") }?)?;
        // SAFETY: as above; `hand_out` made it from a box.
        let request = unsafe { Box::from_raw(request) };
        // If the call panicked, `wait` continues the panic here, and `ffi::call` stops it.
        request.operation.wait()
    })
}

fn check_process(request: &braid_request) -> Outcome<()> {
    match request.process == process::fork_generation() {
        true => Ok(()),
        false => Err(Failure::new(
            libc::ECHILD,
            "request: it was started by the parent, before fork(); try: braid_connect in the child",
        )),
    }
}

fn start(
    open: &OpenFile,
    work: impl FnOnce() -> Outcome<ssize_t> + Send + 'static,
) -> Outcome<*mut braid_request> {
    Ok(into_raw_request(open.cluster.client.start(move |_| work())))
}

pub(crate) fn into_raw_request(started: PendingOperation<Outcome<ssize_t>>) -> *mut braid_request {
    ptr::from_mut(Box::leak(Box::new(braid_request {
        operation: started,
        process: process::fork_generation(),
    })))
}
