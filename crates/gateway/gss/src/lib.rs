//! Kerberos for `RPCSEC_GSS`: a safe interface to MIT Kerberos' GSS-API library (RFC 2744).
//!
//! ```text
//!   Kerberos::load   libgssapi_krb5.so.2, by dlopen: no program links against it
//!   Acceptor         a server with a keytab: the mechanism of nfs-wire's GssServer
//!   Initiator        a client with a keytab or a ticket cache, for tests and the back channel
//!   read_keytab      the principals of a keytab, for messages
//!   KerberosContext  MICs and encryption of one established context, and the peer's name
//! ```
//!
//! A machine without the library runs everything except Kerberos, and [`GssError::NoLibrary`]
//! names the package to install.
//!
//! Invariants:
//! 1. Every object of the library has one owner, which releases it when dropped.
//! 2. A context is used by one thread at a time: the library does not lock it.
//! 3. The library is never unloaded, so its functions can be called at any time.
#![cfg(target_os = "linux")]

mod acceptor;
mod context;
mod error;
mod ffi;
mod initiator;
mod keytab;
mod library;
mod objects;
mod refusal;

pub use acceptor::{Acceptor, PendingContext};
pub use context::KerberosContext;
pub use error::GssError;
pub use initiator::{InitiateStep, Initiator, PendingInitiation};
pub use keytab::{KeytabEntry, KeytabError, read_keytab};
pub use library::Kerberos;
