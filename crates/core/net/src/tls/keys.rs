//! The keys of one direction of a channel (RFC 8446 section 7), from the secret of the handshake.
//!
//! Invariant: a sequence number is used once per key. It increases with every record, and restarts
//! together with a new key.

use std::io;

use aws_lc_rs::{
    aead::{Algorithm, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk},
};

use super::invalid;

/// The length of SHA-256; every offered cipher suite uses it.
pub(super) const SECRET_BYTES: usize = 32;

/// A key, the secret of the key and its successor, and the number of its records.
pub(super) struct Keys {
    cipher: &'static Algorithm,
    secret: [u8; SECRET_BYTES],
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl Keys {
    pub(super) fn new(cipher: &'static Algorithm, secret: [u8; SECRET_BYTES]) -> io::Result<Self> {
        let (mut key, mut iv) = ([0; 32], [0; NONCE_LEN]);
        let key = &mut key[..cipher.key_len()];
        expand(&secret, b"key", key)?; // RFC 8446 section 7.3
        expand(&secret, b"iv", &mut iv)?;
        let key = UnboundKey::new(cipher, key).map_err(|_| invalid("a key was not accepted"))?;
        Ok(Self { cipher, secret, key: LessSafeKey::new(key), iv, sequence: 0 })
    }

    /// Switches to the next key (RFC 8446 section 7.2).
    pub(super) fn update(&mut self) -> io::Result<()> {
        let mut next = [0; SECRET_BYTES];
        expand(&self.secret, b"traffic upd", &mut next)?;
        *self = Self::new(self.cipher, next)?;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn iv(&self) -> [u8; NONCE_LEN] {
        self.iv
    }

    /// How many records were sealed or opened with the present key.
    pub(super) fn records(&self) -> u64 {
        self.sequence
    }

    /// The key and the nonce of the next record (RFC 8446 section 5.3). Each nonce is returned
    /// once.
    pub(super) fn next(&mut self) -> (&LessSafeKey, Nonce) {
        let mut nonce = self.iv;
        nonce[NONCE_LEN - 8..]
            .iter_mut()
            .zip(self.sequence.to_be_bytes())
            .for_each(|(byte, n)| *byte ^= n);
        self.sequence += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}

/// `HKDF-Expand-Label` of RFC 8446 section 7.1 without context.
fn expand(secret: &[u8; SECRET_BYTES], label: &[u8], out: &mut [u8]) -> io::Result<()> {
    let (length, label_bytes) = ((out.len() as u16).to_be_bytes(), [6 + label.len() as u8]);
    let info = [&length[..], &label_bytes, b"tls13 ", label, &[0]];
    let secret = Prk::new_less_safe(HKDF_SHA256, secret);
    let expanded = secret.expand(&info, Length(out.len())).and_then(|bytes| bytes.fill(out));
    expanded.map_err(|_| invalid("a key could not be derived"))
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
