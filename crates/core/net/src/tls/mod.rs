//! TLS 1.3 for native connections. TLS encrypts and binds the channel; the key proofs of the
//! handshake authenticate the peer.
//!
//! A server shows a raw public key (RFC 7250) that it created at start; the client accepts any.
//! That is safe because both sides include the channel's exporter (RFC 9266) in what they prove. A
//! man in the middle has two channels with two exporters, and cannot produce the proof of either
//! side for the other channel.
//!
//! ```text
//!   rustls: hello .. finished ----> secret of each direction ----> Sealer, RecordOpener: records
//! ```
//!
//! Rustls runs the handshake. The records after it are sealed and opened here, with the same
//! cryptographic library (aws-lc) and in reused buffers. That halves what TLS adds to a read (ADR
//! 7).
//!
//! Invariants:
//! 1. TLS 1.3 and nothing older.
//! 2. No tickets, no resumption, no early data. Every channel has its own exporter, and only data
//!    records follow the handshake.
//! 3. Rustls gets the records of the handshake and no byte of what follows.
//! 4. Sending and receiving share no lock.
//!
//! No assertion checks these: the configuration in this file allows nothing else (1, 2), and the
//! types separate the handshake from the records (3) and the two directions (4).

mod channel;
mod keys;
mod open;
mod seal;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    io::{self, ErrorKind},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use aws_lc_rs::{
    aead::{AES_128_GCM, Algorithm, CHACHA20_POLY1305},
    rand::SystemRandom,
    signature::Ed25519KeyPair,
};
use braid_wire::CHANNEL_BINDING_BYTES;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, KeyLog, ServerConfig, ServerConnection, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{
        CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
    },
    server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage},
    sign::CertifiedKey,
    version::TLS13,
};

use self::{
    keys::{Keys, SECRET_BYTES},
    open::{Inbox, RecordOpener},
    seal::Sealer,
};

pub(crate) use channel::Channel;

const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
/// RFC 8446 section 5.1: maximum plaintext of a record.
const PLAINTEXT_BYTES_MAX: usize = 1 << 14;
/// RFC 8446 section 5.2: maximum length behind a header.
const CIPHERTEXT_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + 256;
/// Records that are sealed before they are sent; they fit the second-level cache beside other data.
const SEND_RECORDS: usize = 16;
/// Bytes that one recv takes when records are not opened in the caller's memory.
const RECEIVE_BYTES: usize = 5 * (HEADER_BYTES + CIPHERTEXT_BYTES_MAX);

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// RFC 8446 section 4.6.3; the last byte asks for an update in return, or not.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// RFC 9266 section 2.
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// AES-128 first: it is secure, and a quarter cheaper than AES-256, the library's first choice.
/// Every suite here must have its cipher in [`cipher`].
fn crypto() -> CryptoProvider {
    use provider::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
    let cipher_suites = vec![TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, ..provider::default_provider() }
}

fn cipher(connection: &Connection) -> io::Result<&'static Algorithm> {
    match connection.negotiated_cipher_suite().map(|suite| suite.suite()) {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Ok(&AES_128_GCM),
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => Ok(&CHACHA20_POLY1305),
        other => Err(invalid(&format!("a cipher suite that was not offered: {other:?}"))),
    }
}

/// A server's TLS configuration, with a fresh key.
pub(crate) fn server_config() -> Result<Arc<ServerConfig>, Error> {
    let unspecified = |_| Error::FailedToGetRandomBytes;
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(unspecified)?;
    let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key.as_ref().to_vec()))?;
    let public = key.public_key().ok_or(Error::General("a key without its public half".into()))?;
    let shown = CertificateDer::from(public.as_ref().to_vec());
    let resolver =
        AlwaysResolvesServerRawPublicKeys::new(Arc::new(CertifiedKey::new(vec![shown], key)));
    let mut config = ServerConfig::builder_with_provider(Arc::new(crypto()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// A client's TLS configuration; the same for every connection.
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

/// A channel during its handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    connection: Connection,
    secrets: Arc<SecretLog>,
}

/// The server's end of a new channel.
pub(crate) fn accept(config: &Arc<ServerConfig>) -> io::Result<Handshake> {
    let secrets = Arc::new(SecretLog::default());
    let mut config = ServerConfig::clone(config);
    config.key_log = Arc::clone(&secrets) as _;
    let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    Ok(Handshake { connection: Connection::Server(connection), secrets })
}

/// The client's end of a new channel.
pub(crate) fn initiate() -> io::Result<Handshake> {
    let secrets = Arc::new(SecretLog::default());
    let mut config = ClientConfig::clone(&*client_config().map_err(io::Error::other)?);
    config.key_log = Arc::clone(&secrets) as _;
    // The name is neither sent nor checked.
    let name = ServerName::try_from("braid").map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(Handshake { connection: Connection::Client(connection), secrets })
}

impl Handshake {
    /// Runs the handshake. Returns the channel, and the value that binds a proof to it. `recv`
    /// waits for bytes; `send` sends all.
    pub(crate) fn run(
        mut self,
        mut recv: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut send: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<(Channel, [u8; CHANNEL_BINDING_BYTES])> {
        let (connection, mut inbox) = (&mut self.connection, Inbox::new());
        loop {
            while connection.wants_write() {
                let mut out = Vec::new();
                connection.write_tls(&mut out)?;
                send(&out)?;
            }
            if !connection.is_handshaking() {
                let binding = channel_binding(connection)?;
                return Ok((self.channel(inbox)?, binding));
            }
            match inbox.record()? {
                Some(record) => feed(connection, record)?,
                None => inbox.refill(RECEIVE_BYTES, &mut recv)?,
            }
        }
    }

    fn channel(self, inbox: Inbox) -> io::Result<Channel> {
        let cipher = cipher(&self.connection)?;
        let keys = |of: fn(&TrafficSecrets) -> Option<[u8; SECRET_BYTES]>| {
            let secret = of(&self.secrets.0.lock().unwrap_or_else(PoisonError::into_inner));
            Keys::new(cipher, secret.ok_or_else(|| invalid("the handshake made no secret"))?)
        };
        let (client, server) = (keys(|both| both.client)?, keys(|both| both.server)?);
        let (ours, theirs) = match self.connection {
            Connection::Client(_) => (client, server),
            Connection::Server(_) => (server, client),
        };
        Ok(Channel::new(Sealer::new(ours), RecordOpener::new(theirs, inbox)))
    }
}

/// Gives one record to the handshake (invariant 3).
fn feed(connection: &mut Connection, mut record: &[u8]) -> io::Result<()> {
    while !record.is_empty() {
        connection.read_tls(&mut record)?;
        let processed = connection.process_new_packets();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
    Ok(())
}

/// The value that binds a proof to this channel.
fn channel_binding(connection: &Connection) -> io::Result<[u8; CHANNEL_BINDING_BYTES]> {
    let exported =
        connection.export_keying_material([0; CHANNEL_BINDING_BYTES], BINDING_LABEL, None);
    exported.map_err(io::Error::other)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Takes the secrets of application data from rustls, and passes them to no log.
#[derive(Default)]
struct SecretLog(Mutex<TrafficSecrets>);

#[derive(Default)]
struct TrafficSecrets {
    client: Option<[u8; SECRET_BYTES]>,
    server: Option<[u8; SECRET_BYTES]>,
}

impl KeyLog for SecretLog {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let mut both = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => both.client = secret.try_into().ok(),
            "SERVER_TRAFFIC_SECRET_0" => both.server = secret.try_into().ok(),
            _ => {}
        }
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, "CLIENT_TRAFFIC_SECRET_0" | "SERVER_TRAFFIC_SECRET_0")
    }
}

impl fmt::Debug for SecretLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Accepts every raw public key whose owner signs the channel; the module explains why.
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
