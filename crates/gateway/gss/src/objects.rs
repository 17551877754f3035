//! Owners of the library's objects: each is released when dropped (invariant 1).

use std::ffi::{CString, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::slice;

use crate::error::GssError;
use crate::ffi::{self, INDEFINITE, KERBEROS, KeyValue, KeyValueSet, Oid, OidSet};
use crate::library::{Kerberos, none};

/// A buffer that the library allocates.
#[derive(Debug)]
pub struct OwnedBuffer {
    library: Kerberos,
    raw: ffi::Buffer,
}

impl OwnedBuffer {
    /// An empty buffer for a function's output.
    pub fn new(library: Kerberos) -> Self {
        Self { library, raw: ffi::Buffer { length: 0, value: none() } }
    }

    pub fn as_mut_ptr(&mut self) -> *mut ffi::Buffer {
        &mut self.raw
    }

    pub fn bytes(&self) -> &[u8] {
        if self.raw.value.is_null() || self.raw.length == 0 {
            return &[];
        }
        // SAFETY: the library wrote the length and address of memory that this buffer owns.
        unsafe { slice::from_raw_parts(self.raw.value.cast(), self.raw.length) }
    }
}

impl Drop for OwnedBuffer {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty or the library's, and is used by nobody else.
        unsafe { (self.library.functions().gss_release_buffer)(&mut minor, &mut self.raw) };
    }
}

/// A buffer of a function's input. Valid as long as `bytes`; the library does not write to it.
pub fn input(bytes: &[u8]) -> ffi::Buffer {
    ffi::Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
}

/// A principal's or service's name.
#[derive(Debug)]
pub struct Name {
    library: Kerberos,
    pub raw: ffi::Name,
}

// SAFETY: the library does not change a name after its creation, and its memory is of no thread.
unsafe impl Send for Name {}
// SAFETY: as above.
unsafe impl Sync for Name {}

impl Name {
    /// No name yet, for a function's output.
    pub fn empty(library: Kerberos) -> Self {
        Self { library, raw: none() }
    }

    /// The name that a text of this kind stands for.
    pub fn import(library: Kerberos, text: &str, kind: &'static Oid) -> Result<Self, GssError> {
        let mut name = Self::empty(library);
        let (mut minor, mut text) = (0, input(text.as_bytes()));
        // SAFETY: all pointers are valid for the call; `name` owns what is returned.
        let major = unsafe {
            (library.functions().gss_import_name)(&mut minor, &mut text, kind, &mut name.raw)
        };
        library.check("gss_import_name", major, minor)?;
        Ok(name)
    }

    /// The name as text, such as `alice@EXAMPLE.ORG`.
    pub fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut out) = (0, OwnedBuffer::new(self.library));
        // SAFETY: the name is valid; `out` owns what is returned; the kind is not asked for.
        let major = unsafe {
            (self.library.functions().gss_display_name)(
                &mut minor,
                self.raw,
                out.as_mut_ptr(),
                none(),
            )
        };
        self.library.check("gss_display_name", major, minor)?;
        String::from_utf8(out.bytes().to_vec()).map_err(|_| GssError::NameNotUtf8)
    }

    /// The local user, by `auth_to_local` of `krb5.conf`. `None` when there is none.
    pub fn local_user(&self) -> Option<String> {
        let (mut minor, mut out) = (0, OwnedBuffer::new(self.library));
        // SAFETY: as in `text`.
        let major = unsafe {
            (self.library.functions().gss_localname)(
                &mut minor,
                self.raw,
                &KERBEROS,
                out.as_mut_ptr(),
            )
        };
        self.library.check("gss_localname", major, minor).ok()?;
        // Some versions count the terminating zero byte.
        let bytes = out.bytes();
        String::from_utf8(bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec()).ok()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        if !self.raw.is_null() {
            // SAFETY: the name is the library's and is used by nobody else.
            unsafe { (self.library.functions().gss_release_name)(&mut minor, &mut self.raw) };
        }
    }
}

/// Keys or tickets.
#[derive(Debug)]
pub struct Credential {
    library: Kerberos,
    pub raw: ffi::Credential,
}

// SAFETY: the library locks a credential in each function that uses it, and its memory is of no
// thread.
unsafe impl Send for Credential {}
// SAFETY: as above.
unsafe impl Sync for Credential {}

impl Credential {
    /// A credential of Kerberos from a store (`keytab`, `client_keytab`, `ccache`).
    pub fn acquire(
        library: Kerberos,
        name: Option<&Name>,
        usage: c_int,
        store: &[(&str, &OsStr)],
    ) -> Result<Self, GssError> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| GssError::ZeroByte);
        let texts = store
            .iter()
            .map(|(key, value)| Ok((text(key.as_bytes())?, text(value.as_bytes())?)))
            .collect::<Result<Vec<_>, _>>()?;
        let elements: Vec<_> = texts
            .iter()
            .map(|(key, value)| KeyValue { key: key.as_ptr(), value: value.as_ptr() })
            .collect();
        let store = KeyValueSet { count: elements.len() as u32, elements: elements.as_ptr() };
        let mechanisms = OidSet { count: 1, elements: &KERBEROS };
        let mut credential = Self { library, raw: none() };
        let mut minor = 0;
        // SAFETY: all pointers are valid for the call, `elements` and `texts` included; the
        // library copies what it needs. `credential` owns what is returned.
        let major = unsafe {
            (library.functions().gss_acquire_cred_from)(
                &mut minor,
                name.map_or(none(), |name| name.raw),
                INDEFINITE,
                &mechanisms,
                usage,
                &store,
                &mut credential.raw,
                none(),
                none(),
            )
        };
        library.check("gss_acquire_cred_from", major, minor)?;
        Ok(credential)
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        let mut minor = 0;
        if !self.raw.is_null() {
            // SAFETY: the credential is the library's and is used by nobody else.
            unsafe { (self.library.functions().gss_release_cred)(&mut minor, &mut self.raw) };
        }
    }
}

/// A context, established or not.
#[derive(Debug)]
pub struct Context {
    pub library: Kerberos,
    pub raw: ffi::Context,
}

// SAFETY: a context's memory is of no thread. It is not `Sync` (invariant 2).
unsafe impl Send for Context {}

impl Context {
    /// No context yet: the first step of its creation makes it.
    pub fn empty(library: Kerberos) -> Self {
        Self { library, raw: none() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        if !self.raw.is_null() {
            // SAFETY: the context is the library's and is used by nobody else.
            unsafe {
                (self.library.functions().gss_delete_sec_context)(
                    &mut minor,
                    &mut self.raw,
                    none(),
                );
            }
        }
    }
}
