//! Changes attributes.

use std::ffi::{c_char, c_int};

use braid_client::{SetTime, Timestamp};
use libc::{gid_t, mode_t, timespec, uid_t};

use crate::ffi::{
    Failure, Outcome, call,
    pointers::{array, position, text},
    table,
};

/// As truncate(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_truncate(cluster: c_int, path: *const c_char, bytes: i64) -> c_int {
    call(|| {
        table::cluster(cluster)?
            .client
            // SAFETY: the promise of C's caller, see `pointers`; also below.
            .truncate(unsafe { text(path, "path") }?, position(bytes, "bytes")?)?;
        Ok(0)
    })
}

/// As chmod(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_chmod(cluster: c_int, path: *const c_char, mode: mode_t) -> c_int {
    call(|| {
        // SAFETY: as above.
        table::cluster(cluster)?.client.chmod(unsafe { text(path, "path") }?, mode & 0o7777)?;
        Ok(0)
    })
}

/// As chown(2): (uid_t)-1 or (gid_t)-1 leaves that one unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_chown(
    cluster: c_int,
    path: *const c_char,
    owner: uid_t,
    group: gid_t,
) -> c_int {
    call(|| {
        let id = |id: u32| (id != u32::MAX).then_some(u64::from(id));
        table::cluster(cluster)?.client.chown(
            // SAFETY: as above.
            unsafe { text(path, "path") }?,
            id(owner),
            id(group),
            true,
        )?;
        Ok(0)
    })
}

/// As utimensat(2): times[0] is the last read, times[1] the last write; UTIME_NOW and UTIME_OMIT
/// work. NULL sets both to the current time. The server's clock gives the current time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_utimens(
    cluster: c_int,
    path: *const c_char,
    times: *const timespec,
) -> c_int {
    call(|| {
        let now = Some(SetTime { time: None });
        let (atime, mtime) = match times.is_null() {
            true => (now.clone(), now),
            false => {
                // SAFETY: as above, two of them.
                let times = unsafe { array(times, 2, "times") }?;
                (set_time(&times[0])?, set_time(&times[1])?)
            }
        };
        table::cluster(cluster)?.client.set_times(
            // SAFETY: as above.
            unsafe { text(path, "path") }?,
            atime,
            mtime,
            true,
        )?;
        Ok(0)
    })
}

fn set_time(time: &timespec) -> Outcome<Option<SetTime>> {
    match time.tv_nsec {
        libc::UTIME_OMIT => Ok(None),
        libc::UTIME_NOW => Ok(Some(SetTime { time: None })),
        nanos @ 0..1_000_000_000 => Ok(Some(SetTime {
            time: Some(Timestamp { seconds: time.tv_sec, nanos: nanos as u32 }),
        })),
        other => Err(Failure::invalid(format!("times: {other} nanoseconds"))),
    }
}
