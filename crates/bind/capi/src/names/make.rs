//! Creates, removes and renames.

use std::ffi::{c_char, c_int};

use braid_client::RenameMode;
use libc::mode_t;

use crate::ffi::{call, pointers::text, table};

/// As mkdir(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_mkdir(cluster: c_int, path: *const c_char, mode: mode_t) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        table::cluster(cluster)?.client.mkdir(unsafe { text(path, "path") }?, mode & 0o7777)?;
        Ok(0)
    })
}

/// As rmdir(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_rmdir(cluster: c_int, path: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as above.
        table::cluster(cluster)?.client.rmdir(unsafe { text(path, "path") }?)?;
        Ok(0)
    })
}

/// As unlink(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_unlink(cluster: c_int, path: *const c_char) -> c_int {
    call(|| {
        // SAFETY: as above.
        table::cluster(cluster)?.client.unlink(unsafe { text(path, "path") }?)?;
        Ok(0)
    })
}

/// As rename(2): atomic for every client; replaces `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_rename(
    cluster: c_int,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (from, to) = unsafe { (text(from, "from")?, text(to, "to")?) };
        table::cluster(cluster)?.client.rename(from, to, RenameMode::Replace)?;
        Ok(0)
    })
}
