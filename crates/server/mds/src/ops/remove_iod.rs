//! Removes an I/O daemon from the cluster for good, and answers for files that had a part on it.
//!
//! ```text
//!   not given up: it is down, and no file has a part on it ───────────────────────> removed
//!   given up: parts of files that are being written are recorded as existing ─> removed ─> again
//! ```
//!
//! Invariants:
//! 1. The removal is on disk before anything follows from it.
//! 2. Of a file whose size is in its objects, every part on a daemon that is given up is recorded
//!    as existing: a part whose content is unknown is a loss, and never zeros (I11).
//! 3. A file that lost a part is not opened for writing. So, if its size mark stands, the mark is
//!    from before: its true size was lost with the daemon, and the file is not opened at all. Its
//!    names and attributes work as for any file.
//!
//! No assertion checks these: `remove_checked` has the order of 1, and marks parts (2) before and
//! after the removal. `check_lost_parts` refuses the opens of 3, which a client may ask for at any
//! time.
//!
//! Parts that are moved to other daemons (drain, mirrors) need none of this: they leave no part
//! behind.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use braid_meta::{Call as Change, FileKind, Identity, Inode, Parts};
use braid_types::{Failure, FileIndex, IodId, ShardId, Status};
use braid_wire::{
    Rights, Wire,
    message::mds::{FsckAffected, FsckAffectedReply, IodRemove},
};

use super::fsck::{FILES_BYTES_MAX, FILES_MAX};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    objects,
};

/// Inodes that one call checks: about 50 ms, so that a search through millions is many short calls.
const LOOKED_AT_MAX: usize = 32_768;

impl MdsCore {
    pub(super) fn iod_remove(&self, call: Call, r: &IodRemove) -> CallOutcome {
        let removed = self.remove_iod(r.iod, r.lost);
        CallOutcome::from(call, removed)
    }

    fn remove_iod(&self, id: IodId, lost: bool) -> Result<(), Failure> {
        {
            let mut state = self.state();
            state.cluster.check_removal(id, lost)?;
            if state.cluster.is_removed(id) {
                return Ok(());
            }
            if !state.removing.insert(id) {
                // A search through all files takes longer than one attempt of the caller, so this
                // is an earlier attempt.
                let why = format!("files are searched for parts on I/O daemon {id}");
                return Err(Failure::new(Status::TryAgain, why));
            }
        }
        let outcome = self.remove_checked(id, lost);
        self.state().removing.remove(&id);
        outcome
    }

    fn remove_checked(&self, id: IodId, lost: bool) -> Result<(), Failure> {
        let last_contact = self.state().cluster.check_removal(id, lost)?;
        if lost {
            self.assume_parts_on(id)?;
        } else {
            self.check_unused(id)?;
            // New files have no parts on a daemon that is down: it must have been down all the
            // time.
            if self.state().cluster.check_removal(id, lost)? != last_contact {
                let why = format!("I/O daemon {id} sent a message meanwhile; try: stop it first");
                return Err(Failure::new(Status::Busy, why));
            }
        }
        self.namespace.remove_iod(id)?;
        {
            let mut state = self.state();
            state.cluster.remove(id);
            // Deletions, truncates and sizes that waited for it continue with the next tick.
            state.deletions.note_queued();
            state.iod_returned = true;
        }
        self.any_iod_removed.store(true, Ordering::Release);
        tracing::warn!(%id, lost, "an I/O daemon was removed from the cluster");
        // Again, for files that were first written in the meantime, if it was up.
        if lost { self.assume_parts_on(id) } else { Ok(()) }
    }

    /// Fails if a file has a part on the daemon, or may have one.
    fn check_unused(&self, id: IodId) -> Result<(), Failure> {
        self.each_file_on(id, |inode, parts| {
            if self.possible_parts(inode, &parts).is_empty() {
                return Ok(());
            }
            let path = String::from_utf8_lossy(&self.path_of(inode)?).into_owned();
            let why = format!(
                "I/O daemon {id} has a part of {path}, and perhaps of more; \
                 try: braid fsck --affected-by {id}"
            );
            Err(Failure::new(Status::Busy, why))
        })
    }

    /// Records every part that may have existed on the daemon.
    fn assume_parts_on(&self, id: IodId) -> Result<(), Failure> {
        let who = Identity::root();
        self.each_file_on(id, |inode, parts| {
            let parts = self.possible_parts(inode, &parts);
            if parts.iter().all(|part| inode.parts.contains(part)) {
                return Ok(());
            }
            let change = Change { who: &who, now: self.env.clock.wall(), replay: None };
            match self.namespace.assume_parts(&change, inode.file, &parts) {
                Err(failure) if failure.status == Status::StaleHandle => Ok(()),
                outcome => outcome,
            }
        })
    }

    /// Which of these parts of a file exist, or may exist. While its size is in its objects, every
    /// part may exist, unless its daemons have said otherwise since its last writer.
    fn possible_parts(&self, inode: &Inode, parts: &Parts) -> Parts {
        let state = self.state();
        let cached = state.sizes.cached(inode.file);
        let cached = cached.filter(|found| found.fetch.generation == inode.size_generation);
        let may_exist = |part| cached.is_none_or(|found| found.fetch.parts.contains(part));
        let mut may = Parts::none();
        let some = parts.iter().filter(|part| {
            inode.parts.contains(*part) || inode.size_in_objects && may_exist(*part)
        });
        some.for_each(|part| may.insert(part));
        may
    }

    /// Calls `seen` for every file that has parts on the daemon and on no other, with those parts.
    fn each_file_on(
        &self,
        id: IodId,
        mut seen: impl FnMut(&Inode, Parts) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let alone = BTreeSet::from([id]);
        for shard in (0..self.namespace.shards()).map(ShardId) {
            let mut after = None;
            loop {
                let page = self.namespace.files(shard, after, FILES_MAX)?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for inode in page.into_iter().filter_map(|(_, inode)| inode.ok()) {
                    let Some(layout) = inode.layout.as_deref() else { continue };
                    let parts = objects::parts_on_only(layout, &alone);
                    if !parts.is_empty() {
                        seen(&inode, parts)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn fsck_affected(&self, call: Call, r: &FsckAffected) -> CallOutcome {
        let affected = self.affected(r);
        CallOutcome::from(call, affected)
    }

    fn affected(&self, r: &FsckAffected) -> Result<FsckAffectedReply, Failure> {
        let alone = BTreeSet::from([r.iod]);
        let (mut files, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let mut after = (r.after != FileIndex(0)).then_some(r.after);
        while looked_at < LOOKED_AT_MAX {
            let page = self.namespace.files(r.shard, after, FILES_MAX)?;
            if page.is_empty() {
                return Ok(FsckAffectedReply { files, next: None });
            }
            looked_at += page.len();
            for (file, inode) in page {
                let inode = inode.ok().filter(|inode| inode.kind == FileKind::Regular);
                let affected = inode.filter(|inode| {
                    let parts = inode
                        .layout
                        .as_deref()
                        .map(|layout| objects::parts_on_only(layout, &alone));
                    parts.is_some_and(|parts| !self.possible_parts(inode, &parts).is_empty())
                });
                if let Some(inode) = affected {
                    let found = self.check_file(&inode)?;
                    bytes += found.to_bytes().len();
                    if files.len() == FILES_MAX || (bytes > FILES_BYTES_MAX && !files.is_empty()) {
                        return Ok(FsckAffectedReply { files, next: after });
                    }
                    files.push(found);
                }
                after = Some(file);
            }
        }
        Ok(FsckAffectedReply { files, next: after })
    }

    /// Refuses opens of a file that lost a part with its daemon: see invariant 3.
    pub(super) fn check_lost_parts(&self, inode: &Inode, rights: Rights) -> Result<(), Failure> {
        if !self.any_iod_removed.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(lost) = self.lost_part(inode) else { return Ok(()) };
        let is_size_known = !inode.size_in_objects || self.cached_attributes(inode).is_some();
        if is_size_known && !rights.allow(Rights::WRITE) { Ok(()) } else { Err(lost) }
    }

    /// The failure that names a part of a file that was lost with a daemon, if there is one.
    pub(super) fn lost_part(&self, inode: &Inode) -> Option<Failure> {
        let layout = inode.layout.as_deref()?;
        let state = self.state();
        let removed = state.cluster.removed();
        let lost = objects::parts_on_only(layout, &removed);
        let (part, at) = objects::parts(layout)
            .find(|(part, _)| lost.contains(*part) && inode.parts.contains(*part))?;
        let object = braid_types::ObjectId { file: inode.file, part, generation: at.generation };
        let name = state.cluster.name(*at.iods.first()?);
        let why =
            format!("it was removed from the cluster, and object {object} of the file with it");
        Some(Failure::blaming(Status::ObjectLost, &name, why))
    }
}
