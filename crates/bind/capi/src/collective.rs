//! Collective calls: all tasks of a group read or write one file together (1996 paper, 2.3.1).
//!
//! A task whose own arguments are refused here tells the others, who have begun the call and would wait for it.

use std::{
    ffi::{c_char, c_int, c_void},
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_client::{CollectiveMode, CollectiveOptions, Error, Group, Overlap, Status, refuse_all};
use libc::ssize_t;

use crate::{
    border::{
        Failure, Outcome, call,
        pointers::{array, memory, position, text},
        table,
    },
    file::{readable, writable},
    group::{braid_group, of},
};

/// How a collective call goes about it: the I/O daemons do it where the tasks want interleaved short pieces (shorter than 256 bytes to
/// read, 16 KiB to write; over TLS 4 KiB for both), or write what overlaps; else each task by itself. The same for all tasks.
pub const BRAID_COLLECTIVE_AUTO: c_int = 0;
/// The I/O daemons, wherever two tasks or more want bytes.
pub const BRAID_COLLECTIVE_SERVER: c_int = 1;
/// Each task by itself.
pub const BRAID_COLLECTIVE_INDEPENDENT: c_int = 2;
/// Added to one of these: a write in which tasks overlap is EINVAL. Without it the bytes of the highest rank are in the file after it.
pub const BRAID_COLLECTIVE_NO_OVERLAP: c_int = 16;

/// How long a task that refuses, or asks, waits for the others.
const REFUSAL_TIME: Duration = Duration::from_secs(60);

/// As braid_pread, all tasks of the group together, each through its own view of the file; a task without bytes calls it with 0 bytes.
/// how: one of BRAID_COLLECTIVE_*. Returns this task's bytes; or -1 in all tasks, when one fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pread_all(
    file: c_int,
    group: *const braid_group,
    buffer: *mut c_void,
    bytes: usize,
    at: i64,
    how: c_int,
) -> ssize_t {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`.
        let group = unsafe { of(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer = unsafe { memory(buffer.cast(), bytes, "buffer") }?;
            Ok((readable(file)?, IoSliceMut::new(buffer), position(at, "position")?, options(how)?))
        };
        let (open, buffer, at, options) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().read_all_vectored_at(group, &mut [buffer], at, &options)? as ssize_t)
    })
}

/// As braid_pwrite, all tasks of the group together; otherwise as braid_pread_all. After a failure any of the bytes may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwrite_all(
    file: c_int,
    group: *const braid_group,
    buffer: *const c_void,
    bytes: usize,
    at: i64,
    how: c_int,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let group = unsafe { of(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer = unsafe { array(buffer.cast(), bytes, "buffer") }?;
            Ok((writable(file)?, IoSlice::new(buffer), position(at, "position")?, options(how)?))
        };
        let (open, buffer, at, options) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().write_all_vectored_at(group, &[buffer], at, &options)? as ssize_t)
    })
}

/// Whether two tasks of the group see the same byte of the file in bytes bytes from a position of their views: 1 or 0, the same in all tasks,
/// which all call it; or -1. Moves nothing, asks no daemon, and takes time for the pieces of all tasks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_overlap_all(
    file: c_int,
    group: *const braid_group,
    bytes: usize,
    at: i64,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let group = unsafe { of(group) }?;
        let ready = || Ok((table::file(file)?, position(at, "position")?));
        let (open, at) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().overlap_all(group, at, bytes as u64, REFUSAL_TIME)?.into())
    })
}

/// Takes part in the collective call that the other tasks make, with a failure: for a task that cannot make it. It fails in all tasks
/// with this reason, and with this errno where it is one of libbraid's own, else EINVAL. 0 when they have heard of it, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_refuse_all(
    group: *const braid_group,
    error: c_int,
    why: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (group, why) = unsafe { (of(group)?, text(why, "why")?) };
        let mine = refusal(&Failure::new(error, String::from_utf8_lossy(why)));
        refuse_all(group, &mine, REFUSAL_TIME)?;
        Ok(0)
    })
}

/// Tells the others why this task does not take part.
pub(crate) fn refuse(group: &dyn Group, failure: &Failure) {
    // Whether they heard it or not, what this task says is its own failure.
    let _ = refuse_all(group, &refusal(failure), REFUSAL_TIME);
}

fn refusal(failure: &Failure) -> Error {
    let of_errno =
        Status::ALL.iter().find(|status| status.errno() == failure.errno && failure.errno != 0);
    Error::new(of_errno.copied().unwrap_or(Status::Invalid), failure.text.as_str())
}

pub(crate) fn options(how: c_int) -> Outcome<CollectiveOptions> {
    let mode = match how & !BRAID_COLLECTIVE_NO_OVERLAP {
        BRAID_COLLECTIVE_AUTO => CollectiveMode::Auto,
        BRAID_COLLECTIVE_SERVER => CollectiveMode::Server,
        BRAID_COLLECTIVE_INDEPENDENT => CollectiveMode::Independent,
        _ => return Err(Failure::invalid(format!("how: {how} is none of BRAID_COLLECTIVE_*"))),
    };
    let overlap =
        if how & BRAID_COLLECTIVE_NO_OVERLAP != 0 { Overlap::Refuse } else { Overlap::HighestRank };
    Ok(CollectiveOptions { mode, overlap })
}
