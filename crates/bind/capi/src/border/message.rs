//! errno and the message of the thread.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
};

use super::failure::Failure;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Leaves errno and the message of this thread.
pub(crate) fn tell(failure: &Failure) {
    let text: Vec<u8> = failure.text.bytes().filter(|byte| *byte != 0).collect();
    // A thread that is ending has no message any more; errno it has.
    let _ = MESSAGE.try_with(|message| message.replace(CString::new(text).unwrap_or_default()));
    // SAFETY: the C library's place for this thread's errno, an int, there as long as the thread is.
    unsafe { *libc::__errno_location() = failure.errno };
}

/// Why the last call of this thread that failed did so, as a person would want to read it: "what failed: why; try: command".
/// Empty when none has failed yet. The text stays until the next call of this thread that fails. Calls that succeed leave it.
#[unsafe(no_mangle)]
pub extern "C" fn braid_error_message() -> *const c_char {
    const NONE: &CStr = c"";
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(NONE.as_ptr())
}
