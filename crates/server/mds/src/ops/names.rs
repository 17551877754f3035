//! Names: make directories, nodes and links, remove, rename. One batch each, with its replay record (I7).

use braid_meta::{NodeArgs, RenameMode as StoredMode};
use braid_types::{Failure, Status};
use braid_wire::message::{
    mds::{MakeDirectory, MakeLink, MakeNode, MakeSymlink, MdsRequest, RemoveDirectory, Rename, RenameMode, Unlink},
    types::{At, Attributes},
};

use crate::{
    call::{Call, Flow},
    convert,
    core::MdsCore,
};

impl MdsCore {
    /// What comes with an operation of the namespace that changes something.
    pub(crate) fn change<'a>(&self, call: &'a Call) -> braid_meta::Call<'a> {
        braid_meta::Call { who: &call.who, now: self.env.clock.wall(), replay: call.replay() }
    }

    pub(super) fn make_directory(&self, call: Call, r: &MakeDirectory) -> Flow {
        let made = self.slot_at(&call, &r.at, false).and_then(|slot| {
            let made =
                self.names.mkdir(&self.change(&call), slot.directory, &slot.name, convert::mode(r.mode, r.umask))?;
            Ok(convert::attributes(&made))
        });
        Flow::from(call, made)
    }

    pub(super) fn make_node(&self, call: Call, r: &MakeNode) -> Flow {
        let made = convert::special(r.kind).and_then(|kind| {
            let slot = self.file_slot(&call, &r.at)?;
            let args = NodeArgs { kind, mode: convert::mode(r.mode, r.umask), rdev: r.device };
            let made = self.names.mknod(&self.change(&call), slot.0, &slot.1, args)?;
            Ok(convert::attributes(&made))
        });
        Flow::from(call, made)
    }

    pub(super) fn make_symlink(&self, call: Call, r: &MakeSymlink) -> Flow {
        let made = self.file_slot(&call, &r.at).and_then(|(directory, name)| {
            let made = self.names.symlink(&self.change(&call), directory, &name, &r.target)?;
            Ok(convert::attributes(&made))
        });
        Flow::from(call, made)
    }

    pub(super) fn make_link(&self, call: Call, r: &MakeLink) -> Flow {
        let file = match self.file_at(&call, &r.from, false) {
            Ok(inode) => inode.file,
            Err(failure) => return Flow::Fail(call, failure),
        };
        let made = self
            .file_slot(&call, &r.to)
            .and_then(|(directory, name)| self.names.link(&self.change(&call), file, directory, &name));
        match made {
            Ok(inode) => {
                let again = MdsRequest::MakeLink(r.clone());
                self.attributes_of(call, inode, || again, |attributes: Attributes| attributes)
            }
            Err(failure) => Flow::Fail(call, failure),
        }
    }

    pub(super) fn unlink(&self, call: Call, r: &Unlink) -> Flow {
        let done = self.slot_at(&call, &r.at, false).and_then(|slot| {
            if slot.wants_directory {
                return Err(Status::NotDirectory.into());
            }
            self.names.unlink(&self.change(&call), slot.directory, &slot.name)
        });
        self.kick_deletions(&done);
        Flow::from(call, done)
    }

    pub(super) fn remove_directory(&self, call: Call, r: &RemoveDirectory) -> Flow {
        let done = self
            .slot_at(&call, &r.at, false)
            .and_then(|slot| self.names.rmdir(&self.change(&call), slot.directory, &slot.name));
        Flow::from(call, done)
    }

    pub(super) fn rename(&self, call: Call, r: &Rename) -> Flow {
        let mode = match r.mode {
            RenameMode::Replace => StoredMode::Replace,
            RenameMode::NoReplace => StoredMode::NoReplace,
            RenameMode::Exchange => StoredMode::Exchange,
            _ => return Flow::Fail(call, Status::Unsupported.into()),
        };
        let done = self.slot_at(&call, &r.from, false).and_then(|from| {
            let to = self.slot_at(&call, &r.to, false)?;
            let ends = ((from.directory, &from.name[..]), (to.directory, &to.name[..]));
            self.names.rename(&self.change(&call), ends.0, ends.1, mode)
        });
        self.kick_deletions(&done);
        Flow::from(call, done)
    }

    /// Where something that is not a directory is made.
    pub(super) fn file_slot(&self, call: &Call, at: &At) -> Result<(braid_types::FileIndex, Vec<u8>), Failure> {
        let slot = self.slot_at(call, at, false)?;
        if slot.wants_directory {
            return Err(Failure::new(Status::NotDirectory, "only a directory's name ends in '/'"));
        }
        Ok((slot.directory, slot.name))
    }
}
