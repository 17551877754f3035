//! Where C ends and Rust begins: pointers, errno, panics, processes.

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

/// What a function returns when it failed.
pub(crate) trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl Failed for i64 {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = ptr::null_mut();
}

/// Runs the body of an exported function. Who fails, or panics, leaves errno and the thread's message.
pub(crate) fn call<T: Failed>(body: impl FnOnce() -> Outcome<T>) -> T {
    // What a panic leaves half done is behind locks, whose poison is looked at where they are taken.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => {
            message::tell(&failure);
            T::FAILED
        }
        Err(panic) => {
            message::tell(&Failure::new(
                libc::EIO,
                format!("internal error: {}; try: a report of it", said(&*panic)),
            ));
            T::FAILED
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
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
        // SAFETY: the function returns a string that ends.
        let text = unsafe { CStr::from_ptr(message::braid_error_message()) };
        assert!(text.to_str().unwrap().contains("the impossible, 7"), "{text:?}");
    }

    #[test]
    fn success_leaves_the_message_of_before() {
        let _: c_int = call(|| Err(Failure::new(libc::ENOENT, "first")));
        assert_eq!(call(|| Ok(5)), 5);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(message::braid_error_message()) }.to_bytes(), b"first");
    }
}
