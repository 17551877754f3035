//! Make an existing file of a disk a file of the cluster: name, inode and extended attributes in
//! one batch (ADR 0050). The object of a regular file exists already, under an index that was
//! reserved for it.
//!
//! Invariants:
//! 1. A reserved index is given to nothing else: the counter has passed it, durably. An import
//!    refuses an index that the counter has not passed.
//! 2. An import that is repeated changes nothing. A regular file is recognised by its index; a
//!    directory by its name; a symbolic link and a special file by name and content.
//! 3. The times of a directory stay when names are imported into it: they were imported with it.
//!
//! `check_index` returns the error of 1; 2 and 3 are about two calls, which only tests can see.

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::limits::{
    FILE_BYTES_MAX, LINKS_MAX, SYMLINK_BYTES_MAX, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX,
};
use braid_types::{Failure, FileIndex, Status, Timestamp};

use super::{make, name, xattr};
use crate::acl::{self, AclKind};
use crate::acl_xattr;
use crate::identity::{Call, Want};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{Entry, FileKind, Inode, Outcome, Parts, Principal, layout_fits};
use crate::tx::{Op, Tx};

/// A file to import, with all its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportArgs {
    /// Its kind.
    pub kind: FileKind,
    /// The index and the layout of a regular file.
    pub object: Option<(FileIndex, Arc<Layout>)>,
    /// Bytes of a regular file.
    pub size: u64,
    /// Permission bits with suid, sgid and sticky.
    pub mode: u16,
    /// Its owner.
    pub owner: Principal,
    /// Its group.
    pub group: Principal,
    /// Device number, for devices.
    pub rdev: u64,
    /// What a symbolic link points to.
    pub target: Vec<u8>,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the bytes or entries.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Extended attributes, and POSIX access control lists as Linux shows them.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A name that was imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The file.
    pub inode: Arc<Inode>,
    /// Whether this call created the name.
    pub created: bool,
}

impl Namespace {
    /// Reserves `count` file indexes for imports. Returns the first one; the others follow it.
    /// Durable when it returns.
    ///
    /// # Errors
    /// [`Status::NoSpace`] if the shard has no index left; and those of the store.
    pub fn reserve_files(&self, call: &Call<'_>, count: u32) -> Result<FileIndex, Failure> {
        if !call.who.is_root() {
            return Err(Status::NotPermitted.into());
        }
        let mut first = None;
        self.change(call, Op::Mend, FileIndex::ROOT, |tx| {
            let shard = tx.next_shard();
            first = Some(tx.reserve_files(shard, count)?);
            Ok(Outcome::Done)
        })?;
        first.ok_or_else(|| Status::Internal.into())
    }

    /// Imports one name. Only for root.
    ///
    /// # Errors
    /// [`Status::Exists`] if the name leads to another file; [`Status::Invalid`] for an index that
    /// was not reserved, and for attributes that the kind cannot have; [`Status::Busy`] while the
    /// objects of a removed file with this index are being deleted.
    pub fn import(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        args: &ImportArgs,
    ) -> Result<Imported, Failure> {
        if !call.who.is_root() {
            return Err(Status::NotPermitted.into());
        }
        let outcome = self.change(call, Op::Mend, directory, |tx| {
            name::check(name)?;
            if matches!(name, b"." | b"..") {
                return Err(Status::Invalid.into());
            }
            let parent = tx.directory(directory)?;
            if let Some(entry) = tx.entry(directory, name)? {
                return existing(tx, &entry, args).map(Outcome::File);
            }
            let inode = match args.object.as_ref() {
                Some((file, _)) => match tx.find_inode(*file)? {
                    Some(inode) => one_more_name(&inode, &parent)?,
                    None => new_inode(tx, call, &parent, args)?,
                },
                None => new_inode(tx, call, &parent, args)?,
            };
            if args.kind == FileKind::Directory && parent.nlink >= LINKS_MAX {
                return Err(Status::LinkLimit.into());
            }
            make::add_name(tx, &parent, name, inode.file, inode.kind);
            keep_times(tx, &parent)?;
            Ok(Outcome::Created(tx.put_inode(inode)))
        })?;
        let created = matches!(outcome, Outcome::Created(_));
        let inode = outcome.inode().ok_or(Status::Internal)?;
        Ok(Imported { inode, created })
    }
}

/// Invariant 2.
fn existing(tx: &Tx<'_>, entry: &Entry, args: &ImportArgs) -> Result<Arc<Inode>, Failure> {
    let found = tx.target(entry)?;
    let is_same = found.kind == args.kind
        && match (&args.object, args.kind) {
            (Some((file, _)), FileKind::Regular) => found.file == *file,
            (_, FileKind::Directory) => true,
            (_, FileKind::Symlink) => {
                tx.get(&key::symlink(found.file))?.as_deref() == Some(&args.target[..])
            }
            _ => found.rdev == args.rdev,
        };
    if is_same { Ok(found) } else { Err(Status::Exists.into()) }
}

/// The file with one name more.
fn one_more_name(inode: &Inode, parent: &Inode) -> Result<Inode, Failure> {
    match inode.nlink {
        _ if inode.kind != FileKind::Regular => Err(Status::Invalid.into()),
        0 => Err(Status::NotFound.into()),
        _ if inode.quota_directory != parent.quota_directory => Err(Status::CrossDevice.into()),
        LINKS_MAX.. => Err(Status::LinkLimit.into()),
        _ => {
            let mut inode = inode.clone();
            inode.linked = true;
            inode.nlink += 1;
            Ok(inode)
        }
    }
}

fn new_inode(
    tx: &mut Tx<'_>,
    call: &Call<'_>,
    parent: &Inode,
    args: &ImportArgs,
) -> Result<Inode, Failure> {
    let is_regular = args.kind == FileKind::Regular;
    if is_regular != args.object.is_some() || args.mode > 0o7777 {
        return Err(Status::Invalid.into());
    }
    let file = match (&args.object, args.kind) {
        (Some((file, _)), _) => check_index(tx, *file)?,
        (None, FileKind::Directory) => {
            let shard = tx.next_shard();
            tx.new_file(shard)?
        }
        (None, _) => tx.new_file(parent.file.shard())?,
    };
    let mut inode = make::inode(call.who, parent, file, args.kind, args.mode.into(), tx.now)?;
    (inode.mode, inode.acl) = (args.mode, None);
    (inode.owner, inode.group) = (args.owner, args.group);
    (inode.atime, inode.mtime) = (args.atime, args.mtime);
    (inode.ctime, inode.btime) = (args.ctime, args.btime);
    let times = [args.atime, args.mtime, args.ctime, args.btime];
    if times.iter().any(|time| time.nanos >= 1_000_000_000) {
        return Err(Status::Invalid.into());
    }
    match args.kind {
        FileKind::Regular => set_object(tx, &mut inode, args)?,
        FileKind::Symlink => set_target(tx, &mut inode, &args.target)?,
        FileKind::Directory => {
            if let Some(default) = tx.default_of(parent)? {
                inode.has_default = true;
                tx.batch.put(key::directory_default(file), default.encode());
            }
        }
        FileKind::CharDevice | FileKind::BlockDevice => inode.rdev = args.rdev,
        FileKind::Fifo | FileKind::Socket => {}
    }
    set_xattrs(tx, call, &mut inode, &args.xattrs)?;
    Ok(inode)
}

/// Invariant 1. A file of this index may have been removed: its objects must be gone.
fn check_index(tx: &Tx<'_>, file: FileIndex) -> Result<FileIndex, Failure> {
    if !tx.was_given_out(file)? {
        return Err(Failure::new(Status::Invalid, format!("index {file} is not reserved")));
    }
    if tx.get(&key::deletion(file))?.is_some() {
        return Err(Failure::new(
            Status::Busy,
            "the file was removed; its bytes are being deleted",
        ));
    }
    Ok(file)
}

fn set_object(tx: &Tx<'_>, inode: &mut Inode, args: &ImportArgs) -> Result<(), Failure> {
    let Some((_, layout)) = &args.object else { return Err(Status::Invalid.into()) };
    if !layout_fits(layout) || args.size > FILE_BYTES_MAX {
        return Err(Failure::new(Status::Invalid, "the layout or size does not fit its record"));
    }
    inode.size = args.size;
    inode.parts = Parts::first(layout.placements().count());
    inode.layout = Some(tx.intern_layout(layout.clone()));
    Ok(())
}

fn set_target(tx: &mut Tx<'_>, inode: &mut Inode, target: &[u8]) -> Result<(), Failure> {
    match target.len() {
        0 => return Err(Status::Invalid.into()),
        bytes if bytes > SYMLINK_BYTES_MAX => return Err(Status::NameTooLong.into()),
        _ if target.contains(&0) => return Err(Status::Invalid.into()),
        bytes => inode.size = bytes as u64,
    }
    tx.batch.put(key::symlink(inode.file), target);
    Ok(())
}

fn set_xattrs(
    tx: &mut Tx<'_>,
    call: &Call<'_>,
    inode: &mut Inode,
    xattrs: &[(Vec<u8>, Vec<u8>)],
) -> Result<(), Failure> {
    let mut names = 0;
    for (name, value) in xattrs {
        if let Some(which) = AclKind::of(name) {
            acl::check_kind(inode, which, false)?;
            acl::set(inode, which, acl_xattr::decode(value)?);
            continue;
        }
        xattr::check(call.who, inode, name, Want::WRITE)?;
        names += name.len() + 1;
        if value.len() > XATTR_VALUE_BYTES_MAX || names > XATTR_LIST_BYTES_MAX {
            return Err(Failure::new(Status::LimitExceeded, "an extended attribute is too long"));
        }
        tx.batch.put(key::xattr(inode.file, name), &value[..]);
        inode.has_xattrs = true;
    }
    Ok(())
}

/// Invariant 3.
fn keep_times(tx: &mut Tx<'_>, before: &Inode) -> Result<(), Failure> {
    let mut directory = (*tx.inode(before.file)?).clone();
    (directory.mtime, directory.ctime) = (before.mtime, before.ctime);
    tx.put_inode(directory);
    Ok(())
}
