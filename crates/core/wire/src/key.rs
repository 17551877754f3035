//! Keys. All have 32 bytes, and each kind is derived from the one above it. So a daemon that holds
//! the server key can check every other key without a table of secrets:
//!
//! ```text
//!   server key --"client key", id--> client key --"ticket", ticket--> ticket key
//!       |--"session", credential--> session key     (issued to a client by the metadata server,
//!       `--"capability"--> capability key            which proves it to I/O daemons)
//! ```

use aws_lc_rs::hmac;

/// Bytes in every key.
pub const KEY_BYTES: usize = 32;

/// A secret key. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; KEY_BYTES]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a key file or an encrypted reply.
    pub fn to_bytes(&self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// The key derived from this one for `purpose` and `context`.
    pub fn derive(&self, purpose: &str, context: &[u8]) -> Self {
        Self(self.mac(purpose, &[context]))
    }

    /// HMAC-SHA-256 over the purpose, a zero byte, and the parts in order.
    pub fn mac(&self, purpose: &str, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut context = self.context(purpose);
        parts.iter().for_each(|part| context.update(part));
        let mut out = [0; KEY_BYTES];
        out.copy_from_slice(context.sign().as_ref());
        out
    }

    /// Whether `tag` is [`Secret::mac`] of the same, compared in constant time.
    pub fn verify(&self, purpose: &str, parts: &[&[u8]], tag: &[u8; KEY_BYTES]) -> bool {
        let ours = self.mac(purpose, parts);

        constant_time_eq(&ours, tag)
    }

    fn context(&self, purpose: &str) -> hmac::Context {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        context.update(purpose.as_bytes());
        context.update(&[0]);
        context
    }
}

/// Compares two tags in constant time: it reads every byte, wherever the first difference is.
pub(crate) fn constant_time_eq(a: &[u8; KEY_BYTES], b: &[u8; KEY_BYTES]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0u8, |diff, (a, b)| diff | (a ^ b))) == 0
}
