//! Opens and creates files.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
};

use braid_client::{LayoutHint, OpenOptions};
use libc::mode_t;

use super::{AccessModes, OpenFile};
use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::text,
        process,
        table::{self, DescriptorTarget},
    },
    layout::{braid_layout, layout_hint},
};

/// Flags without effect here: exec never inherits a libbraid descriptor, it is no terminal, and an
/// open never waits for a writer.
const IGNORED: c_int = libc::O_CLOEXEC
    | libc::O_NOCTTY
    | libc::O_NONBLOCK
    | libc::O_LARGEFILE
    | libc::O_NOATIME
    | libc::O_DIRECT;

/// As open(2): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC. path: from the root of
/// the file system. mode: permission bits of a new file, before the umask. O_APPEND, O_SYNC,
/// O_DSYNC, O_PATH and O_TMPFILE fail with EOPNOTSUPP.
///
/// Returns a descriptor of libbraid (not of the kernel), or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_open(
    cluster: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the promise of C's caller, see `pointers`.
    call(|| open(cluster, unsafe { text(path, "path") }?, flags, mode, LayoutHint::none()))
}

/// As creat(2): creates a file, or truncates an existing one to 0 bytes, and opens it for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_creat(cluster: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    // SAFETY: as above.
    call(|| open(cluster, unsafe { text(path, "path") }?, flags, mode, LayoutHint::none()))
}

/// As braid_open; a new file gets the given layout. NULL: as the directory says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_open_layout(
    cluster: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    layout: *const braid_layout,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (path, wish) = unsafe { (text(path, "path")?, layout_hint(layout)?) };
        open(cluster, path, flags, mode, wish)
    })
}

fn open(
    cluster: c_int,
    path: &[u8],
    flags: c_int,
    mode: mode_t,
    wish: LayoutHint,
) -> Outcome<c_int> {
    let cluster = table::cluster(cluster)?;
    let modes = check(flags)?;
    cluster.client.check_iod_count(&wish)?;
    let has = |flag| flags & flag != 0;
    let (create, exclusive) = (has(libc::O_CREAT), has(libc::O_CREAT) && has(libc::O_EXCL));
    let options =
        OpenOptions::new().read(modes.read).write(modes.write).truncate(has(libc::O_TRUNC));
    let options = options.create(create).create_new(exclusive).mode(mode & 0o7777).layout(wish);
    let file = cluster.client.open(path, &options)?;
    process::table().add(DescriptorTarget::File(Arc::new(OpenFile::new(
        Arc::clone(&cluster),
        modes,
        file,
    )?)))
}

fn check(flags: c_int) -> Outcome<AccessModes> {
    let known = libc::O_ACCMODE
        | libc::O_CREAT
        | libc::O_EXCL
        | libc::O_TRUNC
        | libc::O_NOFOLLOW
        | libc::O_DIRECTORY;
    let refused =
        flags & !(known | IGNORED) != 0 || flags & (libc::O_NOFOLLOW | libc::O_DIRECTORY) != 0;
    if refused {
        let why = "open: O_APPEND, O_SYNC, O_PATH, O_TMPFILE, O_DIRECTORY and O_NOFOLLOW are \
                   not supported";
        return Err(Failure::new(
            libc::EOPNOTSUPP,
            format!("{why}; try: braid_lseek, braid_fsync or braid_opendir"),
        ));
    }
    let modes = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => AccessModes { read: true, write: false },
        libc::O_WRONLY => AccessModes { read: false, write: true },
        libc::O_RDWR => AccessModes { read: true, write: true },
        _ => return Err(Failure::invalid("open: neither O_RDONLY, O_WRONLY nor O_RDWR")),
    };
    if flags & libc::O_TRUNC != 0 && !modes.write {
        return Err(Failure::invalid("open: O_TRUNC needs writing; try: O_WRONLY or O_RDWR"));
    }
    Ok(modes)
}
