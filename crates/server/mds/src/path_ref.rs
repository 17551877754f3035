//! Path references: finds what a call refers to, within what its key may reach.

use std::sync::Arc;

use braid_meta::{Inode, NameSlot, OpenFile, Want, permit};
use braid_types::{Failure, FileIndex, Status, limits::PATH_BYTES_MAX};
use braid_wire::message::types::PathRef;

use crate::{call::Call, core::MdsCore};

/// Parent directories that are checked before a key with a subtree is refused (I9). Trees deeper
/// than a path can name do not matter.
const DEPTH_MAX: usize = PATH_BYTES_MAX;

impl MdsCore {
    /// The file of a path reference.
    pub(crate) fn file_at(
        &self,
        call: &Call,
        at: &PathRef,
        follow: bool,
    ) -> Result<Arc<Inode>, Failure> {
        let (from, path) = split_path(call, at)?;
        self.check_start(call, from)?;
        let inode = self.namespace.resolve(&call.who, from, path, follow)?;
        self.check_below(call, &inode)?;
        if !path.is_empty() {
            note_reached_file(call, &inode);
        }
        Ok(inode)
    }

    /// The name and file of a path reference whose last name counts without regard to case.
    pub(crate) fn file_at_folded(
        &self,
        call: &Call,
        at: &PathRef,
    ) -> Result<(Vec<u8>, Arc<Inode>), Failure> {
        let slot = self.slot_at(call, at, false)?;
        let (name, inode) = self.namespace.look_up_folded(&call.who, slot.directory, &slot.name)?;
        self.check_below(call, &inode)?;
        note_reached_file(call, &inode);
        Ok((name, inode))
    }

    /// The directory and name of a path reference, whether the name exists or not.
    pub(crate) fn slot_at(
        &self,
        call: &Call,
        at: &PathRef,
        follow: bool,
    ) -> Result<NameSlot, Failure> {
        let (from, path) = split_path(call, at)?;
        self.check_start(call, from)?;
        let slot = self.namespace.resolve_slot(&call.who, from, path, follow)?;
        if call.connection.root != FileIndex::ROOT {
            self.check_below(call, &*self.namespace.getattr(slot.directory)?)?;
        }
        Ok(slot)
    }

    /// The file of an index.
    pub(crate) fn file_named(&self, call: &Call, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        let inode = self.namespace.getattr(if file == FileIndex::ROOT {
            call.connection.root
        } else {
            file
        })?;
        self.check_below(call, &inode)?;
        self.check_reach(call, &inode)?;
        Ok(inode)
    }

    fn check_start(&self, call: &Call, from: FileIndex) -> Result<(), Failure> {
        if from == call.connection.root || !must_search_directories(call) {
            return Ok(());
        }
        self.check_reach(call, &*self.namespace.getattr(from)?)
    }

    /// An index is no secret. A user who names a file by index must be able to search every
    /// directory above it, as with a path, or have it open. For a mount that vouches for its users,
    /// the kernel has checked that.
    fn check_reach(&self, call: &Call, inode: &Inode) -> Result<(), Failure> {
        if !must_search_directories(call)
            || self.is_searchable(call, inode)
            || self.is_open_or_reached(call, inode)
        {
            return Ok(());
        }
        Err(Failure::new(
            Status::PermissionDenied,
            "no permission to search a directory above the file",
        ))
    }

    fn is_searchable(&self, call: &Call, inode: &Inode) -> bool {
        let (root, mut at) = (call.connection.root, inode.parent);
        if inode.file == root {
            return true;
        }
        // A file without a name is below no directory.
        for _ in 0..if inode.nlink > 0 { DEPTH_MAX } else { 0 } {
            let Ok(directory) = self.namespace.getattr(at) else { return false };
            if permit(&call.who, &directory, Want::EXECUTE).is_err() {
                return false;
            }
            if at == root || at == FileIndex::ROOT {
                return true;
            }
            at = directory.parent;
        }
        false
    }

    /// Whether the session has the file open, or reached it by another of its names. Until all
    /// sessions have reclaimed after a restart, any of them may have a file without a name open.
    fn is_open_or_reached(&self, call: &Call, inode: &Inode) -> bool {
        call.connection.has_reached(inode.file)
            || inode.nlink == 0 && self.sizes_uncertain()
            || self.session_has_open(call, inode, |open| !open.is_none())
    }

    /// Whether the session of a call has a file open, in a way that satisfies `so`.
    pub(crate) fn session_has_open(
        &self,
        call: &Call,
        inode: &Inode,
        so: impl Fn(&OpenFile) -> bool,
    ) -> bool {
        self.namespace
            .opens_of(inode.file)
            .iter()
            .any(|open| open.session == call.caller_session() && so(open))
    }

    /// Checks that the file is below the subtree of the key, however a path or an index led to it.
    fn check_below(&self, call: &Call, inode: &Inode) -> Result<(), Failure> {
        let root = call.connection.root;
        if root == FileIndex::ROOT || inode.file == root {
            return Ok(());
        }
        let mut at = inode.parent;
        for _ in 0..DEPTH_MAX {
            if at == root {
                return Ok(());
            }
            if at == FileIndex::ROOT {
                break;
            }
            at = self.namespace.getattr(at)?.parent;
        }
        Err(Failure::new(
            Status::PermissionDenied,
            "the file is outside the subtree of this client's key",
        ))
    }
}

/// Records that a file was reached by one of its names, in a directory that may be searched.
pub(crate) fn note_reached_file(call: &Call, inode: &Inode) {
    if inode.linked && must_search_directories(call) {
        call.connection.note_reached(inode.file);
    }
}

/// Whether the server checks search permission of directories for the caller: it has a ticket.
fn must_search_directories(call: &Call) -> bool {
    !call.connection.vouches() && !call.who.bypasses_permissions()
}

fn split_path<'a>(call: &Call, at: &'a PathRef) -> Result<(FileIndex, &'a [u8]), Failure> {
    if at.path.len() > PATH_BYTES_MAX {
        return Err(Status::NameTooLong.into());
    }
    let leading = at.path.iter().take_while(|byte| **byte == b'/').count();
    let from = if at.dir == FileIndex::ROOT { call.connection.root } else { at.dir };
    Ok((from, &at.path[leading..]))
}
