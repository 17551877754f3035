//! Closes files.

use std::{
    ffi::c_int,
    sync::{Arc, atomic::Ordering},
};

use crate::ffi::{call, table};

/// Closes a file. The descriptor is closed even when -1 reports that data was lost which was never
/// synced (EIO). The last descriptor of an open file releases its locks.
#[unsafe(no_mangle)]
pub extern "C" fn braid_close(file: c_int) -> c_int {
    call(|| {
        let open = table::take_file(file)?;
        super::lock::release_locks(&open);
        if open.descriptor_count.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(0);
        }
        let seen = open.current_view();
        drop(open);
        match Arc::try_unwrap(seen.file) {
            Ok(file) => file.close()?,
            // A call of another thread still uses it; the last of them closes it. Write errors are
            // reported here.
            Err(shared) => shared.check_loss()?,
        }
        Ok(0)
    })
}
