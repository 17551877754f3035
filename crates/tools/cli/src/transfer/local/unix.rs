//! Local files on Unix.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, FileTimes, OpenOptions},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use braid_types::Timestamp;

use crate::transfer::copy_side::{EntryAttributes, EntryKind};

pub(super) use std::os::unix::fs::symlink;

/// The owner of a file can set its times even without write permission.
pub(super) const TIMES_BEFORE_MODE: bool = false;

/// Any bytes are a path on Unix.
pub(super) fn path(bytes: &[u8]) -> io::Result<&Path> {
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

pub(super) fn bytes(name: OsString) -> io::Result<Vec<u8>> {
    Ok(name.into_vec())
}

pub(super) fn writing(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode);
    options
}

pub(super) fn set_owner(path: &Path, owner: (u64, u64)) -> io::Result<()> {
    let id = |id: u64| u32::try_from(id).ok();
    std::os::unix::fs::lchown(path, id(owner.0), id(owner.1))
}

pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub(super) fn set_times(path: &Path, times: FileTimes) -> io::Result<()> {
    File::open(path)?.set_times(times)
}

/// All attributes but type and size.
pub(super) fn facts(found: &fs::Metadata, kind: EntryKind) -> EntryAttributes {
    EntryAttributes {
        kind,
        bytes: 0,
        bytes_used: found.blocks() * 512,
        mode: found.mode() & 0o7777,
        owner: (u64::from(found.uid()), u64::from(found.gid())),
        atime: Timestamp { seconds: found.atime(), nanos: found.atime_nsec() as u32 },
        mtime: Timestamp { seconds: found.mtime(), nanos: found.mtime_nsec() as u32 },
        link_id: (kind == EntryKind::File && found.nlink() > 1).then(|| (found.dev(), found.ino())),
    }
}

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}
