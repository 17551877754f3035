//! The attributes of a file on its disk, as the metadata server gets them.

use std::os::fd::AsFd;

use braid_types::{ByteCount, FileIndex, IodId, Timestamp};
use braid_union::on_branch::{path_of, stat_fd, xattr_names, xattr_value};
use braid_wire::message::{
    FileKind,
    import::{ImportEntry, Xattr},
};
use rustix::fs::{FileType, Statx, StatxTimestamp};
use rustix::io::Errno;

use crate::Disk;

/// Extended attributes of the union and of objects: they mean nothing in a cluster.
const OWN: [&[u8]; 2] = [b"trusted.braid.", b"user.braid."];
/// The label of this host's policy; the host that reads the file has its own.
const SELINUX: &[u8] = b"security.selinux";
/// Of the stub of a striped file.
const STRIPED: &[u8] = b"trusted.braid.striped";

/// Why the attributes of a file do not join.
#[derive(Debug)]
pub(crate) enum Refusal {
    Striped,
    Error(Errno),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Striped => out.write_str(
                "it is striped over several disks; try: braid union up, copy it to a plain file, \
                 and join again",
            ),
            Self::Error(error) => error.fmt(out),
        }
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Self::Error(error)
    }
}

/// The root of the first disk: it gives the root of the union its attributes.
pub(crate) fn of_root(disk: &Disk) -> Result<ImportEntry, Errno> {
    match of_directory(disk, b"") {
        Ok(entry) => Ok(entry),
        Err(Refusal::Error(error)) => Err(error),
        Err(Refusal::Striped) => Err(Errno::INVAL),
    }
}

pub(crate) fn of_directory(disk: &Disk, path: &[u8]) -> Result<ImportEntry, Refusal> {
    let fd = disk.directory(path)?;
    let stat = stat_fd(&fd)?;
    let xattrs = xattrs(&fd)?;
    Ok(ImportEntry { xattrs, ..of_stat(&stat) })
}

/// All but the extended attributes, index, place and name.
pub(crate) fn of_stat(stat: &Statx) -> ImportEntry {
    let kind = kind(stat);
    let device = match kind {
        FileKind::CharDevice | FileKind::BlockDevice => {
            rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor)
        }
        _ => 0,
    };
    let bytes = if kind == FileKind::File { stat.stx_size } else { 0 };
    let changed = time(&stat.stx_ctime);
    let born = time(&stat.stx_btime);
    ImportEntry {
        dir: FileIndex(0),
        name: Vec::new(),
        kind,
        file: FileIndex(0),
        iod: IodId(0),
        bytes: ByteCount(bytes),
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid.into(),
        gid: stat.stx_gid.into(),
        device,
        target: Vec::new(),
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: changed,
        // File systems without a time of creation have 0.
        btime: if born == Timestamp::default() { changed } else { born },
        xattrs: Vec::new(),
    }
}

fn kind(stat: &Statx) -> FileKind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => FileKind::File,
    }
}

fn time(time: &StatxTimestamp) -> Timestamp {
    Timestamp { seconds: time.tv_sec, nanos: time.tv_nsec }
}

/// The extended attributes that join, by a descriptor; also of one opened with `O_PATH`.
pub(crate) fn xattrs(fd: impl AsFd) -> Result<Vec<Xattr>, Refusal> {
    let path = path_of(fd);
    let mut found = Vec::new();
    for name in xattr_names(&path)? {
        if name == STRIPED {
            return Err(Refusal::Striped);
        }
        if OWN.iter().any(|own| name.starts_with(own)) || name == SELINUX {
            continue;
        }
        match xattr_value(&path, &name) {
            Ok(value) => found.push(Xattr { name, value }),
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}
