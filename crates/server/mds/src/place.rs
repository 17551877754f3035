//! Where in the namespace a call points, within what its key may reach.

use std::sync::Arc;

use braid_meta::{Inode, NameSlot};
use braid_types::{Failure, FileIndex, Status, limits::PATH_BYTES_MAX};
use braid_wire::message::types::At;

use crate::{call::Call, core::MdsCore};

/// Directories on the way up that are looked at before a subtree's key is refused (I9): deeper trees than
/// a path can name do not matter.
const DEPTH_MAX: usize = PATH_BYTES_MAX;

impl MdsCore {
    /// The file at a place.
    pub(crate) fn file_at(&self, call: &Call, at: &At, follow: bool) -> Result<Arc<Inode>, Failure> {
        let (from, path) = start(call, at)?;
        let inode = self.names.resolve(&call.who, from, path, follow)?;
        self.check_below(call, &inode)?;
        Ok(inode)
    }

    /// The directory and name of a place, whether the name is there or not.
    pub(crate) fn slot_at(&self, call: &Call, at: &At, follow: bool) -> Result<NameSlot, Failure> {
        let (from, path) = start(call, at)?;
        let slot = self.names.resolve_slot(&call.who, from, path, follow)?;
        if call.connection.root != FileIndex::ROOT {
            self.check_below(call, &*self.names.getattr(slot.directory)?)?;
        }
        Ok(slot)
    }

    /// A file that a call names by its index.
    pub(crate) fn file_named(&self, call: &Call, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        let inode = self.names.getattr(if file == FileIndex::ROOT { call.connection.root } else { file })?;
        self.check_below(call, &inode)?;
        Ok(inode)
    }

    /// A key with a subtree reaches what lies below it, whichever way a path or an index leads out.
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
            at = self.names.getattr(at)?.parent;
        }
        Err(Failure::new(Status::PermissionDenied, "outside of the subtree of this client's key"))
    }
}

fn start<'a>(call: &Call, at: &'a At) -> Result<(FileIndex, &'a [u8]), Failure> {
    if at.path.len() > PATH_BYTES_MAX {
        return Err(Status::NameTooLong.into());
    }
    let leading = at.path.iter().take_while(|byte| **byte == b'/').count();
    let from = if at.dir == FileIndex::ROOT { call.connection.root } else { at.dir };
    Ok((from, &at.path[leading..]))
}
