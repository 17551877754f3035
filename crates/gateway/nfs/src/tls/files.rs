//! Certificate, key and authorities from files, which are read again when they change.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;

use super::ALPN;
use super::validity::validity;

/// Longest file. A chain has some KiB, the authorities of a system some 200 KiB.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Least time between two looks at the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A certificate that is valid for less than this is reported.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 86_400);

/// The files of a server's TLS, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and the authority that clients trust.
    pub certificate: PathBuf,
    /// Its private key. The caller checks who else may read it.
    pub key: PathBuf,
    /// Certificates of the authorities whose clients are recognised (`mtls`); `None` asks no client
    /// for a certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Why TLS cannot be used.
#[derive(Debug, Error)]
#[error("{}: {problem}", .path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl TlsError {
    fn new(path: &Path, problem: impl ToString) -> Self {
        Self { path: path.to_owned(), problem: problem.to_string() }
    }
}

/// What identifies the content of the files without reading them: length and time of change.
type Stamp = Vec<Option<(u64, SystemTime)>>;

/// The certificates in use.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    /// The files that were read last, also without success.
    stamp: Stamp,
    checked: Instant,
}

impl Certificates {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // Before reading: a file that changes meanwhile is read again.
        let stamp = stamp(&files);
        let config = read(&files)?;
        let state = Mutex::new(State { config, stamp, checked: Instant::now() });
        Ok(Self { files, state })
    }

    /// The files.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The configuration of the files as they are now, or the last usable one.
    pub fn current(&self, now: Instant) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(state.checked) >= CHECK_INTERVAL {
            state.checked = now;
            let stamp = stamp(&self.files);
            if stamp != state.stamp {
                state.stamp = stamp;
                match read(&self.files) {
                    Ok(config) => {
                        state.config = config;
                        tracing::info!("TLS: the certificate was read again");
                    }
                    // The certificate and its key may be replaced one after the other.
                    Err(error) => tracing::warn!("TLS: the old certificate stays in use: {error}"),
                }
            }
        }
        Arc::clone(&state.config)
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    let of = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.len(), found.modified().ok()?))
    };
    let all = [Some(&files.certificate), Some(&files.key), files.client_authorities.as_ref()];
    all.into_iter().flatten().map(of).collect()
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    report_expiry(&files.certificate, &chain[0]);
    let key = bytes(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| TlsError::new(&files.key, format!("no private key in PEM: {error}")))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        // RFC 9289 5: TLS 1.3 or later.
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3");
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| TlsError::new(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| TlsError::new(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        TlsError::new(&files.key, format!("no key of the certificate: {error}"))
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would skip the check of a client's certificate. RFC 9289 5: no early data,
    // which rustls refuses by default.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let failed = |error| TlsError::new(path, error);
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::new(path, "longer than any file of certificates"));
    }
    Ok(bytes)
}

/// The certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = bytes(path)?;
    let all = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| TlsError::new(path, format!("no PEM: {error}")))?;
    if all.is_empty() {
        return Err(TlsError::new(path, "no certificate in PEM"));
    }
    Ok(all)
}

/// Warns of a certificate that clients will refuse. It is used all the same: the clock of this host
/// may be wrong, and clients decide.
fn report_expiry(path: &Path, certificate: &CertificateDer<'_>) {
    let Some((begin, end)) = validity(certificate) else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let path = path.display();
    let days = |time: Duration| time.as_secs() / 86_400;
    if now < begin {
        let days = days(begin - now);
        tracing::warn!("TLS: {path} is not valid yet, for {days} more days; is the clock right?");
    } else if now > end {
        let days = days(now - end);
        tracing::warn!("TLS: {path} has expired {days} days ago; clients refuse it");
    } else if end - now < EXPIRES_SOON {
        let days = days(end - now);
        tracing::warn!("TLS: {path} expires in {days} days");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(name: &str, to: &Path) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name);
        // The time of change of a file that was just written may be that of the one before.
        let later = SystemTime::now() + Duration::from_secs(to.metadata().is_ok().into());
        fs::write(to, fs::read(from).unwrap()).unwrap();
        File::options().write(true).open(to).unwrap().set_modified(later).unwrap();
    }

    #[test]
    fn replaced_files_are_read_again_and_broken_ones_are_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["c.pem", "k.pem"].map(|name| directory.path().join(name));
        copy("server.pem", &certificate);
        copy("server.key", &key);
        let files = TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: None,
        };
        let all = Certificates::load(files).unwrap();
        let start = Instant::now();
        let first = all.current(start);
        assert!(Arc::ptr_eq(&first, &all.current(start + CHECK_INTERVAL)), "nothing has changed");
        copy("renewed.pem", &certificate);
        let now = start + 2 * CHECK_INTERVAL;
        assert!(Arc::ptr_eq(&first, &all.current(now)), "the old key does not belong to it");
        copy("renewed.key", &key);
        assert!(Arc::ptr_eq(&first, &all.current(now)), "they were looked at just now");
        let second = all.current(now + CHECK_INTERVAL);
        assert!(!Arc::ptr_eq(&first, &second));
        fs::remove_file(&key).unwrap();
        assert!(Arc::ptr_eq(&second, &all.current(now + 2 * CHECK_INTERVAL)));
    }
}
