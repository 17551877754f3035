//! Structures of the calls that make existing files of a disk files of the cluster (ADR 0050).

use braid_types::{ByteCount, FileIndex, IodId, Status, Timestamp};

use super::FileKind;
use crate::codec::wire_struct;

wire_struct! {
    /// An extended attribute.
    pub struct Xattr {
        /// Its name with the prefix. `system.posix_acl_access` and `system.posix_acl_default` are
        /// access control lists.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    }

    /// A name to import, with the file that it leads to.
    pub struct ImportEntry {
        /// The directory.
        dir: FileIndex,
        /// The name in it.
        name: Vec<u8>,
        /// The kind of file.
        kind: FileKind,
        /// The reserved index of a regular file, whose object exists already; 0 for other kinds. An
        /// index that is a file already makes the name one more name of that file; the attributes
        /// are not used then.
        file: FileIndex,
        /// The daemon that has the only object of a regular file; 0 for other kinds.
        iod: IodId,
        /// Size of a regular file; 0 for other kinds.
        bytes: ByteCount,
        /// Permission bits, setuid, setgid, sticky: the low 12 bits.
        mode: u32,
        /// Owner.
        uid: u64,
        /// Group.
        gid: u64,
        /// Device number; 0 for everything but devices.
        device: u64,
        /// What a symbolic link points to; empty for everything else.
        target: Vec<u8>,
        /// Time of the last read.
        atime: Timestamp,
        /// Time of the last write.
        mtime: Timestamp,
        /// Time of the last attribute change.
        ctime: Timestamp,
        /// Time of creation.
        btime: Timestamp,
        /// Its extended attributes and access control lists.
        xattrs: Vec<Xattr>,
    }

    /// Why an entry was not imported.
    pub struct ImportFailure {
        /// The reason.
        status: Status,
        /// Details; may be empty.
        detail: String,
    }

    /// The outcome for one entry.
    pub struct ImportedEntry {
        /// The file that the name leads to; 0 if it failed.
        file: FileIndex,
        /// Whether this call created the name; not, if it led to this file before.
        created: bool,
        /// Why it was not imported.
        failure: Option<ImportFailure>,
    }
}
