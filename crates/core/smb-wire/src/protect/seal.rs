//! Encryption of messages. MS-SMB2 3.1.4.3, 3.1.5.1.
//!
//! Invariant: no nonce is used twice with a key: each direction of a session has a key of its own,
//! and a counter that its frames increase.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ccm::Ccm;
use ccm::aead::{AeadInOut, KeyInit};
use ccm::consts::{U11, U16};

use super::Forged;
use crate::frame::Transform;
use crate::smb2::negotiate::Cipher;

type Ccm128 = Ccm<Aes128, U16, U11>;
type Ccm256 = Ccm<Aes256, U16, U11>;

/// Encrypts or decrypts the messages of one direction of a session.
pub struct Sealer {
    key: Key,
    /// The number of the next frame.
    next: AtomicU64,
}

enum Key {
    Gcm(LessSafeKey),
    Ccm128(Box<Ccm128>),
    Ccm256(Box<Ccm256>),
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

impl Sealer {
    /// A sealer. `None` if the cipher is not known, or has keys of another length.
    pub fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        let gcm = |algorithm| {
            UnboundKey::new(algorithm, key).ok().map(|key| Key::Gcm(LessSafeKey::new(key)))
        };
        let key = match cipher {
            Cipher::AES_128_GCM => gcm(&AES_128_GCM)?,
            Cipher::AES_256_GCM => gcm(&AES_256_GCM)?,
            Cipher::AES_128_CCM => Key::Ccm128(Box::new(Ccm128::new_from_slice(key).ok()?)),
            Cipher::AES_256_CCM => Key::Ccm256(Box::new(Ccm256::new_from_slice(key).ok()?)),
            _ => return None,
        };
        Some(Self { key, next: AtomicU64::new(1) })
    }

    /// The frame of encrypted messages: the header of 2.2.41, and the messages, which are given in
    /// parts.
    ///
    /// # Errors
    /// The library fails, the key has used all its nonces, or the messages are over 4 GiB.
    pub fn seal(&self, session_id: u64, messages: &[&[u8]]) -> Result<Vec<u8>, Forged> {
        let bytes: usize = messages.iter().map(|part| part.len()).sum();
        let mut nonce = [0; 16];
        let next = |number: u64| number.checked_add(1);
        let number = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let number = number.map_err(|_| Forged)?;
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let mut header = Transform {
            signature: [0; 16],
            nonce,
            original_size: u32::try_from(bytes).map_err(|_| Forged)?,
            flags: Transform::ENCRYPTED,
            session_id,
        };
        let mut frame = Vec::with_capacity(Transform::BYTES + bytes);
        frame.extend_from_slice(&header.to_bytes());
        messages.iter().for_each(|part| frame.extend_from_slice(part));
        let (first, plain) = frame.split_at_mut(Transform::BYTES);
        let authenticated = &first[Transform::AUTHENTICATED];
        header.signature = match &self.key {
            Key::Gcm(key) => {
                let nonce = Nonce::assume_unique_for_key(*nonce.first_chunk().ok_or(Forged)?);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(authenticated), plain);
                *tag.map_err(|_| Forged)?.as_ref().first_chunk().ok_or(Forged)?
            }
            Key::Ccm128(key) => ccm_seal(&**key, &nonce, authenticated, plain)?,
            Key::Ccm256(key) => ccm_seal(&**key, &nonce, authenticated, plain)?,
        };
        first.copy_from_slice(&header.to_bytes());
        Ok(frame)
    }

    /// The messages of an encrypted frame, whose header was read.
    ///
    /// # Errors
    /// [`Forged`]: another key, or a changed frame.
    pub fn unseal(&self, header: &Transform, frame: &[u8]) -> Result<Vec<u8>, Forged> {
        let (first, sealed) = frame.split_at_checked(Transform::BYTES).ok_or(Forged)?;
        if sealed.len() != header.original_size as usize {
            return Err(Forged);
        }
        let authenticated = &first[Transform::AUTHENTICATED];
        let (nonce, tag) = (&header.nonce, &header.signature);
        let mut plain = sealed.to_vec();
        match &self.key {
            Key::Gcm(key) => {
                plain.extend_from_slice(tag);
                let nonce = Nonce::assume_unique_for_key(*nonce.first_chunk().ok_or(Forged)?);
                let opened = key.open_in_place(nonce, Aad::from(authenticated), &mut plain);
                let length = opened.map_err(|_| Forged)?.len();
                plain.truncate(length);
            }
            Key::Ccm128(key) => ccm_open(&**key, nonce, authenticated, &mut plain, tag)?,
            Key::Ccm256(key) => ccm_open(&**key, nonce, authenticated, &mut plain, tag)?,
        }
        Ok(plain)
    }
}

fn ccm_seal<C>(
    cipher: &C,
    nonce: &[u8; 16],
    authenticated: &[u8],
    plain: &mut [u8],
) -> Result<[u8; 16], Forged>
where
    C: AeadInOut<NonceSize = U11, TagSize = U16>,
{
    let nonce: [u8; 11] = *nonce.first_chunk().ok_or(Forged)?;
    let tag = cipher.encrypt_inout_detached(&nonce.into(), authenticated, plain.into());
    Ok(tag.map_err(|_| Forged)?.into())
}

fn ccm_open<C>(
    cipher: &C,
    nonce: &[u8; 16],
    authenticated: &[u8],
    sealed: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), Forged>
where
    C: AeadInOut<NonceSize = U11, TagSize = U16>,
{
    let nonce: [u8; 11] = *nonce.first_chunk().ok_or(Forged)?;
    let tag = (*tag).into();
    cipher
        .decrypt_inout_detached(&nonce.into(), authenticated, sealed.into(), &tag)
        .map_err(|_| Forged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Reader;
    use crate::protect::test_vectors::hex;

    const CIPHERS: [(Cipher, usize); 4] = [
        (Cipher::AES_128_CCM, 16),
        (Cipher::AES_128_GCM, 16),
        (Cipher::AES_256_CCM, 32),
        (Cipher::AES_256_GCM, 32),
    ];

    fn header(frame: &[u8]) -> Transform {
        Transform::decode(&mut Reader::new(frame.to_vec().into())).unwrap()
    }

    /// The first frame of session 5 under the key 00 01 .., "a message": the text and tag that
    /// Python's `cryptography` gives.
    #[test]
    fn messages_are_sealed_as_by_another_implementation() {
        let wanted = [
            "1fe0752fb44f1d551130bb7fccaeb1879c347f3b0be5eda2ee",
            "2d9db460eec5f3097d6bb44d89befe25a812bf62df2a411708",
            "8630edadb229bb02ef0d0e9640ab8abfdca04b826eb19b4bb6",
            "830cef5ad7dc8d602f3d1302035c2da110e1a9c45f6a8650a1",
        ];
        for ((cipher, bytes), wanted) in CIPHERS.into_iter().zip(wanted) {
            let key: Vec<u8> = (0..bytes as u8).collect();
            let frame = Sealer::new(cipher, &key).unwrap().seal(5, &[b"a ", b"message"]).unwrap();
            let sealed = [&frame[Transform::BYTES..], &frame[Transform::SIGNATURE]].concat();
            assert_eq!(sealed, hex(wanted), "{cipher:?}");
        }
    }

    #[test]
    fn a_key_without_nonces_encrypts_nothing_more() {
        let sealer = Sealer::new(Cipher::AES_128_GCM, &[1; 16]).unwrap();
        sealer.next.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(sealer.seal(1, &[]), Err(Forged));
        assert_eq!(sealer.seal(1, &[]), Err(Forged), "it does not begin again");
    }

    #[test]
    fn what_was_sealed_is_opened_by_the_same_key_only() {
        for (cipher, bytes) in CIPHERS {
            let sealer = Sealer::new(cipher, &vec![3; bytes]).unwrap();
            let frame = sealer.seal(9, &[b"one", b"two"]).unwrap();
            assert_eq!(header(&frame).session_id, 9);
            assert_eq!(sealer.unseal(&header(&frame), &frame).unwrap(), b"onetwo");
            let other = Sealer::new(cipher, &vec![4; bytes]).unwrap();
            assert_eq!(other.unseal(&header(&frame), &frame), Err(Forged), "{cipher:?}");
            assert!(Sealer::new(cipher, &[0; 17]).is_none());
        }
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        for (cipher, bytes) in CIPHERS {
            let sealer = Sealer::new(cipher, &vec![3; bytes]).unwrap();
            let frame = sealer.seal(9, &[b"some bytes"]).unwrap();
            for at in Transform::SIGNATURE.start..frame.len() {
                let mut bad = frame.clone();
                bad[at] ^= 1;
                let Ok(header) = Transform::decode(&mut Reader::new(bad.clone().into())) else {
                    continue;
                };
                assert_eq!(sealer.unseal(&header, &bad), Err(Forged), "{cipher:?} {at}");
            }
        }
    }

    #[test]
    fn no_nonce_is_used_twice() {
        let sealer = Sealer::new(Cipher::AES_128_GCM, &[3; 16]).unwrap();
        let mut nonces: Vec<_> =
            (0..100).map(|_| header(&sealer.seal(1, &[b"x"]).unwrap()).nonce).collect();
        nonces.sort_unstable();
        nonces.dedup();
        assert_eq!(nonces.len(), 100);
    }
}
