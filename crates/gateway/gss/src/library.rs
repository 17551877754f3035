//! Loads the library once for the process.

use std::ptr;
use std::sync::OnceLock;

use braid_nfs_wire::rpc::gss::GssFailure;

use crate::error::GssError;
use crate::ffi::{CONTINUE_NEEDED, ERROR_BITS, Functions, GSS_CODE, KERBEROS, MECHANISM_CODE};
use crate::objects::OwnedBuffer;

/// The version of MIT Kerberos' library that every distribution has since 2007.
const LIBRARY: &str = "libgssapi_krb5.so.2";

/// Most lines of a status' text; the library has one or two.
const STATUS_LINES_MAX: usize = 8;

/// The loaded library.
#[derive(Debug, Clone, Copy)]
pub struct Kerberos {
    functions: &'static Functions,
}

impl Kerberos {
    /// The library, loaded by the first call of the process.
    ///
    /// # Errors
    /// [`GssError::NoLibrary`] and [`GssError::NoFunction`].
    pub fn load() -> Result<Self, GssError> {
        static LOADED: OnceLock<Result<Kerberos, GssError>> = OnceLock::new();
        LOADED.get_or_init(|| Self::load_file(LIBRARY)).clone()
    }

    /// Loads a library, which is never unloaded.
    fn load_file(file: &str) -> Result<Self, GssError> {
        // SAFETY: the library's initialisation has no precondition.
        let library = unsafe { libloading::Library::new(file) }.map_err(|error| {
            GssError::NoLibrary { library: file.to_owned(), reason: error.to_string() }
        })?;
        let functions = Functions::of(&library, file)?;
        // Invariant 3: the functions outlive every caller.
        std::mem::forget(library);
        Ok(Self { functions: Box::leak(Box::new(functions)) })
    }

    pub(crate) fn functions(self) -> &'static Functions {
        self.functions
    }

    /// The result of a function: whether another token is needed, or its failure.
    pub(crate) fn check(
        self,
        function: &'static str,
        major: u32,
        minor: u32,
    ) -> Result<bool, GssError> {
        if major & ERROR_BITS == 0 {
            return Ok(major & CONTINUE_NEEDED != 0);
        }
        let text = self.status_text(major, minor);
        Err(GssError::Failed { function, failure: GssFailure { major, minor }, text })
    }

    /// The library's text for a failure.
    fn status_text(self, major: u32, minor: u32) -> String {
        let mut lines = Vec::new();
        for (status, kind) in [(major, GSS_CODE), (minor, MECHANISM_CODE)] {
            let mut more = 0;
            for _ in 0..STATUS_LINES_MAX {
                let mut text = OwnedBuffer::new(self);
                let mut minor = 0;
                // SAFETY: all pointers are valid for the call; `text` owns what is returned.
                let result = unsafe {
                    (self.functions.gss_display_status)(
                        &mut minor,
                        status,
                        kind,
                        &KERBEROS,
                        &mut more,
                        text.as_mut_ptr(),
                    )
                };
                if result & ERROR_BITS != 0 {
                    break;
                }
                lines.push(String::from_utf8_lossy(text.bytes()).into_owned());
                if more == 0 {
                    break;
                }
            }
        }
        lines.join(": ")
    }
}

/// No object: `GSS_C_NO_NAME`, `GSS_C_NO_CREDENTIAL`, `GSS_C_NO_CONTEXT` and so on.
pub(crate) const fn none<T>() -> *mut T {
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_an_error_that_names_its_package() {
        let error = Kerberos::load_file("libgssapi_missing.so.2").unwrap_err();
        let text = error.to_string();
        let expected = "Kerberos is not available: libgssapi_missing.so.2 was not found; \
            try: apt install libgssapi-krb5-2";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn library_without_the_functions_is_an_error_that_names_one() {
        let error = Kerberos::load_file("libc.so.6").unwrap_err();
        let expected =
            GssError::NoFunction { library: "libc.so.6".to_owned(), function: "gss_import_name" };
        assert_eq!(error, expected);
    }
}
