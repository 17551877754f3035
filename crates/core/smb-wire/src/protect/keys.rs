//! Keys of a session, and the hash over its negotiation. MS-SMB2 3.1.4.2, 3.3.5.4, 3.3.5.5.3.

use std::fmt;

use aws_lc_rs::{digest, hmac};

use crate::smb2::Dialect;
use crate::smb2::negotiate::Cipher;

/// Bytes of a hash.
const HASH_BYTES: usize = 64;

/// A hash over messages, each with the hash over those before it. 3.3.5.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreauthHash([u8; HASH_BYTES]);

impl Default for PreauthHash {
    fn default() -> Self {
        Self([0; HASH_BYTES])
    }
}

impl PreauthHash {
    /// Adds a message, which is given in parts.
    pub fn update(&mut self, message: &[&[u8]]) {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(&self.0);
        message.iter().for_each(|part| context.update(part));
        self.0.copy_from_slice(context.finish().as_ref());
    }

    /// The hash.
    pub fn value(&self) -> &[u8] {
        &self.0
    }
}

/// The keys of a session. Those of the server's side: a client swaps encryption and decryption.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKeys {
    /// Signs messages.
    pub signing: [u8; 16],
    /// Encrypts what the server sends: 16 bytes, or 32 for a cipher of 256 bits. Empty in SMB 2.
    pub server_out: Vec<u8>,
    /// Decrypts what the server receives.
    pub server_in: Vec<u8>,
    /// For protocols above, such as RPC.
    pub application: [u8; 16],
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys").finish_non_exhaustive()
    }
}

/// Labels and contexts of the four keys, each with its byte of 0: signing, out, in, application.
const LABELS_311: [&[u8]; 4] =
    [b"SMBSigningKey\0", b"SMBS2CCipherKey\0", b"SMBC2SCipherKey\0", b"SMBAppKey\0"];
const LABELS_300: [(&[u8], &[u8]); 4] = [
    (b"SMB2AESCMAC\0", b"SmbSign\0"),
    (b"SMB2AESCCM\0", b"ServerOut\0"),
    (b"SMB2AESCCM\0", b"ServerIn \0"),
    (b"SMB2APP\0", b"SmbRpc\0"),
];

impl SessionKeys {
    /// The keys that follow from the key of a logon. `preauth` is used in 3.1.1 only, which has
    /// one.
    pub fn derive(
        dialect: Dialect,
        session_key: &[u8; 16],
        preauth: &PreauthHash,
        cipher: Option<Cipher>,
    ) -> Self {
        if !dialect.is_smb3() {
            // 3.3.5.5.3: the key itself signs.
            return Self {
                signing: *session_key,
                server_out: Vec::new(),
                server_in: Vec::new(),
                application: *session_key,
            };
        }
        let label = |at: usize| match dialect {
            Dialect::Smb311 => (LABELS_311[at], preauth.value()),
            _ => LABELS_300[at],
        };
        let derive = |at: usize, bytes: usize| {
            let (label, context) = label(at);
            derive(session_key, label, context, bytes)
        };
        let short = |at| derive(at, 16).try_into().expect("16 bytes were derived");
        let bytes = match cipher {
            Some(Cipher::AES_256_CCM | Cipher::AES_256_GCM) => 32,
            _ => 16,
        };
        Self {
            signing: short(0),
            server_out: derive(1, bytes),
            server_in: derive(2, bytes),
            application: short(3),
        }
    }
}

/// A key of up to 32 bytes: the KDF in counter mode of SP 800-108 with HMAC-SHA256, of which one
/// block is enough. 3.1.4.2.
fn derive(key: &[u8], label: &[u8], context: &[u8], bytes: usize) -> Vec<u8> {
    let mut hmac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    hmac.update(&1_u32.to_be_bytes());
    hmac.update(label);
    hmac.update(&[0]);
    hmac.update(context);
    hmac.update(&(bytes as u32 * 8).to_be_bytes());
    hmac.sign().as_ref()[..bytes].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protect::test_vectors::{
        FINAL_HASH, HASHES, MESSAGES, SESSION_KEY, SIGNING_KEY, hex,
    };

    #[test]
    fn keys_of_smb_3_0_are_those_of_the_published_example() {
        let session_key = hex("7CD451825D0450D235424E44BA6E78CC").try_into().unwrap();
        let none = PreauthHash::default();
        let keys = SessionKeys::derive(Dialect::Smb300, &session_key, &none, None);
        assert_eq!(keys.signing[..], hex("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
        assert_eq!(keys.application[..], hex("BB23A4575AA26C721AF525AF15A87B4F"));
        // The example names keys from the client's side.
        assert_eq!(keys.server_in, hex("FAD27796665B313EBB578F388632B4F7"));
        assert_eq!(keys.server_out, hex("B0F0427F7CEB416D1D9DCC0CD4F99447"));
    }

    #[test]
    fn keys_of_smb_3_1_1_follow_from_the_published_messages() {
        let mut hash = PreauthHash::default();
        for (message, wanted) in MESSAGES.iter().zip(HASHES) {
            let message = hex(message);
            let (header, body) = message.split_at(64);
            hash.update(&[header, body]);
            assert_eq!(hash.0[..], hex(wanted));
        }
        assert_eq!(hash.0[..], hex(FINAL_HASH));
        let session_key = hex(SESSION_KEY).try_into().unwrap();
        let cipher = Some(Cipher::AES_128_GCM);
        let keys = SessionKeys::derive(Dialect::Smb311, &session_key, &hash, cipher);
        assert_eq!(keys.signing[..], hex(SIGNING_KEY));
        assert_eq!(keys.application[..], hex("6D7AD7954E9EC61E907B4D473DC178FF"));
        assert_eq!(keys.server_in, hex("629BCBC54422A0F572B97F45989B6073"));
        assert_eq!(keys.server_out, hex("E2AF0DCEFAC68DA71A0DFBD0D1350D74"));
    }

    /// Values of another implementation: `KBKDFHMAC` of Python's `cryptography`, as `smbprotocol`
    /// uses it.
    #[test]
    fn keys_are_those_that_another_implementation_derives() {
        let session_key: [u8; 16] = std::array::from_fn(|at| at as u8);
        let hash = PreauthHash(std::array::from_fn(|at| at as u8));
        let keys = |dialect, cipher| SessionKeys::derive(dialect, &session_key, &hash, cipher);
        let new = keys(Dialect::Smb311, Some(Cipher::AES_256_GCM));
        assert_eq!(new.signing.to_vec(), hex("f7e5401ecc6e79ef9eab401b05004e4f"));
        assert_eq!(
            new.server_out,
            hex("7a55e2deed408102591fdea4192f54895bd7e4c879d11927493898b42c8a9ccd")
        );
        let old = keys(Dialect::Smb302, Some(Cipher::AES_128_CCM));
        assert_eq!(old.signing.to_vec(), hex("6234814cbb8ea9227440ebfeb5eacbe1"));
        assert_eq!(old.server_in, hex("8e21f3cae16d07d84c03d74467f57878"));
    }

    #[test]
    fn the_key_of_a_logon_signs_in_smb_2() {
        let keys = SessionKeys::derive(Dialect::Smb210, &[7; 16], &PreauthHash::default(), None);
        assert_eq!(keys.signing, [7; 16]);
        assert!(keys.server_out.is_empty());
    }

    #[test]
    fn a_hash_depends_on_all_messages_and_not_on_their_parts() {
        let hash = |messages: &[&[&[u8]]]| {
            let mut hash = PreauthHash::default();
            messages.iter().for_each(|message| hash.update(message));
            hash
        };
        assert_eq!(hash(&[&[b"ab", b"c"]]), hash(&[&[b"abc"]]));
        assert_ne!(hash(&[&[b"ab"], &[b"c"]]), hash(&[&[b"abc"]]));
    }

    #[test]
    fn ciphers_of_256_bits_have_keys_of_32_bytes() {
        let keys = |cipher| {
            SessionKeys::derive(Dialect::Smb311, &[1; 16], &PreauthHash::default(), Some(cipher))
        };
        assert_eq!(keys(Cipher::AES_256_GCM).server_in.len(), 32);
        assert_eq!(keys(Cipher::AES_128_GCM).server_in.len(), 16);
        let keys = keys(Cipher::AES_128_GCM);
        assert_ne!(keys.server_in, keys.server_out);
    }
}
