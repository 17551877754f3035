//! Rename: one batch, atomic for every observer (I7).

use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status};

use super::{make, name, rmdir, unlink};
use crate::identity::{Call, Identity, Want, permit};
use crate::namespace::Namespace;
use crate::nfs4_permissions::{permit_add, permit_remove};
use crate::record::{DirectoryChange, Entry, Inode, Outcome};
use crate::tx::{Op, Tx};

/// What to do if the new name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// It is replaced: a file by a file, an empty directory by a directory.
    Replace,
    /// The call fails.
    NoReplace,
    /// The two names are exchanged.
    Exchange,
}

/// One end of a rename.
struct End<'n> {
    directory: FileIndex,
    name: &'n [u8],
    entry: Entry,
    inode: Arc<Inode>,
}

impl Namespace {
    /// Moves a name. A replaced or exchanged name keeps its cookie and a new name gets a new one,
    /// so that a listing shows every name that exists all the time exactly once.
    pub fn rename(
        &self,
        call: &Call<'_>,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Failure> {
        self.rename_with_change(call, from, to, mode).map(drop)
    }

    /// As [`Namespace::rename`], with the changes of the old and of the new directory; none in the
    /// answer to a retry from a record of an earlier version.
    pub fn rename_with_change(
        &self,
        call: &Call<'_>,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<Vec<DirectoryChange>, Failure> {
        let directories = [from.0, to.0];
        let at = (from.0, &directories[..]);
        let (_, changes) = self.change_directories(call, Op::Rename, at, |tx| {
            [from.1, to.1].into_iter().try_for_each(check_name)?;
            [from.0, to.0]
                .into_iter()
                .try_for_each(|d| permit(call.who, &*tx.directory(d)?, Want::EXECUTE))?;
            let source = find(tx, from)?.ok_or(Status::NotFound)?;
            let target = find(tx, to)?;
            if target.is_some() && mode == RenameMode::NoReplace {
                return Err(Status::Exists.into());
            }
            permit_remove(call.who, &*tx.directory(from.0)?, &source.inode)?;
            permit_add(call.who, &*tx.directory(to.0)?, source.inode.is_directory())?;
            if let Some(target) = &target {
                permit_remove(call.who, &*tx.directory(to.0)?, &target.inode)?;
                if mode == RenameMode::Exchange {
                    let adds_directory = target.inode.is_directory();
                    permit_add(call.who, &*tx.directory(from.0)?, adds_directory)?;
                }
            }
            check_loop(tx, &source.inode, to.0)?;
            check_delete(tx, &source, target.as_ref())?;
            match (target, mode) {
                (None, RenameMode::Exchange) => Err(Status::NotFound.into()),
                // POSIX rename(): two names of one file stay as they are.
                (Some(target), _) if target.inode.file == source.inode.file => Ok(Outcome::Done),
                (Some(target), RenameMode::Exchange) => exchange(tx, call.who, source, target),
                (Some(target), _) => replace(tx, call.who, source, target),
                (None, _) => plain(tx, call.who, source, to),
            }
        })?;
        Ok(changes)
    }
}

fn check_name(name: &[u8]) -> Result<(), Failure> {
    // POSIX rename(): EBUSY or EINVAL for "." and ".."; Linux returns EBUSY.
    if matches!(name, b"." | b"..") { Err(Status::Busy.into()) } else { name::check(name) }
}

fn find<'n>(
    tx: &Tx<'_>,
    (directory, name): (FileIndex, &'n [u8]),
) -> Result<Option<End<'n>>, Failure> {
    let Some(entry) = tx.entry(directory, name)? else { return Ok(None) };
    let inode = tx.target(&entry)?;
    Ok(Some(End { directory, name, entry, inode }))
}

/// An open that denies deleting protects both ends: the file that moves, and the file that is
/// replaced or exchanged.
fn check_delete(tx: &Tx<'_>, source: &End<'_>, target: Option<&End<'_>>) -> Result<(), Failure> {
    if target.is_some_and(|target| target.inode.file == source.inode.file) {
        return Ok(());
    }
    tx.check_delete(source.inode.file)?;
    target.map_or(Ok(()), |target| tx.check_delete(target.inode.file))
}

/// A directory must not be moved below itself: no directory from `into` up to the root may be it.
fn check_loop(tx: &Tx<'_>, moved: &Inode, into: FileIndex) -> Result<(), Failure> {
    if !moved.is_directory() {
        return Ok(());
    }
    let mut at = into;
    while at != FileIndex::ROOT {
        if at == moved.file {
            return Err(Status::WouldLoop.into());
        }
        at = tx.inode(at)?.parent;
    }
    Ok(())
}

/// A file stays in the quota directory that counts it; as on XFS, it must be copied to move
/// elsewhere. A directory with a quota of its own may be moved.
fn check_tree(tx: &Tx<'_>, moved: &Inode, from: FileIndex, to: FileIndex) -> Result<(), Failure> {
    if from == to
        || moved.quota_directory == moved.file
        || tx.directory(to)?.quota_directory == moved.quota_directory
    {
        return Ok(());
    }
    Err(Failure::new(Status::CrossDevice, "the directories belong to different quota directories"))
}

/// A directory with a new parent gets a new `..`: that needs write permission on it (as on Linux).
fn permit_move(
    who: &Identity,
    moved: &Inode,
    from: FileIndex,
    to: FileIndex,
) -> Result<(), Failure> {
    if moved.is_directory() && from != to { permit(who, moved, Want::WRITE) } else { Ok(()) }
}

fn plain(
    tx: &mut Tx<'_>,
    who: &Identity,
    source: End<'_>,
    to: (FileIndex, &[u8]),
) -> Result<Outcome, Failure> {
    permit_move(who, &source.inode, source.directory, to.0)?;
    check_tree(tx, &source.inode, source.directory, to.0)?;
    make::remove_name(tx, &*tx.directory(source.directory)?, source.name, &source.entry);
    make::add_name(tx, &*tx.directory(to.0)?, to.1, source.entry.file, source.entry.kind);
    moved(tx, source.inode.file, to.0)
}

fn replace(
    tx: &mut Tx<'_>,
    who: &Identity,
    source: End<'_>,
    target: End<'_>,
) -> Result<Outcome, Failure> {
    permit_move(who, &source.inode, source.directory, target.directory)?;
    check_tree(tx, &source.inode, source.directory, target.directory)?;
    match (source.inode.is_directory(), target.inode.is_directory()) {
        (true, false) => return Err(Status::NotDirectory.into()),
        (false, true) => return Err(Status::IsDirectory.into()),
        (true, true) => rmdir::check_empty(&target.inode)?,
        (false, false) => {}
    }
    make::remove_name(tx, &*tx.directory(source.directory)?, source.name, &source.entry);
    let into = tx.directory(target.directory)?;
    retarget(tx, &into, target.name, &target.entry, &source.entry);
    match target.inode.is_directory() {
        true => rmdir::drop_directory(tx, &target.inode)?,
        false => unlink::drop_name(tx, &target.inode)?,
    }
    moved(tx, source.inode.file, target.directory)
}

fn exchange(
    tx: &mut Tx<'_>,
    who: &Identity,
    source: End<'_>,
    target: End<'_>,
) -> Result<Outcome, Failure> {
    permit_move(who, &source.inode, source.directory, target.directory)?;
    permit_move(who, &target.inode, target.directory, source.directory)?;
    check_loop(tx, &target.inode, source.directory)?;
    check_tree(tx, &source.inode, source.directory, target.directory)?;
    check_tree(tx, &target.inode, target.directory, source.directory)?;
    let directory = tx.directory(source.directory)?;
    retarget(tx, &directory, source.name, &source.entry, &target.entry);
    let directory = tx.directory(target.directory)?;
    retarget(tx, &directory, target.name, &target.entry, &source.entry);
    moved(tx, source.inode.file, target.directory)?;
    moved(tx, target.inode.file, source.directory)
}

/// Makes a name that stays, with its cookie, lead to another file.
fn retarget(tx: &mut Tx<'_>, directory: &Inode, name: &[u8], old: &Entry, new: &Entry) {
    use crate::record::FileKind::Directory;
    let mut directory = directory.clone();
    tx.replace_entry(directory.file, name, &Entry { cookie: old.cookie, ..*new });
    directory.nlink =
        directory.nlink + u32::from(new.kind == Directory) - u32::from(old.kind == Directory);
    directory.modify(tx.now);
    tx.put_inode(directory);
}

/// Records the new directory of a moved file.
fn moved(tx: &mut Tx<'_>, file: FileIndex, into: FileIndex) -> Result<Outcome, Failure> {
    let mut inode = (*tx.inode(file)?).clone();
    inode.parent = into;
    // If it has one name, `parent` is exact again.
    inode.linked &= inode.nlink != 1;
    inode.touch(tx.now);
    tx.put_inode(inode);
    Ok(Outcome::Done)
}
