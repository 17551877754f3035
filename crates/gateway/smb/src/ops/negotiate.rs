//! NEGOTIATE. MS-SMB2 3.3.5.3, 3.3.5.4.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::auth::spnego::{Mechanism, server_offer};
use braid_smb_wire::filetime::FileTime;
use braid_smb_wire::smb1;
use braid_smb_wire::smb2::Dialect;
use braid_smb_wire::smb2::negotiate::{
    Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse,
    SecurityMode, SigningAlgorithm,
};
use bytes::Bytes;

use crate::connection::negotiated::Negotiated;
use crate::connection::{Connection, TRANSFER_BYTES_MAX, TRANSFER_BYTES_MAX_202};
use crate::context::{Context, OpResult, Reply};
use crate::disconnect::Disconnect;
use crate::server::SmbServer;

/// Ciphers that the server has, the preferred first: GCM costs a fifth of CCM (ADR 0052).
const CIPHERS: [Cipher; 4] =
    [Cipher::AES_128_GCM, Cipher::AES_256_GCM, Cipher::AES_128_CCM, Cipher::AES_256_CCM];
/// Algorithms for signatures, the preferred first: GMAC costs a ninth of CMAC (ADR 0052).
const SIGNING: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256];
/// Random bytes of the server in the hash over the negotiation, as many as Windows has.
const SALT_BYTES: usize = 32;

/// Answers an SMB 1 NEGOTIATE that offers SMB 2. 3.3.5.3.
///
/// # Errors
/// It offers only SMB 1, or the client has negotiated before.
pub fn multi_protocol<S: Share>(
    server: &Arc<SmbServer<S>>,
    connection: &Connection,
    bytes: &Bytes,
) -> Result<Reply, Disconnect> {
    let offered = smb1::smb1_dialects(bytes)?;
    if connection.negotiated().is_some() {
        return Err(Disconnect::Negotiate);
    }
    let has = |wanted: &[u8]| offered.iter().any(|dialect| dialect == wanted);
    let dialect = if has(smb1::SMB_2_WILDCARD) {
        if !connection.set_wildcard() {
            return Err(Disconnect::Negotiate);
        }
        Dialect::WILDCARD
    } else if has(smb1::SMB_2_002) {
        let request = NegotiateRequest {
            dialects: vec![Dialect::Smb202.number()],
            ..NegotiateRequest::default()
        };
        let negotiated = choose(server, &request, Dialect::Smb202);
        if !connection.set_negotiated(negotiated) {
            return Err(Disconnect::Negotiate);
        }
        Dialect::Smb202.number()
    } else {
        // SMB 1 has no protection against changes in flight, and is not spoken.
        return Err(Disconnect::Smb1);
    };
    // 3.3.5.3.1, 3.3.5.3.2.
    let body = response(server, dialect, dfs(server));
    Ok(Reply::new(&body))
}

/// Answers a NEGOTIATE. 3.3.5.4.
///
/// # Errors
/// As the standard has them.
pub fn negotiate<S: Share>(context: &Context<S>, request: NegotiateRequest) -> OpResult {
    let server = &context.server;
    if request.dialects.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let offered = request.dialects.iter().filter_map(|number| Dialect::from_number(*number));
    let dialect = offered.max().ok_or(NtStatus::NOT_SUPPORTED)?;
    let mut negotiated = choose(server, &request, dialect);
    let mut contexts = Vec::new();
    if dialect == Dialect::Smb311 {
        contexts = choose_contexts(&request, &mut negotiated)?;
        // The hash goes over the request as it came (3.3.5.4).
        context.connection.begin_hash();
        context.connection.hash(&[&context.message]);
    }
    let mut body = response(server, dialect.number(), negotiated.capabilities);
    body.contexts = contexts;
    if !context.connection.set_negotiated(negotiated) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(Reply::new(&body))
}

fn response<S: Share>(
    server: &SmbServer<S>,
    dialect: u16,
    capabilities: Capabilities,
) -> NegotiateResponse {
    let most = if dialect == Dialect::Smb202.number() {
        TRANSFER_BYTES_MAX_202
    } else {
        TRANSFER_BYTES_MAX
    };
    NegotiateResponse {
        security_mode: security_mode(server),
        dialect,
        server_guid: server.guid,
        capabilities,
        max_transact_size: most,
        max_read_size: most,
        max_write_size: most,
        system_time: now().0,
        security_buffer: server_offer(&[Mechanism::Ntlm]).into(),
        contexts: Vec::new(),
    }
}

/// The time of this host.
pub fn now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime::from_unix(since.as_secs() as i64, since.subsec_nanos())
}

fn security_mode<S: Share>(server: &SmbServer<S>) -> SecurityMode {
    match server.config.require_signing {
        true => SecurityMode::SIGNING_ENABLED.with(SecurityMode::SIGNING_REQUIRED),
        false => SecurityMode::SIGNING_ENABLED,
    }
}

/// The capability of a server whose shares are in DFS. 3.3.5.4.
fn dfs<S: Share>(server: &SmbServer<S>) -> Capabilities {
    match server.gateways.is_dfs() {
        true => Capabilities::DFS,
        false => Capabilities::default(),
    }
}

/// What follows from the dialect and the request without contexts.
fn choose<S: Share>(
    server: &SmbServer<S>,
    request: &NegotiateRequest,
    dialect: Dialect,
) -> Negotiated {
    let mut capabilities = dfs(server);
    if dialect > Dialect::Smb202 {
        capabilities = capabilities.with(Capabilities::LARGE_MTU);
        if server.config.leases {
            capabilities = capabilities.with(Capabilities::LEASING);
        }
    }
    let mut cipher = None;
    let client = request.capabilities;
    // In 3.1.1 a context says it (3.3.5.4).
    if matches!(dialect, Dialect::Smb300 | Dialect::Smb302) && client.has(Capabilities::ENCRYPTION)
    {
        capabilities = capabilities.with(Capabilities::ENCRYPTION);
        cipher = Some(Cipher::AES_128_CCM);
    }
    Negotiated {
        dialect,
        client_guid: request.client_guid,
        client_capabilities: client,
        client_security_mode: request.security_mode,
        offered: request.dialects.clone(),
        capabilities,
        security_mode: security_mode(server),
        signing: match dialect.is_smb3() {
            true => SigningAlgorithm::AES_CMAC,
            false => SigningAlgorithm::HMAC_SHA256,
        },
        cipher,
    }
}

/// What the contexts of 3.1.1 choose, and those of the response. 3.3.5.4.
fn choose_contexts(
    request: &NegotiateRequest,
    negotiated: &mut Negotiated,
) -> Result<Vec<NegotiateContext>, NtStatus> {
    let kinds = request.contexts.iter().map(NegotiateContext::kind);
    let mut hash = None;
    let mut response = Vec::new();
    // One of each kind, else the request is refused.
    let known = |kind: &u16| matches!(kind, 1 | 2 | 3 | 8);
    let mut seen: Vec<u16> = kinds.filter(known).collect();
    seen.sort_unstable();
    if !seen.is_sorted_by(|one, other| one < other) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    for context in &request.contexts {
        match context {
            NegotiateContext::PreauthIntegrity { hashes, .. } => hash = Some(hashes),
            NegotiateContext::Encryption(ciphers) => {
                let chosen = CIPHERS.into_iter().find(|cipher| ciphers.contains(cipher));
                negotiated.cipher = chosen;
                response.push(NegotiateContext::Encryption(vec![chosen.unwrap_or(Cipher::NONE)]));
            }
            NegotiateContext::Signing(algorithms) => {
                let chosen = SIGNING.into_iter().find(|one| algorithms.contains(one));
                if let Some(chosen) = chosen {
                    negotiated.signing = chosen;
                    response.push(NegotiateContext::Signing(vec![chosen]));
                }
            }
            _ => {}
        }
    }
    let hashes = hash.ok_or(NtStatus::INVALID_PARAMETER)?;
    if !hashes.contains(&HashAlgorithm::SHA512) {
        return Err(NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP);
    }
    let mut salt = vec![0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|_| NtStatus::INSUFFICIENT_RESOURCES)?;
    let hashes = vec![HashAlgorithm::SHA512];
    response.insert(0, NegotiateContext::PreauthIntegrity { hashes, salt: salt.into() });
    Ok(response)
}
