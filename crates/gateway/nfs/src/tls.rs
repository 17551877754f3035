//! RPC-over-TLS (RFC 9289): TLS 1.3 after a probe of the client, with a certificate from files.
//!
//! ```text
//!   client                                     server
//!   NULL call, flavour AUTH_TLS      ------->
//!                                    <-------  reply, verifier "STARTTLS"
//!   ClientHello                      ------->
//!                                    <------>  handshake, with a client certificate if there is
//!   RPC calls in TLS records         <------>
//! ```
//!
//! Invariants:
//! 1. The probe is the first message of a connection. So no call runs while a connection changes
//!    from plain to TLS, and nothing that was received in plain is taken for something of TLS.
//! 2. A handshake takes at most [`HANDSHAKE_MAX`], and at most [`HANDSHAKES_MAX`] run at the same
//!    time, [`HANDSHAKES_PER_ADDRESS_MAX`] of one address. Each runs in the task of its connection:
//!    a slow one delays no other.
//! 3. A certificate that was replaced by a broken one stays in use.

mod files;
mod open;
mod validity;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use files::{TlsError, TlsFiles};
pub(crate) use open::{Opened, open, report};
use rustls::ServerConfig;

use files::Certificates;

/// How long a client may take for the whole handshake. A slow link needs some round trips.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Most handshakes at the same time: each has some 40 KiB.
pub const HANDSHAKES_MAX: usize = 512;
/// Most handshakes of one address at the same time. All clients of a host that boots come within
/// seconds; a host has at most 16 connections for each mount.
pub const HANDSHAKES_PER_ADDRESS_MAX: usize = 64;
/// Least time between two warnings of refused clients: anybody can be refused at any rate,
/// and must not fill the log. The others are logged for debugging.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
/// The protocol's name in ALPN. RFC 9289 8.2.
pub(crate) const ALPN: &[u8] = b"sunrpc";

/// TLS of a server: its certificate, and the authorities of its clients.
#[derive(Debug)]
pub struct Tls {
    certificates: Certificates,
    warned: Mutex<Option<Instant>>,
}

impl Tls {
    /// Reads the files. They are read again when they have changed.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn new(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { certificates: Certificates::load(files)?, warned: Mutex::default() })
    }

    /// Whether clients with a certificate are recognised.
    pub fn has_client_authorities(&self) -> bool {
        self.certificates.files().client_authorities.is_some()
    }

    /// Whether a refused client is worth a warning now.
    fn is_warning_due(&self) -> bool {
        let mut last = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if due {
            *last = Some(Instant::now());
        }
        due
    }

    /// The configuration of the next handshake. It may read files.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.certificates.current(Instant::now())
    }
}
