//! Names: makes directories, nodes and links, removes and renames them. Each is one batch, with its
//! replay record (I7).

use braid_meta::{
    Identity, NodeArgs,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::{Failure, FileIndex, Status};
use braid_wire::message::{
    mds::{
        MakeDirectory, MakeLink, MakeNode, MakeReply, MakeSymlink, MdsRequest, RemoveDirectory,
        RemoveReply, Rename, Unlink,
    },
    types::{Attributes, PathRef},
};

use super::entry::stored_mode;
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, delegation_of, names, names_of},
};

impl MdsCore {
    /// The caller, the time and the replay record of an operation that changes the namespace.
    pub(crate) fn change<'a>(&self, call: &'a Call) -> braid_meta::Call<'a> {
        braid_meta::Call { who: &call.who, now: self.env.clock.wall(), replay: call.replay() }
    }

    pub(super) fn make_directory(&self, call: Call, r: &MakeDirectory) -> CallOutcome {
        let slot = match self.slot_at(&call, &r.at, false) {
            Ok(slot) => slot,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &[names(slot.directory)]));
        let made = Ok(slot).and_then(|slot| {
            let made = self.namespace.mkdir(
                &self.change(&call),
                slot.directory,
                &slot.name,
                convert::mode(r.mode, r.umask),
            )?;
            let directory = self.directory_after(&call, slot.directory);
            Ok(MakeReply { attributes: convert::attributes(&made), directory })
        });
        CallOutcome::from(call, made)
    }

    pub(super) fn make_node(&self, call: Call, r: &MakeNode) -> CallOutcome {
        let found =
            convert::special(r.kind).and_then(|kind| Ok((kind, self.file_slot(&call, &r.at)?)));
        let (kind, slot) = match found {
            Ok(found) => found,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &[names(slot.0)]));
        let made = Ok(kind).and_then(|kind| {
            let args = NodeArgs { kind, mode: convert::mode(r.mode, r.umask), rdev: r.device };
            let made = self.namespace.mknod(&self.change(&call), slot.0, &slot.1, args)?;
            Ok(convert::attributes(&made))
        });
        CallOutcome::from(call, made)
    }

    pub(super) fn make_symlink(&self, call: Call, r: &MakeSymlink) -> CallOutcome {
        let (directory, name) = match self.file_slot(&call, &r.at) {
            Ok(slot) => slot,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &[names(directory)]));
        let made = Ok(directory).and_then(|directory| {
            let made = self.namespace.symlink(&self.change(&call), directory, &name, &r.target)?;
            Ok(convert::attributes(&made))
        });
        CallOutcome::from(call, made)
    }

    pub(super) fn make_link(&self, call: Call, r: &MakeLink) -> CallOutcome {
        let found = self
            .file_at(&call, &r.from, false)
            .and_then(|inode| Ok((inode, self.file_slot(&call, &r.to)?)));
        let (inode, (directory, name)) = match found {
            Ok(found) => found,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut needs: Vec<_> = names_of(&inode).into_iter().chain([names(directory)]).collect();
        needs.extend(delegation_of(&inode));
        let call = claimed!(self.claim(call, &needs));
        let made = self.namespace.link(&self.change(&call), inode.file, directory, &name);
        match made {
            Ok(inode) => {
                let again = MdsRequest::MakeLink(r.clone());
                self.reply_with_attributes(
                    call,
                    inode,
                    || again,
                    |attributes: Attributes| attributes,
                )
            }
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    pub(super) fn unlink(&self, call: Call, r: &Unlink) -> CallOutcome {
        let (directory, name) = match self.file_slot(&call, &r.at) {
            Ok(slot) => slot,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut needs = vec![names(directory)];
        needs.extend(self.leases_in(directory, &name));
        let call = claimed!(self.claim(call, &needs));
        // Another file may have got the name since the claim.
        let done = self.namespace.unlink(&self.change(&call), directory, &name);
        self.note_if_deleted(&done);
        self.removed(call, directory, done)
    }

    pub(super) fn remove_directory(&self, call: Call, r: &RemoveDirectory) -> CallOutcome {
        let slot = match self.slot_at(&call, &r.at, false) {
            Ok(slot) => slot,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut needs = vec![names(slot.directory)];
        needs.extend(self.leases_in(slot.directory, &slot.name));
        let call = claimed!(self.claim(call, &needs));
        let done = self.namespace.rmdir(&self.change(&call), slot.directory, &slot.name);
        self.removed(call, slot.directory, done)
    }

    fn removed(&self, call: Call, directory: FileIndex, done: Result<(), Failure>) -> CallOutcome {
        let removed =
            done.map(|()| RemoveReply { directory: self.directory_after(&call, directory) });
        CallOutcome::from(call, removed)
    }

    /// A directory's attributes after the call has changed it. A client that caches names would ask
    /// for them next; for other clients there are none.
    pub(super) fn directory_after(&self, call: &Call, directory: FileIndex) -> Option<Attributes> {
        let keeps = call.session.is_some_and(|session| self.is_lease_holder(session));
        let inode = if keeps { self.namespace.getattr(directory).ok() } else { None };
        inode.map(|inode| convert::attributes(&inode))
    }

    pub(super) fn rename(&self, call: Call, r: &Rename) -> CallOutcome {
        let mode = match stored_mode(r.mode) {
            Ok(mode) => mode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let ends = self
            .slot_at(&call, &r.from, false)
            .and_then(|from| Ok((from, self.slot_at(&call, &r.to, false)?)));
        let (from, to) = match ends {
            Ok(ends) => ends,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let needs = self.needs_of_rename((from.directory, &from.name), (to.directory, &to.name));
        let call = claimed!(self.claim(call, &needs));
        let done = Ok(from).and_then(|from| {
            let ends = ((from.directory, &from.name[..]), (to.directory, &to.name[..]));
            self.namespace.rename(&self.change(&call), ends.0, ends.1, mode)
        });
        self.note_if_deleted(&done);
        CallOutcome::from(call, done)
    }

    /// The leases that a rename claims.
    pub(super) fn needs_of_rename(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
    ) -> Vec<(LeaseOf, LeaseMode)> {
        let mut needs = vec![names(from.0), names(to.0)];
        needs.extend(self.leases_in(from.0, from.1));
        needs.extend(self.leases_in(to.0, to.1));
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// What moving or removing a file or directory needs besides the leases of its parent: that no
    /// other session has a file's delegation, or caches a directory's entries and attributes. If
    /// another directory takes its name at this moment, sessions that cache entries of that one
    /// reach it only by handles.
    pub(super) fn leases_in(
        &self,
        directory: FileIndex,
        name: &[u8],
    ) -> Option<(LeaseOf, LeaseMode)> {
        let found = self.namespace.lookup(&Identity::root(), directory, name).ok()?;
        if found.is_directory() { Some(names(found.file)) } else { delegation_of(&found) }
    }

    /// The directory and name of something new that is not a directory.
    pub(super) fn file_slot(
        &self,
        call: &Call,
        at: &PathRef,
    ) -> Result<(FileIndex, Vec<u8>), Failure> {
        let slot = self.slot_at(call, at, false)?;
        if slot.wants_directory {
            return Err(Failure::new(Status::NotDirectory, "only a directory's name ends in '/'"));
        }
        Ok((slot.directory, slot.name))
    }
}
