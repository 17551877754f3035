//! Kerberos and TLS of a gateway, checked before the first client comes.

#[cfg(target_os = "linux")]
mod kerberos;
#[cfg(target_os = "linux")]
pub mod users;

use std::sync::Arc;

use braid_client::settings::NfsSection;
use braid_nfs::{
    Protection,
    config::{ExportConfig, Security},
    names::UserDatabase,
    tls::{Tls, TlsFiles},
};

use crate::{output::Fault, private_file};

/// What a gateway offers, and what an operator should know about it.
pub struct Started {
    pub protection: Protection,
    /// The host name of the keytab, if it has only one.
    pub host: Option<String>,
    pub notes: Vec<String>,
}

/// The users and groups of this host.
pub fn user_database() -> Option<Arc<dyn UserDatabase>> {
    #[cfg(target_os = "linux")]
    return Some(Arc::new(users::HostDatabase));
    #[cfg(not(target_os = "linux"))]
    None
}

/// Starts what the section or an export names.
pub fn start(section: &NfsSection, exports: &[ExportConfig]) -> Result<Started, Fault> {
    let tls = tls(section)?;
    let mut started =
        Started { protection: Protection { kerberos: None, tls }, host: None, notes: Vec::new() };
    let needs = |export: &ExportConfig| export.security.iter().any(|one| *one != Security::Sys);
    if section.keytab.is_some() || section.principal.is_some() || exports.iter().any(needs) {
        #[cfg(target_os = "linux")]
        kerberos::start(section, &mut started)?;
        #[cfg(not(target_os = "linux"))]
        return Err(Fault::usage("starting Kerberos", "gateways have Kerberos on Linux only"));
    }
    if started.protection.tls.is_some()
        && let Some(path) = &section.tls_cert
    {
        let clients = match &section.tls_client_ca {
            Some(path) => format!("knows clients of {}", path.display()),
            None => "knows no clients' certificates".to_owned(),
        };
        started.notes.push(format!("TLS: certificate {}; {clients}", path.display()));
    }
    Ok(started)
}

/// RPC-over-TLS.
fn tls(section: &NfsSection) -> Result<Option<Tls>, Fault> {
    const DOING: &str = "starting TLS of the NFS gateway";
    let (certificate, key) = match (&section.tls_cert, &section.tls_key) {
        (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
        (None, None) if section.tls_client_ca.is_none() => return Ok(None),
        _ => {
            let why = "a certificate and its key are needed together";
            return Err(Fault::usage(DOING, why).hint("--tls-cert FILE --tls-key FILE"));
        }
    };
    private_file::check(&key, DOING, "--tls-key with the private key of the certificate, in PEM")?;
    let files = TlsFiles { certificate, key, client_authorities: section.tls_client_ca.clone() };
    Tls::new(files).map(Some).map_err(|why| Fault::usage(DOING, why.to_string()))
}
