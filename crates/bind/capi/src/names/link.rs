//! Hard and symbolic links.

use std::ffi::{c_char, c_int};

use libc::ssize_t;

use crate::ffi::{
    call,
    pointers::{memory, text},
    table,
};

/// As link(2): gives the file `from` another name `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_link(
    cluster: c_int,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let (from, to) = unsafe { (text(from, "from")?, text(to, "to")?) };
        table::cluster(cluster)?.client.hard_link(from, to)?;
        Ok(0)
    })
}

/// As symlink(2): makes `path` a symbolic link to `target`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_symlink(
    cluster: c_int,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (target, path) = unsafe { (text(target, "target")?, text(path, "path")?) };
        table::cluster(cluster)?.client.symlink(path, target)?;
        Ok(0)
    })
}

/// As readlink(2): returns the number of bytes of the target that were stored. No zero byte follows
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_readlink(
    cluster: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    bytes: usize,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let (path, buffer) =
            unsafe { (text(path, "path")?, memory(buffer.cast(), bytes, "buffer")?) };
        let target = table::cluster(cluster)?.client.read_link(path)?;
        let fits = target.len().min(buffer.len());
        buffer[..fits].copy_from_slice(&target[..fits]);
        Ok(fits as ssize_t)
    })
}
