//! Open and close.
//!
//! Invariants of the size mark (I5):
//! 1. A file that a session has open for writing has the size mark. It is in the batch of the open,
//!    before a capability is issued. `Tx::commit` asserts it.
//! 2. The mark is cleared only when no session has the file open for writing, in the batch that
//!    records the size. `put_found` asserts it.
//! 3. A size is recorded only at the generation at which the objects were asked; `put_found`
//!    refuses another one.

use std::sync::{Arc, atomic::Ordering};

use braid_types::{Failure, FileIndex, SessionId, SizeGeneration, Status, Timestamp};

use super::attributes;
use crate::identity::{Call, Identity, Want, permit};
use crate::key;
use crate::lease::modes::{self, Deny, IgnoredOpens, OpenMode};
use crate::namespace::Namespace;
use crate::opens::{Access, OpenFile};
use crate::record::{FileKind, Inode, Outcome, Parts};
use crate::tx::{Op, Tx};

/// The session that opens a file, and its mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenArgs {
    /// The session that will have it open.
    pub session: SessionId,
    /// What it may do.
    pub access: Access,
    /// What it denies to other opens.
    pub deny: Deny,
}

impl OpenArgs {
    /// An open that denies nothing, as in POSIX.
    pub const fn plain(session: SessionId, access: Access) -> Self {
        Self { session, access, deny: Deny::NONE }
    }

    fn mode(self) -> OpenMode {
        OpenMode { access: self.access, deny: self.deny }
    }
}

/// The state of a file's objects as the I/O daemons reported it: collected when the last writer has
/// closed, or for `fsync`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectSummary {
    /// The generation at which they were asked; an older one is refused.
    pub generation: SizeGeneration,
    /// The size that the objects make, in bytes.
    pub size: u64,
    /// Parts that have an object.
    pub parts: Parts,
    /// The newest write, on the metadata server's clock; `None` if nothing was written.
    pub mtime: Option<Timestamp>,
    /// [`Namespace::next_change`], drawn after their answers: the change counter of the file in
    /// this state. 0 if no daemon was asked.
    pub change: u64,
}

impl Namespace {
    /// Opens a regular file. An open for writing sets the size mark in the same batch (I5).
    pub fn open_file(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        args: OpenArgs,
    ) -> Result<Arc<Inode>, Failure> {
        let outcome = self.change(call, Op::Open, file, |tx| {
            let inode = tx.inode(file)?;
            open(tx, call.who, &inode, args).map(Outcome::File)
        })?;
        let inode = outcome.inode().ok_or(Status::Internal)?;
        check_replayed_open(call, &inode, args)?;
        Ok(inode)
    }

    /// Reclaims what a session had open before this server started: from now on it counts for at
    /// least `open`. Permissions are not checked, since the file may have been made unreadable or
    /// unlinked since. If a writer reclaims, the file gets its size mark again, in case a loss of
    /// power took it (I5). Repeating the call changes nothing.
    ///
    /// # Errors
    /// [`Status::SharingViolation`] if it denies something that is not recorded and that another
    /// session has open.
    pub fn reclaim_open(&self, call: &Call<'_>, open: &OpenFile) -> Result<(), Failure> {
        self.change(call, Op::Open, open.file, |tx| {
            let inode = tx.inode(open.file)?;
            let held = tx.open_of(open.file, open.session);
            for (mode, _) in
                open.denying.iter().filter(|(mode, count)| held.denying.of(*mode) < *count)
            {
                tx.check_mode(open.file, mode, IgnoredOpens::Session(open.session))?;
            }
            let reclaimed = held.at_least(open);
            if reclaimed.writers > 0 && !inode.size_in_objects {
                mark(tx, &inode);
            }
            if reclaimed != held {
                tx.set_open(reclaimed);
            }
            Ok(Outcome::Done)
        })
        .map(drop)
    }

    /// Reduces a session's opens of a file to those in `open`: the client did not reclaim the rest
    /// after a restart. Returns whether the file's size is to be collected now, as
    /// [`Namespace::close_file`] does.
    pub fn limit_opens(&self, call: &Call<'_>, open: &OpenFile) -> Result<bool, Failure> {
        self.change(call, Op::Close, open.file, |tx| {
            let held = tx.open_of(open.file, open.session);
            release(tx, held.at_most(open))?;
            Ok(Outcome::Done)
        })?;
        self.needs_size_collection(open.file)
    }

    /// Sets a file's size mark: its objects were found to differ from its record of `generation`.
    pub fn set_size_mark(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        generation: SizeGeneration,
    ) -> Result<(), Failure> {
        self.change(call, Op::Open, file, |tx| {
            let inode = tx.inode(file)?;
            if inode.size_generation == generation && !inode.size_in_objects {
                mark(tx, &inode);
            }
            Ok(Outcome::Done)
        })
        .map(drop)
    }

    /// While clients of an earlier epoch may not have reclaimed their opens yet, a file that loses
    /// its last name or last known open is kept as an orphan; [`Namespace::reap_orphan`] decides
    /// later.
    pub fn keep_orphans(&self, keep: bool) {
        self.writer().keep_orphans = keep;
    }

    /// Closes one open. Returns whether the file now has the size mark and no writer; then its size
    /// is to be collected. An orphan is removed with its last open, and the deletion of its objects
    /// is queued.
    pub fn close_file(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        args: OpenArgs,
    ) -> Result<bool, Failure> {
        self.change(call, Op::Close, file, |tx| {
            let mut open = tx.open_of(file, args.session);
            open.remove(args.mode());
            release(tx, open)?;
            Ok(Outcome::Done)
        })?;
        self.needs_size_collection(file)
    }

    /// Changes one open of a session to another mode. Additional access is checked against the
    /// file's mode. Returns the file, and whether its size is to be collected now, as
    /// [`Namespace::close_file`] does.
    ///
    /// # Errors
    /// [`Status::SharingViolation`] if another open conflicts; the open stays as it was.
    pub fn change_open(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        was: OpenArgs,
        to: OpenMode,
    ) -> Result<(Arc<Inode>, bool), Failure> {
        let outcome = self.change(call, Op::Open, file, |tx| {
            let inode = tx.inode(file)?;
            let had = was.access;
            let more =
                Access { read: to.access.read && !had.read, write: to.access.write && !had.write };
            let mut new = (*inode).clone();
            may(call.who, &inode, more)?;
            tx.check_mode(file, to, IgnoredOpens::One(was.session, was.mode()))?;
            let mut open = tx.open_of(file, was.session);
            open.remove(was.mode());
            open.add(to)?;
            if more.write {
                mark_for_writer(tx, &mut new);
                clear_set_ids(call.who, &mut new);
            }
            tx.set_open(open);
            Ok(Outcome::File(if new == *inode { inode } else { tx.put_inode(new) }))
        })?;
        let inode = outcome.inode().ok_or(Status::Internal)?;
        let ends = was.access.write && !to.access.write && self.needs_size_collection(file)?;
        Ok((inode, ends))
    }

    /// Whether an open with this mode would be refused now.
    ///
    /// # Errors
    /// [`Status::SharingViolation`].
    pub fn check_open(&self, file: FileIndex, mode: OpenMode) -> Result<(), Failure> {
        if mode.deny.is_none() && self.denying.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let found =
            modes::find_conflict(mode, self.writer().opens.of_file(file), IgnoredOpens::Nothing);
        found.map_or(Ok(()), |excluded| Err(excluded.into()))
    }

    /// What the opens of a file deny together.
    pub fn denied(&self, file: FileIndex) -> Deny {
        if self.denying.load(Ordering::Acquire) == 0 {
            Deny::NONE
        } else {
            self.writer().opens.denied(file)
        }
    }

    /// Whether a file has the size mark and no writer.
    pub fn needs_size_collection(&self, file: FileIndex) -> Result<bool, Failure> {
        let marked = self.find_inode(file)?.is_some_and(|inode| inode.size_in_objects);
        Ok(marked && self.writers(file).is_empty())
    }

    /// The sessions that have a file open for writing (I4).
    pub fn writers(&self, file: FileIndex) -> Vec<SessionId> {
        self.writer().opens.writers(file)
    }

    /// The opens of a file.
    pub fn opens_of(&self, file: FileIndex) -> Vec<OpenFile> {
        self.writer().opens.of_file(file).to_vec()
    }

    /// All opens.
    pub fn open_files(&self) -> Vec<OpenFile> {
        self.writer().opens.all()
    }

    /// How many files are open.
    pub fn open_file_count(&self) -> usize {
        self.writer().opens.files()
    }

    /// How many files are open for writing; a file that two sessions write counts twice.
    pub fn written_file_count(&self) -> usize {
        self.writer().opens.writing()
    }

    /// Records the state of the objects. Without a writer the size mark is cleared. With one it
    /// stays, and the record is what a crash would fall back to. The caller knows that nobody wrote
    /// since the objects were asked.
    pub fn record_size(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        found: &ObjectSummary,
    ) -> Result<Arc<Inode>, Failure> {
        let outcome = self.change(call, Op::RecordSize, file, |tx| {
            let old = tx.inode(file)?;
            let ends = tx.writer.opens.writers(file).is_empty();
            Ok(Outcome::File(put_found(tx, &old, found, ends)?))
        })?;
        outcome.inode().ok_or_else(|| Status::Internal.into())
    }

    /// As [`Namespace::record_size`], for a file that is open for writing, at any time: the mark
    /// stays. Nothing is recorded if no writer is left: one may have written since the objects were
    /// asked, and closed.
    pub fn record_size_while_open(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        found: &ObjectSummary,
    ) -> Result<(), Failure> {
        self.change(call, Op::RecordSize, file, |tx| {
            let old = tx.inode(file)?;
            if !tx.writer.opens.writers(file).is_empty() {
                put_found(tx, &old, found, false)?;
            }
            Ok(Outcome::Done)
        })
        .map(drop)
    }

    /// Orphans: files without a name, kept for sessions that had them open.
    pub fn orphans(&self) -> Result<Vec<FileIndex>, Failure> {
        self.list_files(key::Kind::Orphan)
    }

    /// After a restart and its grace period: removes an orphan that no session reclaimed. Returns
    /// whether it was removed.
    pub fn reap_orphan(&self, call: &Call<'_>, file: FileIndex) -> Result<bool, Failure> {
        let outcome = self.change(call, Op::Reap, file, |tx| match tx.find_inode(file)? {
            Some(inode) if inode.nlink == 0 && !tx.writer.opens.is_open(file) => {
                tx.batch.remove(key::orphan(file));
                tx.delete_inode(&inode)?;
                Ok(Outcome::Done)
            }
            Some(inode) => Ok(Outcome::File(inode)),
            None => Ok(Outcome::Done),
        })?;
        Ok(outcome == Outcome::Done)
    }
}

/// Checks an open and adds it.
pub(super) fn open(
    tx: &mut Tx<'_>,
    who: &Identity,
    inode: &Arc<Inode>,
    args: OpenArgs,
) -> Result<Arc<Inode>, Failure> {
    match inode.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Status::IsDirectory.into()),
        FileKind::Symlink => return Err(Status::TooManyLinks.into()),
        _ => return Err(Status::NoDevice.into()),
    }
    let Access { read, write } = args.access;
    if !read && !write {
        return Err(Status::Invalid.into());
    }
    may(who, inode, args.access)?;
    let mut new = (**inode).clone();
    add_open(tx, &mut new, args)?;
    if write {
        clear_set_ids(who, &mut new);
    }
    if new == **inode { Ok(inode.clone()) } else { Ok(tx.put_inode(new)) }
}

fn may(who: &Identity, inode: &Inode, access: Access) -> Result<(), Failure> {
    let want = |asked: bool, want: Want| if asked { want } else { Want::NOTHING };
    permit(who, inode, want(access.read, Want::READ).and(want(access.write, Want::WRITE)))
}

/// Checks that the recorded answer still allows the requested open: a record of version 1 may
/// belong to another request.
pub(super) fn check_replayed_open(
    call: &Call<'_>,
    inode: &Inode,
    args: OpenArgs,
) -> Result<(), Failure> {
    may(call.who, inode, args.access)
}

/// Puts the inode with the state of its objects. Clears its mark if `ends` is set.
fn put_found(
    tx: &mut Tx<'_>,
    old: &Arc<Inode>,
    found: &ObjectSummary,
    ends: bool,
) -> Result<Arc<Inode>, Failure> {
    if old.size_generation != found.generation {
        return Err(Status::StaleGeneration.into());
    }
    debug_assert!(
        !ends || tx.writer.opens.writers(old.file).is_empty(),
        "2: the size mark is cleared after the last writer"
    );
    let mut new = old.with_objects(found);
    new.size_in_objects &= !ends;
    new.mtime_set &= new.size_in_objects;
    Ok(tx.put_inode_keeping_change(new))
}

fn mark(tx: &mut Tx<'_>, inode: &Inode) {
    let mut marked = inode.clone();
    marked.size_in_objects = true;
    marked.touch(tx.now);
    tx.put_inode(marked);
}

/// Adds an open to the table, and the mark to the inode. The caller puts the inode.
pub(super) fn add_open(tx: &mut Tx<'_>, inode: &mut Inode, args: OpenArgs) -> Result<(), Failure> {
    tx.check_mode(inode.file, args.mode(), IgnoredOpens::Nothing)?;
    let mut open = tx.open_of(inode.file, args.session);
    open.add(args.mode())?;
    if args.access.write {
        mark_for_writer(tx, inode);
    }
    tx.set_open(open);
    Ok(())
}

/// A session may write from now on. The caller puts the inode.
fn mark_for_writer(tx: &Tx<'_>, inode: &mut Inode) {
    if !inode.size_in_objects {
        inode.size_in_objects = true;
        inode.touch(tx.now);
    }
}

/// POSIX write(): suid and sgid may be cleared by a write; here they are cleared when the right to
/// write is granted.
fn clear_set_ids(who: &Identity, inode: &mut Inode) {
    if !who.bypasses_permissions() {
        attributes::clear_set_ids(inode);
    }
}

/// Reduces a session's opens of a file; an orphan is removed with the last one.
pub(super) fn release(tx: &mut Tx<'_>, open: OpenFile) -> Result<(), Failure> {
    let (file, session, is_last) = (open.file, open.session, open.is_none());
    tx.set_open(open);
    if !is_last || tx.writer.keep_orphans || tx.open_elsewhere(file, session) {
        return Ok(());
    }
    match tx.find_inode(file)? {
        Some(inode) if inode.nlink == 0 => {
            tx.batch.remove(key::orphan(file));
            tx.delete_inode(&inode)
        }
        _ => Ok(()),
    }
}
