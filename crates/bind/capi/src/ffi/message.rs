//! errno and the error message of the thread.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
};

use super::failure::Failure;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Sets errno and the error message of this thread.
pub(crate) fn set_last_error(failure: &Failure) {
    let text: Vec<u8> = failure.text.bytes().filter(|byte| *byte != 0).collect();
    // A thread that is ending has no message any more, but it still has errno.
    let _ = MESSAGE.try_with(|message| message.replace(CString::new(text).unwrap_or_default()));
    // SAFETY: the address of this thread's errno in the C library, valid as long as the thread
    // runs.
    unsafe { *libc::__errno_location() = failure.errno };
}

/// Why the last failed call of this thread failed: "what failed: why; try: command". Empty when no
/// call has failed yet. The text stays valid until the next failed call of this thread. Successful
/// calls do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn braid_error_message() -> *const c_char {
    const NONE: &CStr = c"";
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(NONE.as_ptr())
}
