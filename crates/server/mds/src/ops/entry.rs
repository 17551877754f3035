//! Calls that name an entry by its directory and one name, for network gateways (ADR 0041). They
//! follow no symbolic link, and their replies have the change counters of the directories, read in
//! the batch of the change. Claims of leases are those of the calls with paths.

use braid_meta::{DirectoryChange as StoredChange, Made, NodeArgs, RenameMode as StoredMode};
use braid_types::{Failure, FileIndex, Status};
use braid_wire::message::{
    FileKind,
    entry::{
        CreateMode, DirectoryChange, EntryKind, LookUpFoldedReply, MakeEntryReply, RenameEntryReply,
    },
    lease::LeaseMode,
    mds::{
        Create, LookUpFolded, MakeEntry, MdsRequest, OpenEntry, RemoveEntry, RenameEntry,
        RenameMode,
    },
    types::{Attributes, LayoutHint, PathRef},
};

use super::{create::CreateCall, open::OpenHow};
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, delegation_of, names, names_of},
};

impl MdsCore {
    pub(super) fn open_entry(&self, call: Call, r: &OpenEntry) -> CallOutcome {
        let at = match entry_path(r.dir, &r.name) {
            Ok(at) => at,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let OpenEntry { rights, deny, truncate, .. } = *r;
        if r.create == CreateMode::Never {
            let found = self.file_at(&call, &at, false).and_then(|inode| match inode.kind {
                // open(2) with O_NOFOLLOW: ELOOP.
                braid_meta::FileKind::Symlink => Err(Status::TooManyLinks.into()),
                _ => Ok(inode),
            });
            let how = OpenHow { rights, deny, lease: LeaseMode::None, truncate, entry: true };
            return self.open_found(call, found, how, MdsRequest::OpenEntry(r.clone()));
        }
        let slot = match self.slot_at(&call, &at, false) {
            Ok(slot) => (slot.directory, slot.name),
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let what = Create {
            at,
            mode: r.mode,
            umask: r.umask,
            exclusive: r.create == CreateMode::Exclusive,
            truncate,
            rights: Some(rights),
            layout_hint: LayoutHint::none(),
            lease: LeaseMode::None,
            deny,
        };
        self.create_in(call, slot, CreateCall { what: &what, entry: Some(r) })
    }

    pub(super) fn look_up_folded(&self, call: Call, r: &LookUpFolded) -> CallOutcome {
        let found = entry_path(r.dir, &r.name).and_then(|at| self.file_at_folded(&call, &at));
        match found {
            Ok((name, inode)) => self.reply_with_attributes(
                call,
                inode,
                || MdsRequest::LookUpFolded(r.clone()),
                move |attributes: Attributes| LookUpFoldedReply { name, attributes },
            ),
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    pub(super) fn make_entry(&self, call: Call, r: &MakeEntry) -> CallOutcome {
        let found = check_fields(r).and_then(|()| self.entry_slot(&call, r.dir, &r.name)).and_then(
            |slot| match r.file {
                Some(file) => {
                    self.file_at(&call, &PathRef::file(file), false).map(|file| (slot, Some(file)))
                }
                None => Ok((slot, None)),
            },
        );
        let ((directory, name), linked) = match found {
            Ok(found) => found,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let of_file =
            linked.iter().flat_map(|inode| names_of(inode).into_iter().chain(delegation_of(inode)));
        let needs: Vec<_> = of_file.chain([names(directory)]).collect();
        let call = claimed!(self.claim(call, &needs));
        let change = self.change(&call);
        let mode = convert::mode(r.mode, r.umask);
        let made = match (r.kind, &linked) {
            (EntryKind::Link, Some(inode)) => {
                self.namespace.link_with_change(&change, inode.file, directory, &name)
            }
            (EntryKind::Directory, _) => {
                self.namespace.mkdir_with_change(&change, directory, &name, mode)
            }
            (EntryKind::Symlink, _) => {
                self.namespace.symlink_with_change(&change, directory, &name, &r.target)
            }
            (kind, _) => special(kind).and_then(|kind| {
                let args = NodeArgs { kind, mode, rdev: r.device };
                self.namespace.mknod_with_change(&change, directory, &name, args)
            }),
        };
        let made = made.and_then(|Made { inode, directory }| Ok((inode, returned(directory)?)));
        match made {
            // Only a file with several names may have bytes that others write.
            Ok((inode, change)) if linked.is_some() => {
                let again = MdsRequest::MakeEntry(r.clone());
                self.reply_with_attributes(
                    call,
                    inode,
                    || again,
                    move |attributes: Attributes| MakeEntryReply { attributes, change },
                )
            }
            made => {
                let reply = made.map(|(inode, change)| MakeEntryReply {
                    attributes: convert::attributes(&inode),
                    change,
                });
                CallOutcome::from(call, reply)
            }
        }
    }

    pub(super) fn remove_entry(&self, call: Call, r: &RemoveEntry) -> CallOutcome {
        let (directory, name) = match self.entry_slot(&call, r.dir, &r.name) {
            Ok(slot) => slot,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut needs = vec![names(directory)];
        needs.extend(self.leases_in(directory, &name));
        let call = claimed!(self.claim(call, &needs));
        let done = self.namespace.remove(&self.change(&call), directory, &name).and_then(returned);
        self.note_if_deleted(&done);
        CallOutcome::from(call, done)
    }

    pub(super) fn rename_entry(&self, call: Call, r: &RenameEntry) -> CallOutcome {
        let ends = stored_mode(r.mode).and_then(|mode| {
            let from = self.entry_slot(&call, r.from_dir, &r.from_name)?;
            Ok((mode, from, self.entry_slot(&call, r.to_dir, &r.to_name)?))
        });
        let (mode, from, to) = match ends {
            Ok(ends) => ends,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let needs = self.needs_of_rename((from.0, &from.1), (to.0, &to.1));
        let call = claimed!(self.claim(call, &needs));
        let ends = ((from.0, &from.1[..]), (to.0, &to.1[..]));
        let done = self.namespace.rename_with_change(&self.change(&call), ends.0, ends.1, mode);
        let done = done.and_then(|changes| {
            let (from, to) = (changes.first().copied(), changes.last().copied());
            Ok(RenameEntryReply { from: returned(from)?, to: returned(to)? })
        });
        self.note_if_deleted(&done);
        CallOutcome::from(call, done)
    }

    /// The directory of an entry, in which the caller may search.
    fn entry_slot(
        &self,
        call: &Call,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(FileIndex, Vec<u8>), Failure> {
        let slot = self.slot_at(call, &entry_path(dir, name)?, false)?;
        Ok((slot.directory, slot.name))
    }
}

/// One name as a path.
fn entry_path(dir: FileIndex, name: &[u8]) -> Result<PathRef, Failure> {
    match name {
        b"" => Err(Status::NotFound.into()),
        b"." | b".." => Err(Status::Invalid.into()),
        _ if name.contains(&b'/') => Err(Failure::new(Status::Invalid, "a name contains no '/'")),
        _ => Ok(PathRef { dir, path: name.to_vec() }),
    }
}

/// Refuses fields that have no meaning for the kind (I10).
fn check_fields(r: &MakeEntry) -> Result<(), Failure> {
    let is_device = matches!(r.kind, EntryKind::CharDevice | EntryKind::BlockDevice);
    let has_mode = !matches!(r.kind, EntryKind::Symlink | EntryKind::Link);
    let fits = (has_mode || r.mode == 0)
        && (is_device || r.device == 0)
        && (r.kind == EntryKind::Symlink || r.target.is_empty())
        && (r.kind == EntryKind::Link) == r.file.is_some();
    if fits {
        return Ok(());
    }
    Err(Failure::new(Status::Invalid, "a field has no meaning for what is made"))
}

fn special(kind: EntryKind) -> Result<braid_meta::FileKind, Failure> {
    convert::special(match kind {
        EntryKind::Fifo => FileKind::Fifo,
        EntryKind::Socket => FileKind::Socket,
        EntryKind::CharDevice => FileKind::CharDevice,
        EntryKind::BlockDevice => FileKind::BlockDevice,
        _ => return Err(Status::Unsupported.into()),
    })
}

pub(super) fn stored_mode(mode: RenameMode) -> Result<StoredMode, Failure> {
    match mode {
        RenameMode::Replace => Ok(StoredMode::Replace),
        RenameMode::NoReplace => Ok(StoredMode::NoReplace),
        RenameMode::Exchange => Ok(StoredMode::Exchange),
        _ => Err(Status::Unsupported.into()),
    }
}

/// The change of a directory, for the reply. Records of earlier versions have none, and none of
/// them belongs to a call of this file.
fn returned(change: Option<StoredChange>) -> Result<DirectoryChange, Failure> {
    change.map(convert::directory_change).ok_or_else(|| Status::Internal.into())
}
