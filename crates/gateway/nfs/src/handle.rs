//! File handles: what identifies a file to clients, for as long as the file exists.
//!
//! ```text
//!   version 1 · kind · export (4) · file system (4) · file (8) · MAC (16)          34 bytes
//! ```
//!
//! Numbers are big-endian. `kind` is 1 for a directory of the pseudo file system, 2 for a file of
//! an export. The MAC is HMAC-SHA-256 over what precedes it, cut to 16 bytes, with a key that all
//! gateways of a file system have.
//!
//! Invariants:
//! 1. A handle names a file and the export through which the client reached it. Since the MAC
//!    cannot be forged, a client has no handles of files outside the exports that it may use.
//! 2. File indices are never reused, so a handle never names another file later.

use aws_lc_rs::hmac;
use braid_nfs_wire::nfs4::{FileHandle, NfsStatus};
use braid_share::{FileIndex, FileSystemId};
use bytes::Bytes;

const VERSION: u8 = 1;
const PSEUDO: u8 = 1;
const FILE: u8 = 2;
const BODY_BYTES: usize = 18;
const MAC_BYTES: usize = 16;
const HANDLE_BYTES: usize = BODY_BYTES + MAC_BYTES;

/// What a file handle names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HandleTarget {
    /// A directory of the pseudo file system.
    Pseudo {
        /// Its number.
        node: u64,
    },
    /// A file of an export.
    File {
        /// Number of the export.
        export: u32,
        /// The file.
        file: FileIndex,
    },
}

/// Makes and checks file handles.
pub struct HandleKey {
    key: hmac::Key,
    file_system: u32,
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandleKey").finish_non_exhaustive()
    }
}

impl HandleKey {
    /// A key from the configured secret.
    pub fn new(secret: &[u8; 32], file_system: FileSystemId) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self { key, file_system: short_hash(&file_system.0) }
    }

    /// The handle of `target`.
    pub fn encode(&self, target: HandleTarget) -> FileHandle {
        let (kind, export, number) = match target {
            HandleTarget::Pseudo { node } => (PSEUDO, 0, node),
            HandleTarget::File { export, file } => (FILE, export, file.0),
        };
        let mut bytes = Vec::with_capacity(HANDLE_BYTES);
        bytes.extend([VERSION, kind]);
        bytes.extend(export.to_be_bytes());
        bytes.extend(self.file_system.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        debug_assert_eq!(bytes.len(), BODY_BYTES);
        let mac = hmac::sign(&self.key, &bytes);
        bytes.extend(&mac.as_ref()[..MAC_BYTES]);
        FileHandle(Bytes::from(bytes))
    }

    /// What a client's handle names.
    ///
    /// # Errors
    /// `BADHANDLE` if no gateway of this file system made it; `STALE` if one of another file system
    /// did.
    pub fn decode(&self, handle: &FileHandle) -> Result<HandleTarget, NfsStatus> {
        let bytes: &[u8; HANDLE_BYTES] =
            handle.0[..].try_into().map_err(|_| NfsStatus::BadHandle)?;
        let (body, mac) = bytes.split_at(BODY_BYTES);
        let expected = hmac::sign(&self.key, body);
        let equal =
            aws_lc_rs::constant_time::verify_slices_are_equal(&expected.as_ref()[..MAC_BYTES], mac);
        if equal.is_err() || body[0] != VERSION {
            return Err(NfsStatus::BadHandle);
        }
        let u32_at = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().expect("4 bytes"));
        let number = u64::from_be_bytes(body[10..].try_into().expect("8 bytes"));
        if u32_at(6) != self.file_system {
            return Err(NfsStatus::Stale);
        }
        match body[1] {
            PSEUDO => Ok(HandleTarget::Pseudo { node: number }),
            FILE => Ok(HandleTarget::File { export: u32_at(2), file: FileIndex(number) }),
            _ => Err(NfsStatus::BadHandle),
        }
    }
}

/// The first 32 bits of SHA-256: a number for a name that is the same at all gateways.
pub fn short_hash(name: &[u8]) -> u32 {
    (long_hash(name) >> 32) as u32
}

/// The first 128 bits of SHA-256.
pub fn digest(name: &[u8]) -> [u8; 16] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name);
    *digest.as_ref().first_chunk().expect("32 bytes")
}

/// The first 64 bits of SHA-256.
pub fn long_hash(name: &[u8]) -> u64 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name);
    u64::from_be_bytes(digest.as_ref()[..8].try_into().expect("32 bytes"))
}

#[cfg(test)]
mod tests;
