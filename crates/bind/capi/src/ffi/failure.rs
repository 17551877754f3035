//! Why a call failed: an errno and a message.

use std::ffi::c_int;

use braid_layout::LayoutError;

/// The result of the body of a function.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    /// `what failed: why; try: command`.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// A wrong argument: EINVAL.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }
}

impl From<braid_client::Error> for Failure {
    fn from(error: braid_client::Error) -> Self {
        Self::new(error.errno(), error.to_string())
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        braid_client::Error::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let of_library =
            error.get_ref().and_then(|inner| inner.downcast_ref::<braid_client::Error>());
        match of_library {
            Some(inner) => inner.clone().into(),
            None => Self::new(error.raw_os_error().unwrap_or(libc::EIO), error.to_string()),
        }
    }
}
