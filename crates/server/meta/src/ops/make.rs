//! Shared by all operations that create a name.

use std::sync::Arc;

use braid_types::{Failure, FileIndex, SizeGeneration, Status, Timestamp};

use super::name;
use crate::acl::{self, Acl, InodeAcl, NewMode};
use crate::identity::{Call, Identity, Want, permit};
use crate::namespace::COOKIE_FIRST;
use crate::nfs4_permissions::permit_add;
use crate::record::{
    DirectoryChange, Entry, FileKind, Inode, NAMES_INDEXED, Outcome, Parts, Principal,
};
use crate::tx::Tx;

/// A name that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// The file.
    pub inode: Arc<Inode>,
    /// The change of the directory; `None` in the answer to a retry from a record of an earlier
    /// version.
    pub directory: Option<DirectoryChange>,
}

/// The result of an operation that makes a name.
pub(super) fn made(
    (outcome, directories): (Outcome, Vec<DirectoryChange>),
) -> Result<Made, Failure> {
    let inode = outcome.inode().ok_or(Status::Internal)?;
    Ok(Made { inode, directory: directories.first().copied() })
}

/// A directory in which the name was found to be free.
pub(super) struct ParentDirectory {
    pub(super) directory: Arc<Inode>,
}

/// Checks that the name is free and that the caller may change the directory. `Exists` comes before
/// `PermissionDenied`, as on Linux.
pub(super) fn free_name(
    tx: &Tx<'_>,
    call: &Call<'_>,
    directory: FileIndex,
    name: &[u8],
    kind: FileKind,
) -> Result<ParentDirectory, Failure> {
    if matches!(name, b"." | b"..") {
        return Err(Status::Exists.into());
    }
    name::check(name)?;
    let directory = tx.directory(directory)?;
    permit(call.who, &directory, Want::EXECUTE)?;
    if tx.entry(directory.file, name)?.is_some() {
        return Err(Status::Exists.into());
    }
    permit_add(call.who, &directory, kind == FileKind::Directory)?;
    Ok(ParentDirectory { directory })
}

/// Puts a new inode under a free name. `file` must be new.
pub(super) fn add(
    tx: &mut Tx<'_>,
    parent: ParentDirectory,
    name: &[u8],
    inode: Inode,
) -> Arc<Inode> {
    let (file, kind) = (inode.file, inode.kind);
    add_name(tx, &parent.directory, name, file, kind);
    tx.put_inode(inode)
}

/// Adds an entry and updates its directory.
pub(super) fn add_name(
    tx: &mut Tx<'_>,
    directory: &Inode,
    name: &[u8],
    file: FileIndex,
    kind: FileKind,
) {
    let mut directory = directory.clone();
    tx.add_entry(&directory, name, &Entry { file, kind, cookie: directory.next_cookie });
    directory.next_cookie += 1;
    directory.size += 1;
    directory.nlink += u32::from(kind == FileKind::Directory);
    directory.modify(tx.now);
    tx.put_inode(directory);
}

/// Removes an entry and updates its directory.
pub(super) fn remove_name(tx: &mut Tx<'_>, directory: &Inode, name: &[u8], entry: &Entry) {
    let mut directory = directory.clone();
    tx.remove_entry(&directory, name, entry);
    directory.size -= 1;
    directory.nlink -= u32::from(entry.kind == FileKind::Directory);
    directory.modify(tx.now);
    tx.put_inode(directory);
}

/// A new inode. The caller is its owner. Its group is the caller's, or the directory's if that has
/// setgid.
///
/// # Errors
/// [`braid_types::Status::NoSpace`] if the inherited access control list is too long.
pub(super) fn inode(
    who: &Identity,
    parent: &Inode,
    file: FileIndex,
    kind: FileKind,
    mode: NewMode,
    now: Timestamp,
) -> Result<Inode, Failure> {
    let inherits = parent.mode & 0o2000 != 0;
    let group = if inherits { parent.group } else { Principal::posix(who.gid) };
    let asked = mode;
    let is_indexed = kind == FileKind::Directory && parent.keeps_name_index();
    let (mut mode, acl) = permissions(parent, kind, mode);
    if kind == FileKind::Directory && inherits {
        mode |= 0o2000;
    } else if mode & 0o2010 == 0o2010 && !who.bypasses_permissions() && !who.in_group(group) {
        // Linux inode_init_owner(): a caller outside the group creates no setgid executable.
        mode &= !0o2000;
    }
    let mut inode = Inode {
        file,
        kind,
        mode,
        owner: Principal::posix(who.uid),
        group,
        nlink: if kind == FileKind::Directory { 2 } else { 1 },
        size: 0,
        size_in_objects: false,
        mtime_set: false,
        linked: false,
        size_generation: SizeGeneration(0),
        rdev: 0,
        layout: None,
        parts: Parts::none(),
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        change: 1,
        flags: if is_indexed { NAMES_INDEXED } else { 0 },
        parent: parent.file,
        quota_directory: parent.quota_directory,
        next_cookie: if kind == FileKind::Directory { COOKIE_FIRST } else { 0 },
        has_default: false,
        has_xattrs: false,
        acl,
        unnamed: false,
    };
    // RFC 8881 6.4.3. Symbolic links have no list.
    if let Some(list) = parent.nfs4_acl().filter(|_| kind != FileKind::Symlink)
        && let Some(list) = list
            .inherited(asked.bits & 0o777, asked.umask & 0o777, kind == FileKind::Directory)
            .map_err(acl::refused)?
    {
        acl::put_nfs4(&mut inode, list);
        if inode.has_set_ids() && !who.bypasses_permissions() && !who.in_group(group) {
            inode.mode &= !0o2000;
        }
    }
    Ok(inode)
}

/// IEEE 1003.1e draft 17, 23.1.4: a default list of the directory replaces the umask. Symbolic
/// links have none.
fn permissions(parent: &Inode, kind: FileKind, mode: NewMode) -> (u16, Option<Arc<InodeAcl>>) {
    let bits = mode.bits & 0o7777;
    let default = parent
        .posix_acl()
        .and_then(|acl| acl.default.as_ref())
        .filter(|_| kind != FileKind::Symlink);
    let Some(default) = default else { return (bits & !(mode.umask & 0o777), None) };
    let (permissions, access) = default.inherited(bits).split();
    let inherited = (kind == FileKind::Directory).then(|| default.clone());
    (bits & 0o7000 | permissions, Acl { access, default: inherited }.non_empty())
}
