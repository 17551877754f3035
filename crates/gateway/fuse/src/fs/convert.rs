//! Conversions between the kernel's values and those of `vfs`.

use std::time::Duration;

use braid_vfs::{Attributes, Cacheable, FileKind, Timestamp};

use crate::kernel::{self, Entry, Kind, Time, Validity};

/// The value of `st_blksize`. Programs read and write in units of it, so larger is faster; but C's
/// stdio allocates a buffer of it for every file, however small.
const BLOCK_BYTES: u32 = 128 * 1024;

/// A name and its file for the kernel, and what of it may be cached.
pub(super) fn entry(found: &Attributes, cacheable: Cacheable) -> Entry {
    Entry {
        node: found.file.0,
        generation: 0,
        name_valid: name_validity(cacheable.name),
        attributes_valid: validity(cacheable.attributes),
        attributes: attributes(found),
    }
}

/// How long the kernel may use a name under a lease: until the recall. A thread of the kernel may
/// apply the reply after the recall; then no longer than this (docs/adr/0023).
pub(super) const NAME_VALID: Duration = Duration::from_secs(30);

pub(super) fn name_validity(cacheable: bool) -> Validity {
    if cacheable { Validity::For(NAME_VALID) } else { Validity::Never }
}

/// How long the kernel may use attributes: until they are recalled, or not at all.
pub(super) fn validity(cacheable: bool) -> Validity {
    if cacheable { Validity::Always } else { Validity::Never }
}

pub(super) fn attributes(a: &Attributes) -> kernel::Attributes {
    kernel::Attributes {
        ino: a.file.0,
        size: a.bytes.0,
        blocks: a.bytes_used.0.div_ceil(512),
        accessed: time(a.atime),
        modified: time(a.mtime),
        changed: time(a.ctime),
        mode: kind_bits(a.kind) | a.mode & 0o7777,
        links: a.links,
        uid: id(a.uid),
        gid: id(a.gid),
        // The kernel's "new" encoding in 32 bits is the low half of that of the C library.
        device: a.device as u32,
        block_size: BLOCK_BYTES,
    }
}

/// Linux has 32 bits for users and groups, the metadata server 64. Larger ones are shown as nobody.
fn id(id: u64) -> u32 {
    const NOBODY: u32 = 65534;
    u32::try_from(id).unwrap_or(NOBODY)
}

pub(super) fn time(t: Timestamp) -> Time {
    Time { seconds: t.seconds, nanoseconds: t.nanos }
}

pub(super) fn timestamp(t: Time) -> Timestamp {
    Timestamp { seconds: t.seconds, nanos: t.nanoseconds }
}

/// The kind in the upper bits of a mode, `S_IFMT`.
fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
        _ => 0,
    }
}

/// The kind as a directory listing shows it.
pub(super) fn kind(kind: FileKind) -> Kind {
    Kind::of_mode(kind_bits(kind))
}

/// The kind that mknod(2) asks for; a mode without a kind means a file.
pub(super) fn kind_of_mode(mode: u32) -> Option<FileKind> {
    match Kind::of_mode(mode) {
        Kind::File => Some(FileKind::File),
        Kind::Unknown if mode & 0o170_000 == 0 => Some(FileKind::File),
        Kind::Fifo => Some(FileKind::Fifo),
        Kind::Socket => Some(FileKind::Socket),
        Kind::CharacterDevice => Some(FileKind::CharDevice),
        Kind::BlockDevice => Some(FileKind::BlockDevice),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_the_kernels_mode() {
        for made in [
            FileKind::File,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::CharDevice,
            FileKind::BlockDevice,
        ] {
            assert_eq!(kind_of_mode(kind_bits(made) | 0o644), Some(made));
        }
        assert_eq!(kind_of_mode(0o644), Some(FileKind::File));
        assert_eq!(kind_of_mode(kind_bits(FileKind::Directory)), None);
        assert_eq!(kind(FileKind::Symlink), Kind::Symlink);
    }
}
