//! Asks a gateway whether it is there: a connection and a NEGOTIATE, as a client begins.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use braid_smb_wire::frame::{LENGTH_BYTES, decode_length, encode_length};
use braid_smb_wire::smb2::negotiate::{NegotiateRequest, NegotiateResponse, SecurityMode};
use braid_smb_wire::smb2::{Body, Command, Dialect, Header};
use braid_smb_wire::{Malformed, NtStatus, Reader};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a probe may take: a lost packet is sent again after 1 s.
const PROBE_MAX: Duration = Duration::from_secs(3);
/// Most bytes of an answer. Ours has about 300.
const ANSWER_BYTES_MAX: usize = 16 << 10;
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why a gateway counts as not there.
#[derive(Debug, Error)]
pub enum ProbeError {
    #[error("its name: {0}")]
    Name(io::Error),
    #[error("its name has no address")]
    NoAddress,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer in {PROBE_MAX:?}")]
    Late,
    #[error("it is no SMB server: {0}")]
    Malformed(#[from] Malformed),
    #[error("it refuses to negotiate: {0}")]
    Refused(NtStatus),
}

/// Probes of one gateway.
pub struct Probe {
    name: String,
    port: u16,
    /// Of this gateway.
    guid: [u8; 16],
    /// The addresses of the name; none before it was looked up, and after a failure.
    addresses: Vec<SocketAddr>,
}

impl Probe {
    /// Probes of the gateway with this name, by the server with this number.
    pub fn new(name: &str, port: u16, guid: [u8; 16]) -> Self {
        Self { name: name.to_owned(), port, guid, addresses: Vec::new() }
    }

    /// The number of the server that answers (ServerGuid, MS-SMB2 2.2.4).
    ///
    /// # Errors
    /// It does not answer as an SMB server does. The next probe looks its name up again.
    pub async fn run(&mut self) -> Result<[u8; 16], ProbeError> {
        if self.addresses.is_empty() {
            // Without a limit of time: it runs on a thread, and a second one must not begin before
            // it ends. The system's resolver has a limit of its own.
            let found = tokio::net::lookup_host((self.name.as_str(), self.port)).await;
            self.addresses = found.map_err(ProbeError::Name)?.take(ADDRESSES_MAX).collect();
        }
        let asked = timeout(PROBE_MAX, self.ask()).await.unwrap_or(Err(ProbeError::Late));
        if asked.is_err() {
            self.addresses.clear();
        }
        asked
    }

    async fn ask(&self) -> Result<[u8; 16], ProbeError> {
        if self.addresses.is_empty() {
            return Err(ProbeError::NoAddress);
        }
        let mut stream = TcpStream::connect(&self.addresses[..]).await?;
        let request = NegotiateRequest {
            // 3.1.1 would need contexts.
            dialects: [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302]
                .map(Dialect::number)
                .to_vec(),
            security_mode: SecurityMode::SIGNING_ENABLED,
            client_guid: self.guid,
            ..NegotiateRequest::default()
        };
        let header = Header { credits: 1, ..Header::request(Command::Negotiate, 0) };
        let message = [&header.to_bytes()[..], &request.to_bytes()].concat();
        stream.write_all(&[&encode_length(message.len()), &message[..]].concat()).await?;
        let mut prefix = [0; LENGTH_BYTES];
        stream.read_exact(&mut prefix).await?;
        let mut answer = vec![0; decode_length(prefix, ANSWER_BYTES_MAX)?];
        stream.read_exact(&mut answer).await?;
        let mut reader = Reader::new(answer.into());
        let header = Header::decode(&mut reader)?;
        if header.status != NtStatus::SUCCESS {
            return Err(ProbeError::Refused(header.status));
        }
        Ok(NegotiateResponse::decode(&mut reader)?.server_guid)
    }
}
