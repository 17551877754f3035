//! The counters of this process, which the compiler's coverage put into each function.
#![allow(unsafe_code)] // the runtime's functions are C

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

use anyhow::{Result, ensure};

#[cfg(counted)]
mod runtime {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        pub fn __llvm_profile_reset_counters();
        pub fn __llvm_profile_set_filename(path: *const c_char);
        pub fn __llvm_profile_write_file() -> c_int;
    }
}

/// A build without counters links, and does nothing useful.
#[cfg(not(counted))]
mod runtime {
    use std::ffi::{c_char, c_int};

    pub unsafe fn __llvm_profile_reset_counters() {}
    pub unsafe fn __llvm_profile_set_filename(_: *const c_char) {}
    pub unsafe fn __llvm_profile_write_file() -> c_int {
        -1
    }
}

/// Sets all counters to 0. Other threads may count meanwhile; what they add is not lost by more
/// than one call.
pub fn reset() {
    // SAFETY: the function takes no argument and writes to the runtime's own counters.
    unsafe { runtime::__llvm_profile_reset_counters() }
}

/// Writes all counters to this file.
pub fn write(path: &Path) -> Result<()> {
    write_at_exit(path)?;
    // SAFETY: the function takes no argument; the file's name was set by the line above.
    let code = unsafe { runtime::__llvm_profile_write_file() };
    ensure!(code == 0, "{}: the counters were not written", path.display());
    Ok(())
}

/// The runtime writes once more when the process ends: to this file from now on.
pub fn write_at_exit(path: &Path) -> Result<()> {
    // The runtime keeps the pointer for as long as the process runs.
    let path: &'static CString = Box::leak(Box::new(CString::new(path.as_os_str().as_bytes())?));
    // SAFETY: the pointer is a C string that lives as long as the process.
    unsafe { runtime::__llvm_profile_set_filename(path.as_ptr()) }
    Ok(())
}
