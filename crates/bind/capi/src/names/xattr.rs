//! Extended attributes.

use std::ffi::{c_char, c_int, c_void};

use braid_client::{Client, FileIndex, XattrMode};
use libc::ssize_t;

use crate::ffi::{
    Failure, Outcome, call,
    pointers::{array, memory, text},
    table,
};

/// As getxattr(2): the value of an extended attribute; follows a final symbolic link. `name`
/// includes its prefix, such as `user.`. Returns the length of the value, and stores nothing when
/// `bytes` is 0. ERANGE when the value does not fit, ENODATA when the attribute does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_getxattr(
    cluster: c_int,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    bytes: usize,
) -> ssize_t {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let (path, name) = unsafe { (text(path, "path")?, text(name, "name")?) };
        let client = &table::cluster(cluster)?.client;
        let found = client.xattr(followed(client, path)?, name)?;
        // SAFETY: as above.
        unsafe { store(&found, value.cast(), bytes, "value") }
    })
}

/// As setxattr(2): sets an extended attribute. flags: 0, XATTR_CREATE (EEXIST when it exists) or
/// XATTR_REPLACE (ENODATA when it does not exist).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_setxattr(
    cluster: c_int,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    bytes: usize,
    flags: c_int,
) -> c_int {
    call(|| {
        let mode = match flags {
            0 => XattrMode::Either,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            other => {
                return Err(Failure::invalid(format!(
                    "setxattr: flags is {other}; try: 0, XATTR_CREATE or XATTR_REPLACE"
                )));
            }
        };
        // SAFETY: as above.
        let (path, name, value) = unsafe {
            (text(path, "path")?, text(name, "name")?, array(value.cast::<u8>(), bytes, "value")?)
        };
        let client = &table::cluster(cluster)?.client;
        client.set_xattr(followed(client, path)?, name, value, mode)?;
        Ok(0)
    })
}

/// As listxattr(2): the names of all extended attributes, each ended by a zero byte; follows a
/// final symbolic link. Returns the length of the list, and stores nothing when `bytes` is 0.
/// ERANGE when the list does not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_listxattr(
    cluster: c_int,
    path: *const c_char,
    list: *mut c_char,
    bytes: usize,
) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        let path = unsafe { text(path, "path") }?;
        let client = &table::cluster(cluster)?.client;
        let names = client.xattrs(followed(client, path)?)?;
        let ended: Vec<u8> =
            names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect();
        // SAFETY: as above.
        unsafe { store(&ended, list.cast(), bytes, "list") }
    })
}

/// As removexattr(2): removes an extended attribute. ENODATA when it does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_removexattr(
    cluster: c_int,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (path, name) = unsafe { (text(path, "path")?, text(name, "name")?) };
        let client = &table::cluster(cluster)?.client;
        client.remove_xattr(followed(client, path)?, name)?;
        Ok(0)
    })
}

/// The file at a path. The server's calls act on a symbolic link itself; the kernel calls of these
/// names follow it.
fn followed(client: &Client, path: &[u8]) -> Outcome<FileIndex> {
    Ok(client.stat(path)?.file)
}

/// Stores the bytes and returns their length. With no space, only returns the length.
///
/// # Safety
/// As [`memory`].
unsafe fn store(found: &[u8], to: *mut u8, capacity: usize, name: &str) -> Outcome<ssize_t> {
    if capacity > 0 {
        // SAFETY: the caller's promise.
        let to = unsafe { memory(to, capacity, name) }?;
        let Some(to) = to.get_mut(..found.len()) else {
            let why = format!("xattr: {name} has space for {capacity} bytes of {}", found.len());
            return Err(Failure::new(libc::ERANGE, format!("{why}; try: a larger buffer")));
        };
        to.copy_from_slice(found);
    }
    Ok(found.len() as ssize_t)
}
