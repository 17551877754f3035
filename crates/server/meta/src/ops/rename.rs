//! Rename: one batch, atomic to every observer (I7).

use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status};

use super::{make, name, rmdir, unlink};
use crate::identity::{Call, Identity, Want, permit, permit_sticky};
use crate::namespace::Namespace;
use crate::record::{Entry, Inode, Outcome};
use crate::tx::{Op, Tx};

/// What if the new name exists.
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
    /// Moves a name. Cookies: a replaced or exchanged name keeps its own, a new one is new, so that a listing meets
    /// every name that is there all the time exactly once.
    pub fn rename(
        &self,
        call: &Call<'_>,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Failure> {
        self.change(call, Op::Rename, from.0, |tx| {
            [from.1, to.1].into_iter().try_for_each(check_name)?;
            [from.0, to.0]
                .into_iter()
                .try_for_each(|d| permit(call.who, &*tx.directory(d)?, Want::EXECUTE))?;
            let source = find(tx, from)?.ok_or(Status::NotFound)?;
            let target = find(tx, to)?;
            if target.is_some() && mode == RenameMode::NoReplace {
                return Err(Status::Exists.into());
            }
            permit_end(tx, call.who, from.0, Some(&source.inode))?;
            permit_end(tx, call.who, to.0, target.as_ref().map(|end| &end.inode))?;
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
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Result<(), Failure> {
    // POSIX rename(): EBUSY or EINVAL for "." and ".."; Linux says EBUSY.
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

fn permit_end(
    tx: &Tx<'_>,
    who: &Identity,
    directory: FileIndex,
    target: Option<&Arc<Inode>>,
) -> Result<(), Failure> {
    let directory = tx.directory(directory)?;
    permit(who, &directory, Want::CHANGE_ENTRIES)?;
    target.map_or(Ok(()), |target| permit_sticky(who, &directory, target))
}

/// An open that denies deleting denies both ends: the one that moves, and the one that is replaced or exchanged.
fn check_delete(tx: &Tx<'_>, source: &End<'_>, target: Option<&End<'_>>) -> Result<(), Failure> {
    if target.is_some_and(|target| target.inode.file == source.inode.file) {
        return Ok(());
    }
    tx.check_delete(source.inode.file)?;
    target.map_or(Ok(()), |target| tx.check_delete(target.inode.file))
}

/// A directory must not come to lie in itself: no directory from `into` up to the root may be it.
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

/// A file stays in the tree whose quota counts it: as on XFS, who moves it elsewhere copies it. A directory with a quota is a
/// tree by itself, and takes it along.
fn check_tree(tx: &Tx<'_>, moved: &Inode, from: FileIndex, to: FileIndex) -> Result<(), Failure> {
    if from == to || moved.tree == moved.file || tx.directory(to)?.tree == moved.tree {
        return Ok(());
    }
    Err(Failure::new(Status::CrossDevice, "the directories are in trees of different quotas"))
}

/// A directory that comes to another parent gets a new `..`: that needs leave to write it (as on Linux).
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

/// A name that stays, with its cookie, leads to another file from now on.
fn retarget(tx: &mut Tx<'_>, directory: &Inode, name: &[u8], old: &Entry, new: &Entry) {
    use crate::record::FileKind::Directory;
    let mut directory = directory.clone();
    tx.replace_entry(directory.file, name, &Entry { cookie: old.cookie, ..*new });
    directory.nlink =
        directory.nlink + u32::from(new.kind == Directory) - u32::from(old.kind == Directory);
    directory.modify(tx.now);
    tx.put_inode(directory);
}

/// Notes in a moved file where it is now.
fn moved(tx: &mut Tx<'_>, file: FileIndex, into: FileIndex) -> Result<Outcome, Failure> {
    let mut inode = (*tx.inode(file)?).clone();
    inode.parent = into;
    // With one name, it is known again where that is.
    inode.linked &= inode.nlink != 1;
    inode.touch(tx.now);
    tx.put_inode(inode);
    Ok(Outcome::Done)
}
