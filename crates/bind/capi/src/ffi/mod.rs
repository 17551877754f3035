//! The FFI boundary: checks of pointers, errno, panics and processes between C and Rust.

pub(crate) mod failure;
pub mod message;
pub(crate) mod pointers;
pub(crate) mod process;
pub(crate) mod table;

use std::{
    any::Any,
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

pub(crate) use failure::{Failure, Outcome};

/// What a function returns when it fails.
pub(crate) trait FailureValue {
    const FAILED: Self;
}

impl FailureValue for c_int {
    const FAILED: Self = -1;
}

impl FailureValue for isize {
    const FAILED: Self = -1;
}

impl FailureValue for i64 {
    const FAILED: Self = -1;
}

impl<T> FailureValue for *mut T {
    const FAILED: Self = ptr::null_mut();
}

/// Runs the body of an exported function. A failure or a panic sets errno and the thread's message.
pub(crate) fn call<T: FailureValue>(body: impl FnOnce() -> Outcome<T>) -> T {
    // State that a panic may leave half changed is behind locks. The code that takes such a lock
    // handles its poisoning.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => {
            message::set_last_error(&failure);
            T::FAILED
        }
        Err(panic) => {
            message::set_last_error(&Failure::new(
                libc::EIO,
                format!("internal error: {}; try: report it as a bug", panic_message(&*panic)),
            ));
            T::FAILED
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_becomes_eio_and_a_message_and_does_not_cross() {
        let result: c_int = call(|| panic!("the impossible, {}", 7));
        assert_eq!(result, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
        // SAFETY: the function returns a string that ends with a zero byte.
        let text = unsafe { CStr::from_ptr(message::braid_error_message()) };
        assert!(text.to_str().unwrap().contains("the impossible, 7"), "{text:?}");
    }

    #[test]
    fn success_keeps_the_previous_message() {
        let _: c_int = call(|| Err(Failure::new(libc::ENOENT, "first")));
        assert_eq!(call(|| Ok(5)), 5);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(message::braid_error_message()) }.to_bytes(), b"first");
    }
}
