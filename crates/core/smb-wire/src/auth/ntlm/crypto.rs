//! Computations of NTLM version 2. MS-NLMP 3.3.2, 3.4.

use aws_lc_rs::constant_time;
use hmac::{Hmac, KeyInit, Mac};
use md4::{Digest, Md4};
use md5::Md5;
use rc4::{Rc4, StreamCipher};

use super::messages::MessageFlags;
use crate::cursor::to_utf16;
use crate::protect::{Forged, Sender};

/// The hash of a password, which is as good as the password: it is kept as secret.
#[derive(Clone, PartialEq, Eq)]
pub struct NtHash(pub [u8; 16]);

impl std::fmt::Debug for NtHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NtHash")
    }
}

/// The hash of a password: MD4 of its UTF-16. 3.3.1, NTOWFv1.
pub fn nt_hash(password: &str) -> NtHash {
    NtHash(Md4::digest(to_utf16(password)).into())
}

pub(super) fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

pub(super) fn rc4(key: &[u8; 16], mut data: [u8; 16]) -> [u8; 16] {
    cipher(key).apply_keystream(&mut data);
    data
}

fn cipher(key: &[u8; 16]) -> Rc4 {
    Rc4::new_from_slice(key).expect("RC4 takes keys of 16 bytes")
}

/// The key of a user's responses. `user` and `domain` are UTF-16. 3.3.2, NTOWFv2.
pub(super) fn response_key(hash: &NtHash, user: &str, domain: &[u8]) -> [u8; 16] {
    hmac_md5(&hash.0, &[&to_utf16(&upper_case(user)), domain])
}

/// Each character in its upper case where that is one character, as Windows does it.
fn upper_case(text: &str) -> String {
    text.chars()
        .map(|character| {
            let mut upper = character.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(one), None) => one,
                _ => character,
            }
        })
        .collect()
}

/// The proof of a response, and the key that follows from it. 3.3.2, NTProofStr and
/// SessionBaseKey.
pub(super) fn proof(key: &[u8; 16], challenge: &[u8; 8], blob: &[u8]) -> ([u8; 16], [u8; 16]) {
    let proof = hmac_md5(key, &[challenge, blob]);
    (proof, hmac_md5(key, &[&proof]))
}

/// Keys of messages in one direction, with extended session security. 3.4.5.
pub struct MessageKeys {
    signing: [u8; 16],
    sealing: [u8; 16],
    /// The checksum is encrypted too.
    key_exchange: bool,
}

impl std::fmt::Debug for MessageKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageKeys")
    }
}

impl MessageKeys {
    /// The keys for what `sender` sends.
    pub fn new(session_key: &[u8; 16], flags: MessageFlags, sender: Sender) -> Self {
        let (signing, sealing): (&[u8], &[u8]) = match sender {
            Sender::Client => (
                b"session key to client-to-server signing key magic constant\0",
                b"session key to client-to-server sealing key magic constant\0",
            ),
            Sender::Server => (
                b"session key to server-to-client signing key magic constant\0",
                b"session key to server-to-client sealing key magic constant\0",
            ),
        };
        let strength = match flags {
            flags if flags.has(MessageFlags::BITS_128) => 16,
            flags if flags.has(MessageFlags::BITS_56) => 7,
            _ => 5,
        };
        let key = |base: &[u8], label| Md5::new_with_prefix(base).chain_update(label).finalize();
        Self {
            signing: key(session_key, signing).into(),
            sealing: key(&session_key[..strength], sealing).into(),
            key_exchange: flags.has(MessageFlags::KEY_EXCHANGE),
        }
    }

    /// The MIC of the first message in this direction (sequence number 0): that of SPNEGO's list of
    /// mechanisms. 3.4.4.2.
    pub fn mic(&self, message: &[u8]) -> [u8; 16] {
        let sequence = 0_u32.to_le_bytes();
        let mac = hmac_md5(&self.signing, &[&sequence, message]);
        let mut checksum: [u8; 8] = *mac.first_chunk().expect("8 of 16 bytes");
        if self.key_exchange {
            cipher(&self.sealing).apply_keystream(&mut checksum);
        }
        let mut mic = [0; 16];
        mic[0] = 1;
        mic[4..12].copy_from_slice(&checksum);
        mic[12..].copy_from_slice(&sequence);
        mic
    }

    /// Checks a MIC of [`MessageKeys::mic`], in constant time.
    ///
    /// # Errors
    /// It is another.
    pub fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), Forged> {
        constant_time::verify_slices_are_equal(&self.mic(message), mic).map_err(|_| Forged)
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> ([u8; 16], [u8; 16]) {
        (self.signing, self.sealing)
    }
}
