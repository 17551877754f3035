//! The beginning of a connection: plain, or TLS after a probe.

use std::io;
use std::net::SocketAddr;

use braid_nfs_wire::nfs4::NFS_PROGRAM;
use braid_nfs_wire::rpc::auth::{AUTH_TLS, OpaqueAuth, check_starttls};
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, CallMessage};
use braid_nfs_wire::rpc::record::record_header;
use braid_nfs_wire::xdr::Xdr;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{ALPN, HANDSHAKE_MAX, Tls};
use crate::config::Transport;
use crate::connection::FIRST_REQUEST_MAX;

/// Bytes of a probe after its record mark: six words of the call, and an empty credential and
/// verifier of two words each. RFC 5531 9, RFC 9289 4.1.
const PROBE_BYTES: usize = 40;
/// Bytes of a record mark.
const MARK_BYTES: usize = 4;

/// A connection whose first message is not a probe, or whose handshake is done.
pub(crate) struct Opened {
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
    pub transport: Transport,
}

/// Why a connection did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no request for {FIRST_REQUEST_MAX:?}")]
    Idle,
    #[error("bytes follow the probe before its reply")]
    NotWaited,
    #[error("too many TLS handshakes run")]
    TooMany,
    #[error("the TLS handshake took longer than {HANDSHAKE_MAX:?}")]
    Slow,
    #[error("{0}")]
    Handshake(io::Error),
}

/// Reads the first message, and does the handshake if it is a probe. `begin` returns a
/// guard of the handshake, or `None` if too many run.
pub(crate) async fn open<G>(
    tls: &Tls,
    mut stream: TcpStream,
    begin: impl FnOnce() -> Option<G>,
) -> Result<Opened, OpenError> {
    let first = timeout(FIRST_REQUEST_MAX, first_bytes(&mut stream));
    let first = first.await.map_err(|_| OpenError::Idle)??;
    let Some(header) = probe(&first) else {
        let (read, write) = stream.into_split();
        // The bytes that were read come first.
        let read = AsyncReadExt::chain(io::Cursor::new(first.freeze()), read);
        let (read, write) = (Box::new(read), Box::new(write));
        return Ok(Opened { read, write, transport: Transport::Plain });
    };
    // RFC 9289 4.1: the client sends nothing before it has the reply (invariant 1).
    if first.len() > MARK_BYTES + PROBE_BYTES {
        return Err(OpenError::NotWaited);
    }
    let _guard = begin().ok_or(OpenError::TooMany)?;
    // Changed files are read here.
    let acceptor = TlsAcceptor::from(tls.config());
    let handshake = async {
        let reply = header.accepted(OpaqueAuth::starttls(), AcceptStatus::Success).to_bytes();
        stream.write_all(&[&record_header(reply.len())[..], &reply].concat()).await?;
        acceptor.accept(stream).await.map_err(OpenError::Handshake)
    };
    let stream = timeout(HANDSHAKE_MAX, handshake).await.map_err(|_| OpenError::Slow)??;
    let (_, session) = stream.get_ref();
    // RFC 9289 8.2 names the protocol `sunrpc`. A client that offers others only was refused by
    // the handshake; tlshd of Linux's ktls-utils offers none.
    debug_assert!(session.alpn_protocol().is_none_or(|protocol| protocol == ALPN));
    let transport = match session.peer_certificates() {
        Some(chain) if !chain.is_empty() => Transport::MutualTls,
        _ => Transport::Tls,
    };
    let (read, write) = tokio::io::split(stream);
    Ok(Opened { read: Box::new(read), write: Box::new(write), transport })
}

/// Bytes of the stream: as many as a probe has, or fewer if it cannot be one or has ended.
async fn first_bytes(stream: &mut TcpStream) -> io::Result<BytesMut> {
    // One more byte shows that a client did not wait for the reply.
    let mut bytes = BytesMut::with_capacity(MARK_BYTES + PROBE_BYTES + 1);
    let probe_mark = record_header(PROBE_BYTES);
    while bytes.len() < MARK_BYTES + PROBE_BYTES {
        let so_far = bytes.len().min(MARK_BYTES);
        if bytes[..so_far] != probe_mark[..so_far] {
            break;
        }
        let left = MARK_BYTES + PROBE_BYTES + 1 - bytes.len();
        if (&mut *stream).take(left as u64).read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Ok(bytes)
}

/// The header of a probe. Anything else, also a malformed probe, is left to the RPC layer.
fn probe(bytes: &BytesMut) -> Option<CallHeader> {
    let mut record = Bytes::copy_from_slice(bytes.get(..MARK_BYTES + PROBE_BYTES)?);
    record.advance(MARK_BYTES);
    let call = CallMessage::decode(record).ok()?;
    let header = call.header;
    let is_probe = header.program == NFS_PROGRAM && header.credential.flavor == AUTH_TLS;
    (is_probe && check_starttls(&header).is_ok()).then_some(header)
}

/// Logs that a connection did not begin. Clients that went away, and port scanners, are of interest
/// for debugging only.
pub(crate) fn report(tls: &Tls, peer: SocketAddr, error: &OpenError) {
    let text = match error {
        OpenError::Io(_) | OpenError::Idle | OpenError::NotWaited => {
            tracing::debug!(%peer, %error, "connection ends");
            return;
        }
        OpenError::TooMany | OpenError::Slow => format!("a client was refused: {error}"),
        OpenError::Handshake(error) => {
            format!("a client was refused by TLS: {error}{}", advice(error))
        }
    };
    if tls.is_warning_due() {
        tracing::warn!(%peer, "{text}");
    } else {
        tracing::debug!(%peer, "{text}");
    }
}

fn advice(error: &io::Error) -> &'static str {
    use rustls::{AlertDescription, CertificateError, Error};
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return "";
    };
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; the client's certificate is of no CA in tls-client-ca"
        }
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "; the client needs a new certificate",
        Error::AlertReceived(AlertDescription::UnknownCA) => {
            "; the client does not trust the CA of tls-cert: add that CA to the client"
        }
        Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown,
        ) => {
            "; the client does not accept tls-cert: has it expired, and is it for the name that \
             the client mounts?"
        }
        Error::NoApplicationProtocol => "; this is no client of RPC-over-TLS",
        _ => "",
    }
}
