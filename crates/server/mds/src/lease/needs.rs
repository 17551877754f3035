//! Which leases an operation must have returned before it goes on, and which attributes may be
//! cached under a lease.

use braid_meta::{
    Inode,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::FileIndex;
use braid_wire::{Deny, Rights};

use super::service::Need;
use crate::{call::Call, core::MdsCore};

impl MdsCore {
    /// What an open needs. For a client that reads and writes without leases: that no other session
    /// caches or buffers what it reads or writes.
    pub(crate) fn needs_of_open(
        &self,
        call: &Call,
        inode: &Inode,
        rights: Rights,
        deny: Deny,
        empties: bool,
    ) -> Vec<Need> {
        let writes = rights.allow(Rights::WRITE);
        let mut needs = Vec::new();
        if (writes || empties) && !self.is_written_besides(call, inode.file) {
            needs.extend(names_of(inode));
        }
        let data = match (self.does_io_under_leases(call.caller_session()), empties || writes) {
            (true, _) if !empties => None,
            (_, true) => Some(LeaseMode::Shared),
            (_, false) => Some(LeaseMode::Look),
        };
        needs.extend(data.map(|mode| (LeaseOf::Data(inode.file), mode)));
        let alone = writes || empties || !deny.is_none();
        let delegation = if alone { LeaseMode::Write } else { LeaseMode::Look };
        needs.push((LeaseOf::Delegation(inode.file), delegation));
        needs
    }

    /// Whether an open for writing changes nothing for sessions that cache attributes of the file:
    /// since it is being written, none does.
    fn is_written_besides(&self, call: &Call, file: FileIndex) -> bool {
        let writers = self.namespace.writers(file);
        writers.len() > 1 || writers.contains(&call.caller_session())
    }

    /// Whether the caller may not cache a file's attributes under the names lease of its directory.
    /// `size_is_known`: its size is recorded, or was collected after its last writer.
    pub(crate) fn is_uncacheable(&self, call: &Call, inode: &Inode, size_is_known: bool) -> bool {
        if inode.is_directory() {
            return inode.nlink == 0;
        }
        if self.namespace.denied(inode.file).read {
            // A client that cached them would open the file without asking.
            return true;
        }
        if self.has_buffered_writes(call, inode.file) {
            // A holder of its write delegation may change it at any time.
            return true;
        }
        if inode.nlink != 1 || inode.linked || self.sizes_uncertain() && inode.layout.is_some() {
            return true;
        }
        if !inode.size_in_objects {
            return false;
        }
        let writers = self.namespace.writers(inode.file);
        match writers.as_slice() {
            [] => !size_is_known,
            writers => writers.iter().any(|writer| *writer != call.caller_session()),
        }
    }
}

/// What a change of an inode's attributes needs: that no other session caches them.
pub(crate) fn names_of(inode: &Inode) -> Option<Need> {
    let dir = match inode.is_directory() {
        true => Some(inode.file),
        // Attributes of a file with several names, or none, are cached by nobody.
        false => (inode.nlink == 1 && !inode.linked).then_some(inode.parent),
    };
    dir.map(names)
}

/// What a change of a file needs that a holder of its delegation would notice: of its bytes, its
/// attributes or its names.
pub(crate) fn delegation_of(inode: &Inode) -> Option<Need> {
    let file = inode.layout.is_some().then_some(inode.file);
    file.map(|file| (LeaseOf::Delegation(file), LeaseMode::Write))
}

/// What a change of a directory's entries needs.
pub(crate) fn names(dir: FileIndex) -> Need {
    (LeaseOf::Names(dir), LeaseMode::Write)
}

/// What a change of where a file's bytes lie needs.
pub(crate) fn layout(file: FileIndex) -> Need {
    (LeaseOf::Layout(file), LeaseMode::Write)
}
