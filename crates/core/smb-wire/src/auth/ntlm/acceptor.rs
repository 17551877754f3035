//! The server's side of a logon. MS-NLMP 3.2.5.

use aws_lc_rs::constant_time;
use bytes::Bytes;

use super::av_pairs::{AvId, AvPairs};
use super::crypto::{MessageKeys, NtHash, hmac_md5, proof, rc4, response_key};
use super::messages::{Authenticate, Challenge, MessageFlags, Negotiate};
use crate::cursor::{Malformed, Reader, to_utf16, utf16};
use crate::protect::Sender;
use crate::status::NtStatus;

/// Bytes of a response before its AV pairs: the proof, and the fixed part of 2.2.2.7.
const RESPONSE_FIXED_BYTES: usize = 16 + 28;
/// Bytes of a name of a user, domain or workstation in UTF-16, at most: 256 characters, as
/// Windows has (UNLEN).
const NAME_BYTES_MAX: usize = 512;

/// How a server names itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerNames {
    /// Its NetBIOS name: at most 15 characters, upper case.
    pub netbios_computer: String,
    /// The NetBIOS name of its domain or workgroup; of a server of its own, its name again.
    pub netbios_domain: String,
    /// Its DNS name.
    pub dns_computer: String,
    /// The DNS name of its domain; may be empty.
    pub dns_domain: String,
}

/// Why a logon failed. A client sees [`LogonFailure::status`] only, which is the same for an
/// unknown user and a wrong password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogonFailure {
    /// A message does not follow its format.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The messages came in another order.
    #[error("NTLM: a message out of order")]
    OutOfOrder,
    /// The client can do only NTLM version 1 or LM, or lacks UTF-16.
    #[error("NTLM: the client is too old")]
    TooOld,
    /// The user is unknown, or the password wrong.
    #[error("the user is unknown or the password is wrong")]
    Denied,
    /// The MIC of the messages is wrong: one was changed in flight.
    #[error("NTLM: the messages were changed in flight")]
    Changed,
}

impl LogonFailure {
    /// What the client is answered.
    pub fn status(self) -> NtStatus {
        match self {
            Self::Malformed(_) | Self::OutOfOrder | Self::Changed => NtStatus::INVALID_PARAMETER,
            Self::TooOld | Self::Denied => NtStatus::LOGON_FAILURE,
        }
    }
}

/// A client that has logged on.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Authenticated {
    /// The user as the client wrote it; empty if anonymous.
    pub user: String,
    /// The user's domain as the client wrote it.
    pub domain: String,
    /// The client's name for itself. Nothing proves it.
    pub workstation: String,
    /// The key of the session (ExportedSessionKey).
    pub session_key: [u8; 16],
    /// The client gave no name and no proof. Its session key is no secret.
    pub anonymous: bool,
    /// The bits that both sides agreed on.
    pub flags: MessageFlags,
}

impl std::fmt::Debug for Authenticated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticated")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("workstation", &self.workstation)
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

impl Authenticated {
    /// The keys of the MICs that `sender` sends: those of SPNEGO's list of mechanisms.
    pub fn message_keys(&self, sender: Sender) -> MessageKeys {
        MessageKeys::new(&self.session_key, self.flags, sender)
    }
}

/// One logon of a client.
#[derive(Debug)]
pub struct Acceptor {
    names: ServerNames,
    server_challenge: [u8; 8],
    now_filetime: u64,
    /// The first two messages.
    messages: Option<(Bytes, Vec<u8>)>,
}

impl Acceptor {
    /// A logon. `server_challenge` is random and used once; `now_filetime` counts 100 ns since
    /// 1601.
    pub fn new(names: ServerNames, server_challenge: [u8; 8], now_filetime: u64) -> Self {
        Self { names, server_challenge, now_filetime, messages: None }
    }

    /// A logon whose first two messages another server has exchanged.
    #[cfg(test)]
    pub(super) fn resume(negotiate: Bytes, challenge: Bytes) -> Self {
        let decoded = Challenge::decode(&challenge).expect("a CHALLENGE");
        let mut server = Self::new(ServerNames::default(), decoded.server_challenge, 0);
        server.messages = Some((negotiate, challenge.into()));
        server
    }

    /// Answers the client's NEGOTIATE with a CHALLENGE. 3.2.5.1.1.
    ///
    /// # Errors
    /// The message is another or malformed, it is the second one, or the client is too old.
    pub fn challenge(&mut self, negotiate: &Bytes) -> Result<Vec<u8>, LogonFailure> {
        if self.messages.is_some() {
            return Err(LogonFailure::OutOfOrder);
        }
        let offered = Negotiate::decode(negotiate)?.flags;
        if !offered.has(MessageFlags::UNICODE) {
            return Err(LogonFailure::TooOld);
        }
        let challenge = Challenge {
            target_name: to_utf16(&self.names.netbios_computer).into(),
            flags: answer_flags(offered),
            server_challenge: self.server_challenge,
            target_info: self.target_info(),
        };
        let bytes = challenge.encode();
        self.messages = Some((negotiate.clone(), bytes.clone()));
        Ok(bytes)
    }

    fn target_info(&self) -> AvPairs {
        let mut pairs = AvPairs::default();
        pairs.set_text(AvId::NbDomainName, &self.names.netbios_domain);
        pairs.set_text(AvId::NbComputerName, &self.names.netbios_computer);
        pairs.set_text(AvId::DnsDomainName, &self.names.dns_domain);
        pairs.set_text(AvId::DnsComputerName, &self.names.dns_computer);
        pairs.set(AvId::Timestamp, self.now_filetime.to_le_bytes().to_vec());
        pairs
    }

    /// Checks the client's AUTHENTICATE. `lookup` gives the hash of a user's password. 3.2.5.1.2.
    ///
    /// An unknown user costs as much work as a wrong password, if `lookup` does.
    ///
    /// # Errors
    /// The message is malformed or the first one, the client is too old, the user is unknown, the
    /// password wrong, or a message was changed in flight.
    pub fn authenticate(
        self,
        token: &Bytes,
        lookup: impl FnOnce(&str, &str) -> Option<NtHash>,
    ) -> Result<Authenticated, LogonFailure> {
        let (negotiate, challenge) = self.messages.ok_or(LogonFailure::OutOfOrder)?;
        let message = Authenticate::decode(token)?;
        if !message.flags.has(MessageFlags::UNICODE) {
            return Err(LogonFailure::TooOld);
        }
        let mut logon = Authenticated {
            user: name(&message.user)?,
            domain: name(&message.domain)?,
            workstation: name(&message.workstation)?,
            session_key: [0; 16],
            anonymous: is_anonymous(&message),
            flags: message.flags,
        };
        if logon.anonymous {
            logon.session_key = session_key(&message, [0; 16])?;
            return Ok(logon);
        }
        // A response of NTLM version 1 has 24 bytes, and 3.3.2's has more: version 1 is refused
        // before the user is looked up.
        let (given, blob) = message
            .nt_response
            .split_first_chunk::<16>()
            .filter(|_| message.nt_response.len() >= RESPONSE_FIXED_BYTES)
            .ok_or(LogonFailure::TooOld)?;
        let pairs = message.nt_response.slice(RESPONSE_FIXED_BYTES..);
        let pairs = AvPairs::decode(&mut Reader::new(pairs))?;

        let hash = lookup(&logon.user, &logon.domain);
        let known = hash.is_some();
        let key = response_key(&hash.unwrap_or(NtHash([0; 16])), &logon.user, &message.domain);
        let (wanted, base_key) = proof(&key, &self.server_challenge, blob);
        let proven = constant_time::verify_slices_are_equal(&wanted, given).is_ok();
        if !(known & proven) {
            return Err(LogonFailure::Denied);
        }
        logon.session_key = session_key(&message, base_key)?;
        if pairs.flags() & AvPairs::FLAG_MIC != 0 {
            verify_mic(&logon.session_key, [&negotiate, &challenge, token])?;
        }
        Ok(logon)
    }
}

/// 3.2.5.1.1: what the server can do of what the client offers.
fn answer_flags(offered: MessageFlags) -> MessageFlags {
    let optional = [
        MessageFlags::SIGN,
        MessageFlags::SEAL,
        MessageFlags::ALWAYS_SIGN,
        MessageFlags::VERSION,
        MessageFlags::BITS_128,
        MessageFlags::KEY_EXCHANGE,
        MessageFlags::BITS_56,
    ];
    let always = [
        MessageFlags::UNICODE,
        MessageFlags::REQUEST_TARGET,
        MessageFlags::NTLM,
        MessageFlags::TARGET_TYPE_SERVER,
        MessageFlags::EXTENDED_SESSION_SECURITY,
        MessageFlags::TARGET_INFO,
    ];
    let optional = optional.into_iter().filter(|flag| offered.has(*flag));
    optional.chain(always).fold(MessageFlags::default(), MessageFlags::with)
}

fn name(bytes: &Bytes) -> Result<String, LogonFailure> {
    if bytes.len() > NAME_BYTES_MAX {
        return Err(Malformed("NTLM: name too long").into());
    }
    Ok(utf16(bytes)?)
}

/// 3.2.5.1.2: no user and no responses; the one of LM may be a byte of 0.
fn is_anonymous(message: &Authenticate) -> bool {
    let no_responses = message.nt_response.is_empty() && matches!(*message.lm_response, [] | [0]);
    message.user.is_empty() && no_responses
}

/// The key of the session from that of the response: what the client sends encrypted by it, with a
/// key exchange. 3.2.5.1.2.
fn session_key(message: &Authenticate, base_key: [u8; 16]) -> Result<[u8; 16], LogonFailure> {
    let signs = MessageFlags(MessageFlags::SIGN.0 | MessageFlags::SEAL.0);
    let exchanged = message.flags.has(MessageFlags::KEY_EXCHANGE) && message.flags.0 & signs.0 != 0;
    if !exchanged {
        return Ok(base_key);
    }
    let encrypted = message.encrypted_session_key[..].try_into();
    Ok(rc4(&base_key, encrypted.map_err(|_| Malformed("NTLM: session key"))?))
}

/// 3.1.5.1.2: HMAC-MD5 over the messages, the last one with zeros instead of the MIC.
pub(super) fn message_mic(session_key: &[u8; 16], messages: [&[u8]; 3]) -> Option<[u8; 16]> {
    let [negotiate, challenge, authenticate] = messages;
    let (before, rest) = authenticate.split_at_checked(Authenticate::MIC.start)?;
    let after = rest.get(Authenticate::MIC.len()..)?;
    Some(hmac_md5(session_key, &[negotiate, challenge, before, &[0; 16], after]))
}

fn verify_mic(session_key: &[u8; 16], messages: [&[u8]; 3]) -> Result<(), LogonFailure> {
    let wanted = message_mic(session_key, messages).ok_or(LogonFailure::Changed)?;
    constant_time::verify_slices_are_equal(&wanted, &messages[2][Authenticate::MIC])
        .map_err(|_| LogonFailure::Changed)
}
