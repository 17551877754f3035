//! Types and functions of the library's ABI (RFC 2744; MIT's `gssapi.h` and `gssapi_ext.h`).

use std::ffi::{c_char, c_int, c_void};

use crate::error::GssError;

/// `gss_buffer_desc`. RFC 2744 3.2.
#[repr(C)]
#[derive(Debug)]
pub struct Buffer {
    pub length: usize,
    pub value: *mut c_void,
}

/// `gss_OID_desc`. RFC 2744 3.3.
#[repr(C)]
#[derive(Debug)]
pub struct Oid {
    pub length: u32,
    pub elements: *const c_void,
}

/// `gss_OID_set_desc`. RFC 2744 3.3.
#[repr(C)]
#[derive(Debug)]
pub struct OidSet {
    pub count: usize,
    pub elements: *const Oid,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
#[derive(Debug)]
pub struct KeyValue {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
#[derive(Debug)]
pub struct KeyValueSet {
    pub count: u32,
    pub elements: *const KeyValue,
}

/// `gss_name_t`, `gss_cred_id_t` and `gss_ctx_id_t`: pointers to what only the library knows.
pub type Name = *mut c_void;
/// See [`Name`].
pub type Credential = *mut c_void;
/// See [`Name`].
pub type Context = *mut c_void;

/// `GSS_C_INITIATE`. RFC 2744 5.2.
pub const INITIATE: c_int = 1;
/// `GSS_C_ACCEPT`. RFC 2744 5.2.
pub const ACCEPT: c_int = 2;
/// `GSS_C_MUTUAL_FLAG`. RFC 2744 5.19. RFC 2203 5.2.2: no replay detection or sequencing by the
/// mechanism, since `RPCSEC_GSS` has its own and calls overtake each other.
pub const MUTUAL_FLAG: u32 = 2;
/// `GSS_C_INDEFINITE`, also the longest lifetime. RFC 2744 3.9.
pub const INDEFINITE: u32 = u32::MAX;
/// `GSS_C_GSS_CODE`. RFC 2744 5.11.
pub const GSS_CODE: c_int = 1;
/// `GSS_C_MECH_CODE`. RFC 2744 5.11.
pub const MECHANISM_CODE: c_int = 2;
/// Bits of a major status that are an error; the others are information. RFC 2744 3.9.1.
pub const ERROR_BITS: u32 = 0xffff_0000;
/// `GSS_S_CONTINUE_NEEDED`. RFC 2744 3.9.1.
pub const CONTINUE_NEEDED: u32 = 1;

/// Kerberos 5: 1.2.840.113554.1.2.2. RFC 1964 1.
pub const KERBEROS: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
/// A service, perhaps with its host: 1.2.840.113554.1.2.1.4. RFC 2744 4.5.
pub const HOST_SERVICE: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04");
/// A Kerberos principal: 1.2.840.113554.1.2.2.1. RFC 1964 2.1.1.
pub const PRINCIPAL: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01");

const fn oid(der: &'static [u8]) -> Oid {
    Oid { length: der.len() as u32, elements: der.as_ptr().cast() }
}

macro_rules! functions {
    ($( fn $name:ident($($arg:ident: $ty:ty),* $(,)?); )*) => {
        /// The library's functions. Each returns a major status and writes a minor status.
        #[derive(Debug)]
        pub struct Functions {
            $( pub $name: unsafe extern "C" fn($($arg: $ty),*) -> u32, )*
        }

        impl Functions {
            /// Looks all functions up in the library with this file name.
            pub fn of(library: &libloading::Library, file: &str) -> Result<Self, GssError> {
                Ok(Self { $(
                    // SAFETY: RFC 2744 and MIT's headers declare the function with this type.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map_err(|_| GssError::NoFunction {
                            library: file.to_owned(),
                            function: stringify!($name),
                        })?,
                )* })
            }
        }
    };
}

functions! {
    fn gss_import_name(minor: *mut u32, name: *mut Buffer, kind: *const Oid, out: *mut Name);
    fn gss_release_name(minor: *mut u32, name: *mut Name);
    fn gss_display_name(minor: *mut u32, name: Name, out: *mut Buffer, kind: *mut *const Oid);
    fn gss_localname(minor: *mut u32, name: Name, mechanism: *const Oid, out: *mut Buffer);
    fn gss_release_buffer(minor: *mut u32, buffer: *mut Buffer);
    fn gss_acquire_cred_from(
        minor: *mut u32, name: Name, lifetime: u32, mechanisms: *const OidSet, usage: c_int,
        store: *const KeyValueSet, out: *mut Credential, actual: *mut *mut OidSet,
        lifetime_out: *mut u32,
    );
    fn gss_release_cred(minor: *mut u32, credential: *mut Credential);
    fn gss_accept_sec_context(
        minor: *mut u32, context: *mut Context, credential: Credential, token: *mut Buffer,
        bindings: *mut c_void, source: *mut Name, mechanism: *mut *const Oid, out: *mut Buffer,
        flags: *mut u32, lifetime: *mut u32, delegated: *mut Credential,
    );
    fn gss_init_sec_context(
        minor: *mut u32, credential: Credential, context: *mut Context, target: Name,
        mechanism: *const Oid, flags: u32, lifetime: u32, bindings: *mut c_void,
        token: *mut Buffer, actual: *mut *const Oid, out: *mut Buffer, flags_out: *mut u32,
        lifetime_out: *mut u32,
    );
    fn gss_delete_sec_context(minor: *mut u32, context: *mut Context, out: *mut Buffer);
    fn gss_get_mic(
        minor: *mut u32, context: Context, quality: u32, message: *mut Buffer, out: *mut Buffer,
    );
    fn gss_verify_mic(
        minor: *mut u32, context: Context, message: *mut Buffer, mic: *mut Buffer,
        quality: *mut u32,
    );
    fn gss_wrap(
        minor: *mut u32, context: Context, encrypt: c_int, quality: u32, message: *mut Buffer,
        encrypted: *mut c_int, out: *mut Buffer,
    );
    fn gss_unwrap(
        minor: *mut u32, context: Context, message: *mut Buffer, out: *mut Buffer,
        encrypted: *mut c_int, quality: *mut u32,
    );
    fn gss_display_status(
        minor: *mut u32, status: u32, kind: c_int, mechanism: *const Oid, more: *mut u32,
        out: *mut Buffer,
    );
}
