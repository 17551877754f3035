//! The same for systems without Linux's calls: correct, but not fast. The record is a file beside
//! the object.

use crate::{DeviceId, SizeChange, StoreSpace};
use braid_types::Timestamp;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

const RECORD_SUFFIX: &str = ".record";
/// Zeros are written in pieces of this size where holes cannot be punched.
const ZERO_PIECE_BYTES: usize = 64 * 1024;
/// Windows truncates no mapped file.
pub(super) const CAN_MAP: bool = false;

#[cfg(windows)]
pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, buf, offset) {
        // ERROR_HANDLE_EOF: reading at or past the end.
        Err(error) if error.raw_os_error() == Some(38) => Ok(0),
        result => result,
    }
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, data, offset)
}

#[cfg(unix)]
pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, data, offset)
}

pub(super) fn copy_range(
    _source: &File,
    _from: u64,
    _file: &File,
    _to: u64,
    _bytes: usize,
) -> io::Result<Option<usize>> {
    Ok(None)
}

/// The standard library has no call for it: later reads may come from the cache.
pub(super) fn drop_cached_pages(_file: &File) -> io::Result<()> {
    Ok(())
}

pub(super) fn advise_random(_file: &File) -> io::Result<()> {
    Ok(())
}

pub(super) fn advise_sequential(_file: &File) -> io::Result<()> {
    Ok(())
}

pub(super) fn read_record(_file: &File, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(record_path(path)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn write_record(_file: &File, path: &Path, record: &[u8]) -> io::Result<()> {
    let to = record_path(path);
    let mut new = to.clone().into_os_string();
    new.push(".new");
    let mut file = super::private::options().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(record)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(new, to)
}

/// The standard library cannot create unnamed files.
pub(super) fn create_unnamed(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// It is unknown, since there are no unnamed files to try it on.
pub(super) fn longest_file(_directory: &Path) -> u64 {
    braid_types::limits::FILE_BYTES_MAX
}

/// Never called.
pub(super) fn link_name(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The record first: an object without a record is corrupted, a record without an object is
/// harmless.
pub(super) fn rename_with_record(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(record_path(from), record_path(to))?;
    std::fs::rename(from, to)
}

pub(super) fn remove_with_record(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    match std::fs::remove_file(record_path(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn is_side_file(name: &str) -> bool {
    name.ends_with(RECORD_SUFFIX) || name.ends_with(".record.new")
}

fn record_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(RECORD_SUFFIX);
    name.into()
}

pub(super) fn apply_change(file: &File, change: SizeChange) -> io::Result<()> {
    match change {
        SizeChange::Truncate { length } => file.set_len(length),
        SizeChange::Punch { offset, length } => {
            let end = file.metadata()?.len().min(offset.0.saturating_add(length));
            write_zeros(file, offset.0, end)
        }
    }
}

fn write_zeros(file: &File, mut at: u64, end: u64) -> io::Result<()> {
    let zeros = [0; ZERO_PIECE_BYTES];
    while at < end {
        let piece = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        at += write_at(file, &zeros[..piece], at)? as u64;
    }
    Ok(())
}

pub(super) fn allocate(_file: &File, _offset: u64, _length: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Without a way to ask for holes, everything up to the end is data.
pub(super) fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    Ok((from < file.metadata()?.len()).then_some(from))
}

pub(super) fn next_hole(file: &File, from: u64) -> io::Result<Option<u64>> {
    let end = file.metadata()?.len();
    Ok((from < end).then_some(end))
}

/// The file system's information about an object's file.
pub(super) struct ObjectFileStat {
    pub(super) size: u64,
    pub(super) allocated_bytes: u64,
    /// Not before 1970: an older time is shown as 1970.
    pub(super) mtime: Timestamp,
}

pub(super) fn file_stat(file: &File) -> io::Result<ObjectFileStat> {
    let metadata = file.metadata()?;
    // A file system without times also shows 1970.
    let since = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    let mtime = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    Ok(ObjectFileStat { size: metadata.len(), allocated_bytes: metadata.len(), mtime })
}

/// Sets the modification time.
pub(super) fn set_modified(file: &File, modified: Timestamp) -> io::Result<()> {
    let since = Duration::new(u64::try_from(modified.seconds).unwrap_or_default(), modified.nanos);
    file.set_modified(UNIX_EPOCH + since)
}

#[cfg(unix)]
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Where directories cannot be synced, names are durable with the file.
#[cfg(not(unix))]
pub(super) fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) fn sync_file_system(_root: &File) -> io::Result<bool> {
    Ok(false)
}

/// The standard library cannot ask for free space: nothing is known and nothing is promised.
pub(super) fn space(_root: &File, device: DeviceId) -> io::Result<StoreSpace> {
    Ok(StoreSpace {
        device,
        total_bytes: 0,
        free_bytes: 0,
        available_bytes: 0,
        total_objects: 0,
        free_objects: 0,
    })
}

pub(super) fn device(_root: &File) -> io::Result<DeviceId> {
    Ok(DeviceId::default())
}

/// Without a boot id every start counts as a boot, which is safe (I6).
pub(super) fn boot_id() -> io::Result<String> {
    Ok(format!("{:016x}", crate::verifier::fresh().0))
}

pub(super) fn mount_id(_root: &File) -> io::Result<String> {
    Ok("0".to_owned())
}
