//! Collective calls: all tasks of a group read or write one file together (1996 paper, 2.3.1).
//!
//! A task with a wrong argument of its own notifies the others: they have started the call and
//! would wait for it.

use std::{
    ffi::{c_char, c_int, c_void},
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_client::{CollectiveMode, CollectiveOptions, Error, Group, Overlap, Status, refuse_all};
use libc::ssize_t;

use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::{array, memory, position, text},
        table,
    },
    file::{readable, writable},
    group::{braid_group, group_ref},
};

/// For `how`: the library chooses, the same for all tasks. The I/O daemons carry the call out where
/// the tasks want short interleaved pieces (shorter than 256 bytes to read, 16 KiB to write; over
/// TLS 4 KiB for both), or where writes overlap. Otherwise each task transfers its own bytes.
pub const BRAID_COLLECTIVE_AUTO: c_int = 0;
/// For `how`: the I/O daemons carry the call out wherever at least two tasks want bytes.
pub const BRAID_COLLECTIVE_SERVER: c_int = 1;
/// For `how`: each task transfers its own bytes.
pub const BRAID_COLLECTIVE_INDEPENDENT: c_int = 2;
/// Added to one of these: a write in which tasks overlap fails with EINVAL. Without it the file
/// gets the bytes of the highest rank.
pub const BRAID_COLLECTIVE_NO_OVERLAP: c_int = 16;

/// How long a task waits for the others when it refuses a call or checks for overlaps.
const REFUSAL_TIME: Duration = Duration::from_secs(60);

/// As braid_pread, by all tasks of the group together, each through its own view of the file. A
/// task without bytes calls it with 0 bytes. how: one of BRAID_COLLECTIVE_*. Returns the number of
/// bytes of this task; when one task fails, -1 in all tasks.
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
        let group = unsafe { group_ref(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer = unsafe { memory(buffer.cast(), bytes, "buffer") }?;
            Ok((readable(file)?, IoSliceMut::new(buffer), position(at, "position")?, options(how)?))
        };
        let (open, buffer, at, options) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().read_all_vectored_at(group, &mut [buffer], at, &options)? as ssize_t)
    })
}

/// As braid_pwrite, by all tasks of the group together; otherwise as braid_pread_all. After a
/// failure any of the bytes may have been written.
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
        let group = unsafe { group_ref(group) }?;
        let ready = || {
            // SAFETY: as above.
            let buffer = unsafe { array(buffer.cast(), bytes, "buffer") }?;
            Ok((writable(file)?, IoSlice::new(buffer), position(at, "position")?, options(how)?))
        };
        let (open, buffer, at, options) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().write_all_vectored_at(group, &[buffer], at, &options)? as ssize_t)
    })
}

/// Whether two tasks of the group see the same byte of the file, in `bytes` bytes from position
/// `at` of their views. All tasks call it. Returns 1 or 0, the same in all tasks, or -1. It
/// transfers no data and asks no daemon; its time grows with the number of pieces of all tasks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_overlap_all(
    file: c_int,
    group: *const braid_group,
    bytes: usize,
    at: i64,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let group = unsafe { group_ref(group) }?;
        let ready = || Ok((table::file(file)?, position(at, "position")?));
        let (open, at) = ready().inspect_err(|failure| refuse(group, failure))?;
        Ok(open.file().overlap_all(group, at, bytes as u64, REFUSAL_TIME)?.into())
    })
}

/// Takes part with a failure in the collective call that the other tasks make, for a task that
/// cannot make it. The call fails in all tasks with this reason. errno is `error` where libbraid
/// itself uses that number, else EINVAL. Returns 0 when the others have received it, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_refuse_all(
    group: *const braid_group,
    error: c_int,
    why: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (group, why) = unsafe { (group_ref(group)?, text(why, "why")?) };
        let mine = refusal(&Failure::new(error, String::from_utf8_lossy(why)));
        refuse_all(group, &mine, REFUSAL_TIME)?;
        Ok(0)
    })
}

/// Notifies the others of why this task does not take part.
pub(crate) fn refuse(group: &dyn Group, failure: &Failure) {
    // This task reports its own failure, whether the others received it or not.
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
        _ => return Err(Failure::invalid(format!("how is {how}, not one of BRAID_COLLECTIVE_*"))),
    };
    let overlap =
        if how & BRAID_COLLECTIVE_NO_OVERLAP != 0 { Overlap::Refuse } else { Overlap::HighestRank };
    Ok(CollectiveOptions { mode, overlap })
}
