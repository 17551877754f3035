//! Forces data to disk.

use std::ffi::c_int;

use crate::ffi::{call, table};

/// As fsync(2). When it returns 0, everything that was written through this open file survives a
/// loss of power: data, size and name. EIO, once, when a daemon lost writes that it had
/// acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn braid_fsync(file: c_int) -> c_int {
    call(|| {
        table::file(file)?.file().sync()?;
        Ok(0)
    })
}

/// As syncfs(2). When it returns 0, everything that was acknowledged before survives a loss of
/// power: what this program and others wrote, on every I/O daemon, also to files that are closed
/// now. EIO, once, when a daemon lost writes of this program that were never synced.
#[unsafe(no_mangle)]
pub extern "C" fn braid_sync(cluster: c_int) -> c_int {
    call(|| {
        table::cluster(cluster)?.client.sync_all()?;
        Ok(0)
    })
}
