//! Local files on Windows. Names are Unicode, owners have no numbers, and of the mode only the
//! write permission is stored, as the read-only attribute. Hard links are copied as separate files.

use std::{
    ffi::OsString,
    fs::{self, File, FileTimes, OpenOptions},
    io::{self, ErrorKind},
    os::windows::fs::{FileExt, symlink_dir, symlink_file},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use braid_types::Timestamp;

use crate::transfer::side::{Kind, Meta};

/// A read-only file cannot be opened to set its times.
pub(super) const TIMES_BEFORE_MODE: bool = true;
/// The mode of a file or directory with write permission.
const WRITABLE: u32 = 0o755;
const READ_ONLY: u32 = 0o555;

/// Only Unicode is a path on Windows.
pub(super) fn path(bytes: &[u8]) -> io::Result<&Path> {
    let name = std::str::from_utf8(bytes);
    name.map(Path::new)
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "the name is not Unicode"))
}

pub(super) fn bytes(name: OsString) -> io::Result<Vec<u8>> {
    let unicode = name.into_string().map(String::into_bytes);
    unicode.map_err(|_| io::Error::new(ErrorKind::InvalidData, "a name is not Unicode"))
}

pub(super) fn writing(_mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

pub(super) fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    let leads_to = at.parent().map_or_else(|| target.to_path_buf(), |parent| parent.join(target));
    if leads_to.is_dir() { symlink_dir(target, at) } else { symlink_file(target, at) }
}

/// Files on Windows have no such owner.
pub(super) fn set_owner(_path: &Path, _owner: (u64, u64)) -> io::Result<()> {
    Ok(())
}

pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(mode & 0o222 == 0);
    fs::set_permissions(path, permissions)
}

pub(super) fn set_times(path: &Path, times: FileTimes) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        // A directory cannot be opened like this: it keeps the time of the copy.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && path.is_dir() => Ok(()),
        file => file?.set_times(times),
    }
}

/// All attributes but type and size.
pub(super) fn facts(found: &fs::Metadata, kind: Kind) -> Meta {
    let time = |time: io::Result<SystemTime>| time.map(timestamp).unwrap_or_default();
    Meta {
        kind,
        bytes: 0,
        bytes_used: found.len(),
        mode: if found.permissions().readonly() { READ_ONLY } else { WRITABLE },
        owner: (0, 0),
        atime: time(found.accessed()),
        mtime: time(found.modified()),
        link_id: None,
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() },
        Err(before) => Timestamp { seconds: -(before.duration().as_secs() as i64) - 1, nanos: 0 },
    }
}

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    match file.seek_read(buffer, offset) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => (bytes, offset) = (&bytes[written..], offset + written as u64),
        }
    }
    Ok(())
}
