//! The client's side of a logon. MS-NLMP 3.1.5.

use bytes::Bytes;

use super::acceptor::{Authenticated, message_mic};
use super::av_pairs::{AvId, AvPairs};
use super::crypto::{NtHash, proof, rc4, response_key};
use super::messages::{Authenticate, Challenge, MessageFlags, Negotiate};
use crate::cursor::{Result, Writer, to_utf16};

/// The user that logs on.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// Its domain; may be empty.
    pub domain: String,
    /// The client's name.
    pub workstation: String,
    /// The hash of the user's password.
    pub hash: NtHash,
}

/// One logon to a server.
#[derive(Debug)]
pub struct Initiator {
    credentials: Credentials,
    negotiate: Vec<u8>,
}

impl Initiator {
    /// What a client asks for.
    const FLAGS: MessageFlags = MessageFlags::UNICODE
        .with(MessageFlags::REQUEST_TARGET)
        .with(MessageFlags::SIGN)
        .with(MessageFlags::NTLM)
        .with(MessageFlags::ALWAYS_SIGN)
        .with(MessageFlags::EXTENDED_SESSION_SECURITY)
        .with(MessageFlags::TARGET_INFO)
        .with(MessageFlags::VERSION)
        .with(MessageFlags::BITS_128)
        .with(MessageFlags::KEY_EXCHANGE)
        .with(MessageFlags::BITS_56);

    /// A logon.
    pub fn new(credentials: Credentials) -> Self {
        Self { credentials, negotiate: Negotiate { flags: Self::FLAGS }.encode() }
    }

    /// A logon that has sent another first message.
    #[cfg(test)]
    pub(super) fn resume(credentials: Credentials, negotiate: Vec<u8>) -> Self {
        Self { credentials, negotiate }
    }

    /// The first message.
    pub fn negotiate(&self) -> &[u8] {
        &self.negotiate
    }

    /// Answers the server's CHALLENGE with an AUTHENTICATE, and returns it and the logon. Both
    /// `client_challenge` and `session_key` are random and used once. 3.1.5.1.2.
    ///
    /// # Errors
    /// The message is another or malformed.
    pub fn authenticate(
        self,
        challenge_token: &Bytes,
        client_challenge: [u8; 8],
        session_key: [u8; 16],
    ) -> Result<(Vec<u8>, Authenticated)> {
        let challenge = Challenge::decode(challenge_token)?;
        let flags = MessageFlags(challenge.flags.0 & Self::FLAGS.0);
        let mut pairs = challenge.target_info;
        let timestamp = pairs.value(AvId::Timestamp).and_then(|value| value.first_chunk().copied());
        let with_mic = timestamp.is_some();
        if with_mic {
            let av_flags = pairs.flags() | AvPairs::FLAG_MIC;
            pairs.set(AvId::Flags, av_flags.to_le_bytes().to_vec());
        }
        let blob = response_blob(timestamp.unwrap_or_default(), client_challenge, &pairs);
        let Credentials { user, domain, workstation, hash } = self.credentials;
        let domain_utf16 = to_utf16(&domain);
        let key = response_key(&hash, &user, &domain_utf16);
        let (proof, base_key) = proof(&key, &challenge.server_challenge, &blob);
        let (session_key, encrypted) = match flags.has(MessageFlags::KEY_EXCHANGE) {
            true => (session_key, rc4(&base_key, session_key).to_vec()),
            false => (base_key, Vec::new()),
        };
        let mut message = Authenticate {
            // 3.1.5.1.2: zeros, where the response of NTLM has a timestamp.
            lm_response: vec![0; 24].into(),
            nt_response: [&proof[..], &blob].concat().into(),
            domain: domain_utf16.into(),
            user: to_utf16(&user).into(),
            workstation: to_utf16(&workstation).into(),
            encrypted_session_key: encrypted.into(),
            flags,
            mic: [0; 16],
        };
        if with_mic {
            let bytes = message.encode();
            let mic = message_mic(&session_key, [&self.negotiate, challenge_token, &bytes]);
            message.mic = mic.expect("the encoder leaves room for the MIC");
        }
        let anonymous = false;
        let logon = Authenticated { user, domain, workstation, session_key, anonymous, flags };
        Ok((message.encode(), logon))
    }
}

/// What the proof covers beside the server's challenge. 2.2.2.7, 3.3.2 (temp).
pub(super) fn response_blob(
    timestamp: [u8; 8],
    client_challenge: [u8; 8],
    pairs: &AvPairs,
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.bytes(&[1, 1]);
    writer.zeros(6);
    writer.bytes(&timestamp);
    writer.bytes(&client_challenge);
    writer.zeros(4);
    pairs.encode(&mut writer);
    writer.zeros(4);
    writer.finish()
}
