//! The proofs of the secret in both directions, and the keys derived from them. No I/O.

use braid_wire::Secret;

/// The first bytes of a hello: protocol and version (I10).
const MAGIC: [u8; 8] = *b"BRDGRP01";
pub(super) const NONCE_BYTES: usize = 32;
pub(super) const PROOF_BYTES: usize = 32;
/// Magic, size, rank, nonce.
pub(super) const HELLO_BYTES: usize = 8 + 4 + 4 + NONCE_BYTES;
/// The root's nonce and proof.
pub(super) const ANSWER_BYTES: usize = NONCE_BYTES + PROOF_BYTES;

/// The messages of both ends before the proofs. Every proof covers them.
#[derive(Clone)]
pub(super) struct Transcript([u8; HELLO_BYTES + NONCE_BYTES]);

/// The keys of one connection.
pub(super) struct Keys {
    pub(super) to_root: Secret,
    pub(super) to_member: Secret,
}

/// The first message of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    pub(super) size: u32,
    pub(super) rank: u32,
    pub(super) nonce: [u8; NONCE_BYTES],
}

impl Hello {
    pub(super) fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.rank.to_le_bytes());
        bytes[16..].copy_from_slice(&self.nonce);
        bytes
    }

    /// `None` if it is not a hello.
    pub(super) fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (rank, rest) = rest.split_first_chunk::<4>()?;
        let nonce = *rest.first_chunk::<NONCE_BYTES>()?;
        (*magic == MAGIC).then(|| Self {
            size: u32::from_le_bytes(*size),
            rank: u32::from_le_bytes(*rank),
            nonce,
        })
    }
}

impl Transcript {
    pub(super) fn new(hello: &[u8; HELLO_BYTES], nonce: &[u8; NONCE_BYTES]) -> Self {
        let mut said = [0; HELLO_BYTES + NONCE_BYTES];
        said[..HELLO_BYTES].copy_from_slice(hello);
        said[HELLO_BYTES..].copy_from_slice(nonce);
        Self(said)
    }

    pub(super) fn proof_of_root(&self, secret: &Secret) -> [u8; PROOF_BYTES] {
        secret.mac("group root", &[&self.0])
    }

    pub(super) fn is_root(&self, secret: &Secret, proof: &[u8; PROOF_BYTES]) -> bool {
        secret.verify("group root", &[&self.0], proof)
    }

    pub(super) fn proof_of_member(&self, secret: &Secret) -> [u8; PROOF_BYTES] {
        secret.mac("group member", &[&self.0])
    }

    pub(super) fn is_member(&self, secret: &Secret, proof: &[u8; PROOF_BYTES]) -> bool {
        secret.verify("group member", &[&self.0], proof)
    }

    pub(super) fn keys(&self, secret: &Secret) -> Keys {
        Keys {
            to_root: secret.derive("group to root", &self.0),
            to_member: secret.derive("group to member", &self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_decoded_and_another_version_is_refused() {
        let hello = Hello { size: 5, rank: 3, nonce: [9; NONCE_BYTES] };
        let mut bytes = hello.to_bytes();
        assert_eq!(Hello::from_bytes(&bytes), Some(hello));
        bytes[7] = b'2';
        assert_eq!(Hello::from_bytes(&bytes), None);
    }

    #[test]
    fn a_proof_holds_for_one_secret_one_role_and_one_transcript() {
        let (secret, other) = (Secret::from_bytes([1; 32]), Secret::from_bytes([2; 32]));
        let said = |nonce: u8| {
            let hello = Hello { size: 2, rank: 1, nonce: [nonce; NONCE_BYTES] };
            Transcript::new(&hello.to_bytes(), &[7; NONCE_BYTES])
        };
        let proof = said(1).proof_of_root(&secret);
        assert!(said(1).is_root(&secret, &proof));
        assert!(!said(1).is_root(&other, &proof));
        assert!(!said(1).is_member(&secret, &proof), "a reflected proof");
        assert!(!said(2).is_root(&secret, &proof), "a repeated proof");
        let keys = said(1).keys(&secret);
        assert_ne!(keys.to_root.to_bytes(), keys.to_member.to_bytes());
    }
}
