//! TLS 1.3 for native connections. It hides and binds; who the peer is, the handshake's proof of keys says.
//!
//! A server shows a raw public key (RFC 7250) that it made when it started; the client accepts any. That is safe
//! because both sides put the channel's exporter (RFC 9266) into what they prove: a man in the middle has two
//! channels with two exporters, and cannot make either side's proof for the other's.
//!
//! Invariants: (1) TLS 1.3 and nothing older; (2) no tickets, no resumption, no early data: every channel has an
//! exporter of its own; (3) the lock of the TLS state is never held while the thread waits for the socket, so
//! that sending and receiving do not wait for each other.

use std::{
    io::{self, BufRead, ErrorKind, IoSlice, IoSliceMut, Read, Write},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use braid_wire::CHANNEL_BINDING_BYTES;
use ring::{rand::SystemRandom, signature::Ed25519KeyPair};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    ServerConnection, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage},
    sign::CertifiedKey,
    version::TLS13,
};

/// Ciphertext that one recv takes: four records.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Ciphertext that is made before it is sent.
const SEND_BYTES: usize = 256 * 1024;
/// RFC 9266 section 2.
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// AES-128 first: as good as unbreakable, and a quarter cheaper than the 256 bits that are the library's first choice.
fn crypto() -> CryptoProvider {
    use provider::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256};
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, ..provider::default_provider() }
}

/// A server's side of TLS, with a fresh key.
pub(crate) fn server_config() -> Result<Arc<ServerConfig>, Error> {
    let unspecified = |_| Error::FailedToGetRandomBytes;
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(unspecified)?;
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key.as_ref().to_vec()))?;
    let public = key.public_key().ok_or(Error::General("a key without its public half".into()))?;
    let shown = CertificateDer::from(public.as_ref().to_vec());
    let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(CertifiedKey::new(vec![shown], key)));
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// A client's side of TLS; the same for every connection.
pub(crate) fn client_config() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let provider = crypto();
    let verifier = AnyKey { algorithms: provider.signature_verification_algorithms };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::clone(CONFIG.get_or_init(|| Arc::new(config))))
}

/// The server's end of a new channel.
pub(crate) fn accept(config: &Arc<ServerConfig>) -> io::Result<Connection> {
    ServerConnection::new(Arc::clone(config)).map(Connection::Server).map_err(io::Error::other)
}

/// The client's end of a new channel.
pub(crate) fn initiate() -> io::Result<Connection> {
    // The name is neither sent nor checked.
    let name = ServerName::try_from("braid").map_err(io::Error::other)?;
    let connection = client_config().and_then(|config| ClientConnection::new(config, name));
    connection.map(Connection::Client).map_err(io::Error::other)
}

/// What binds a proof to this channel.
pub(crate) fn channel_binding(connection: &Connection) -> io::Result<[u8; CHANNEL_BINDING_BYTES]> {
    let exported = connection.export_keying_material([0; CHANNEL_BINDING_BYTES], BINDING_LABEL, None);
    exported.map_err(io::Error::other)
}

/// Accepts every raw public key whose owner signs the channel; see the module for why.
#[derive(Debug)]
struct AnyKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        None
    }
}

/// A channel between a socket that is given to each call and plaintext.
#[derive(Debug)]
pub(crate) struct Channel {
    connection: Mutex<Connection>,
    /// The receiver's alone.
    received: Mutex<Ciphertext>,
}

#[derive(Debug)]
struct Ciphertext {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub(crate) fn new(connection: Connection) -> Self {
        let received = Ciphertext { bytes: vec![0; RECEIVE_BYTES], start: 0, end: 0 };
        let mut connection = connection;
        connection.set_buffer_limit(Some(SEND_BYTES));
        Self { connection: Mutex::new(connection), received: Mutex::new(received) }
    }

    /// The TLS state by itself.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the channel up. `recv` waits for bytes; `send` sends all.
    pub(crate) fn shake_hands(
        &self,
        mut recv: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut send: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<[u8; CHANNEL_BINDING_BYTES]> {
        let (mut connection, mut received) = (lock(&self.connection), lock(&self.received));
        loop {
            while connection.wants_write() {
                let mut out = Vec::new();
                connection.write_tls(&mut out)?;
                send(&out)?;
            }
            if !connection.is_handshaking() {
                return channel_binding(&connection);
            }
            if received.is_empty() {
                received.refill(&mut recv)?;
            }
            received.feed(&mut connection)?;
        }
    }

    /// Decrypts into `pieces`; 0 at the end of the channel. `recv` is asked for ciphertext only when there is
    /// nothing to give without it.
    pub(crate) fn recv(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        mut recv: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut received = lock(&self.received);
        loop {
            match received.decrypt(&mut lock(&self.connection), pieces) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            match received.refill(&mut recv) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                filled => filled?,
            }
        }
    }

    /// Whether there may be plaintext to give without asking the socket.
    pub(crate) fn has_received(&self) -> bool {
        // an incomplete record is kept inside rustls and does not count
        !lock(&self.received).is_empty() || matches!(lock(&self.connection).reader().fill_buf(), Ok([_, ..]))
    }

    /// Encrypts a beginning of `pieces` and sends what `send`, which does not wait, takes; how many bytes
    /// of plaintext were taken. What `send` did not take is sent first by the next call.
    pub(crate) fn send(
        &self,
        pieces: &[IoSlice<'_>],
        send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        let mut out = Out(send);
        flush(&mut connection, &mut out)?;
        let taken = connection.writer().write_vectored(pieces)?;
        match flush(&mut connection, &mut out) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what is encrypted already.
    pub(crate) fn flush(&self, send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        flush(&mut lock(&self.connection), &mut Out(send))
    }

    /// Whether something encrypted waits to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        lock(&self.connection).wants_write()
    }
}

impl Ciphertext {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn refill(&mut self, recv: &mut impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        match recv(&mut self.bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.end = bytes;
                Ok(())
            }
        }
    }

    /// Gives some of the ciphertext to TLS.
    fn feed(&mut self, connection: &mut Connection) -> io::Result<()> {
        let mut rest = &self.bytes[self.start..self.end];
        self.start += connection.read_tls(&mut rest)?;
        connection.process_new_packets().map(|_| ()).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// As much plaintext as there is and fits.
    fn decrypt(&mut self, connection: &mut Connection, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut done = 0;
        for piece in pieces {
            let mut at = 0;
            while at < piece.len() {
                match connection.reader().read(&mut piece[at..]) {
                    Ok(0) => return Ok(done),
                    Ok(bytes) => at += bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock && !self.is_empty() => self.feed(connection)?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock && done + at > 0 => return Ok(done + at),
                    // the peer ended without saying so: the frames above know whether one is cut
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(done + at),
                    Err(error) => return Err(error),
                }
            }
            done += at;
        }
        Ok(done)
    }
}

fn flush(
    connection: &mut Connection,
    out: &mut Out<impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>>,
) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(out)?;
    }
    Ok(())
}

/// A socket's send as what rustls writes to.
struct Out<F>(F);

impl<F: FnMut(&[IoSlice<'_>]) -> io::Result<usize>> Write for Out<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (self.0)(pieces)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
