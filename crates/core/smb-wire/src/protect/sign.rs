//! Signatures of messages. MS-SMB2 3.1.4.1.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{cmac, constant_time, hmac};

use crate::smb2::header::SIGNATURE;
use crate::smb2::negotiate::SigningAlgorithm;
use crate::smb2::{Command, Header};

/// The side that sends a message; part of the nonce of AES-GMAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Signs messages with the key of a session.
pub enum Signer {
    /// HMAC-SHA256, of which 16 bytes are used: SMB 2.
    Hmac(Box<hmac::Key>),
    /// AES-128-CMAC: SMB 3.
    Cmac(Box<cmac::Key>),
    /// AES-128-GMAC: 3.1.1.
    Gmac(Box<LessSafeKey>),
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hmac(_) => "Signer::Hmac",
            Self::Cmac(_) => "Signer::Cmac",
            Self::Gmac(_) => "Signer::Gmac",
        })
    }
}

impl Signer {
    /// A signer. `None` for an algorithm that is not known.
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Option<Self> {
        match algorithm {
            SigningAlgorithm::HMAC_SHA256 => {
                Some(Self::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))))
            }
            SigningAlgorithm::AES_CMAC => {
                cmac::Key::new(cmac::AES_128, key).ok().map(|key| Self::Cmac(Box::new(key)))
            }
            SigningAlgorithm::AES_GMAC => {
                let key = UnboundKey::new(&AES_128_GCM, key).ok()?;
                Some(Self::Gmac(Box::new(LessSafeKey::new(key))))
            }
            _ => None,
        }
    }

    /// Sets the signature of a header. `rest` is what follows the header, in parts, with the
    /// padding before the next message of a compound. `None` if the library fails.
    pub fn sign(&self, header: &mut Header, rest: &[&[u8]], sender: Sender) -> Option<()> {
        header.signature = [0; 16];
        header.signature = self.signature(header, &header.to_bytes(), rest, sender)?;
        Some(())
    }

    /// Whether the signature of a message is right.
    pub fn verify(&self, header: &Header, message: &[u8], sender: Sender) -> bool {
        let Some((first, rest)) = message.split_first_chunk::<64>() else { return false };
        let mut zeroed = *first;
        zeroed[SIGNATURE].fill(0);
        let wanted = self.signature(header, &zeroed, &[rest], sender);
        wanted.is_some_and(|wanted| {
            constant_time::verify_slices_are_equal(&wanted, &header.signature).is_ok()
        })
    }

    fn signature(
        &self,
        header: &Header,
        first: &[u8],
        rest: &[&[u8]],
        sender: Sender,
    ) -> Option<[u8; 16]> {
        match self {
            Self::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                context.update(first);
                rest.iter().for_each(|part| context.update(part));
                context.sign().as_ref().first_chunk().copied()
            }
            Self::Cmac(key) => {
                let mut context = cmac::Context::with_key(key);
                context.update(first).ok()?;
                rest.iter().try_for_each(|part| context.update(part)).ok()?;
                context.sign().ok()?.as_ref().first_chunk().copied()
            }
            Self::Gmac(key) => {
                let nonce = gmac_nonce(header, sender);
                // The library takes the additional data in one slice.
                let message = [&[first], rest].concat().concat();
                let tag = key.seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(&message),
                    &mut [],
                );
                tag.ok()?.as_ref().first_chunk().copied()
            }
        }
    }
}

/// The nonce of a message, 3.1.4.1: its number, and a bit each for the server's messages and for
/// those of CANCEL, whose number another message has.
fn gmac_nonce(header: &Header, sender: Sender) -> [u8; 12] {
    let mut bits = u32::from(sender == Sender::Server);
    if header.command == Command::Cancel as u16 {
        bits |= 2;
    }
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&header.message_id.to_le_bytes());
    nonce[8..].copy_from_slice(&bits.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Reader;
    use crate::protect::test_vectors::{LAST_RESPONSE, SIGNING_KEY, hex};

    const ALL: [SigningAlgorithm; 3] =
        [SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_CMAC, SigningAlgorithm::AES_GMAC];

    fn signed(signer: &Signer) -> (Header, Vec<u8>) {
        let mut header = Header::request(Command::Write, 77);
        signer.sign(&mut header, &[b"abc", b"", b"defg"], Sender::Client).unwrap();
        let message = [&header.to_bytes()[..], b"abcdefg"].concat();
        (header, message)
    }

    #[test]
    fn a_signature_is_over_all_bytes_and_the_sender() {
        for algorithm in ALL {
            let signer = Signer::new(algorithm, &[5; 16]).unwrap();
            let (header, message) = signed(&signer);
            assert!(signer.verify(&header, &message, Sender::Client), "{algorithm:?}");
            let other = Signer::new(algorithm, &[6; 16]).unwrap();
            assert!(!other.verify(&header, &message, Sender::Client));
            for at in (0..message.len()).filter(|at| !SIGNATURE.contains(at)) {
                let mut bad = message.clone();
                bad[at] ^= 1;
                assert!(!signer.verify(&header, &bad, Sender::Client), "{algorithm:?} {at}");
            }
            assert!(!signer.verify(&header, &message[..63], Sender::Client), "too short");
        }
        let gmac = Signer::new(SigningAlgorithm::AES_GMAC, &[5; 16]).unwrap();
        let (header, message) = signed(&gmac);
        assert!(!gmac.verify(&header, &message, Sender::Server), "a reflected message");
        assert!(Signer::new(SigningAlgorithm(9), &[0; 16]).is_none());
    }

    fn published() -> (Header, Vec<u8>) {
        let message = hex(LAST_RESPONSE);
        (Header::decode(&mut Reader::new(message.clone().into())).unwrap(), message)
    }

    #[test]
    fn cmac_signs_the_published_response() {
        let key = hex(SIGNING_KEY).try_into().unwrap();
        let signer = Signer::new(SigningAlgorithm::AES_CMAC, &key).unwrap();
        let (header, message) = published();
        assert!(signer.verify(&header, &message, Sender::Server));
    }

    /// HMAC and GMAC of the published response under the key 00 01 .. 0f: values of Python's
    /// `hmac` and `cryptography`.
    #[test]
    fn hmac_and_gmac_sign_as_another_implementation() {
        let key: [u8; 16] = std::array::from_fn(|at| at as u8);
        let wanted = [
            (SigningAlgorithm::HMAC_SHA256, "3642f9cb2ee03e958466b5fafcc7de7c"),
            (SigningAlgorithm::AES_GMAC, "5dc638390abdfabd105016950b11dff9"),
        ];
        for (algorithm, wanted) in wanted {
            let signer = Signer::new(algorithm, &key).unwrap();
            let (header, mut message) = published();
            message[SIGNATURE].fill(0);
            let (first, rest) = message.split_at(64);
            let signature = signer.signature(&header, first, &[rest], Sender::Server).unwrap();
            assert_eq!(signature[..], hex(wanted), "{algorithm:?}");
        }
    }

    #[test]
    fn a_nonce_of_gmac_has_the_role_and_the_cancel_bit() {
        let header = Header::request(Command::Read, 0x0807_0605_0403_0201);
        assert_eq!(gmac_nonce(&header, Sender::Client), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
        assert_eq!(gmac_nonce(&header, Sender::Server), [1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0]);
        let cancel = Header { command: Command::Cancel as u16, ..header };
        assert_eq!(gmac_nonce(&cancel, Sender::Client), [1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0]);
    }
}
