//! Create: name, inode, layout, open and size mark in one batch (I5, I7).

use std::sync::Arc;

use braid_layout::Layout;
use braid_meta::{CreateArgs, Created, DirectoryDefault, FileKind, lease::LeaseOf};
use braid_types::{Failure, FileIndex, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        entry::OpenEntryReply,
        mds::{Create, CreateReply, CreateUnnamed, MdsRequest, OpenEntry},
        types::{Attributes, LayoutHint},
    },
};

use super::open::{args, may_open, session_of};
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, names},
    placement::{Candidates, PlacementInput},
    size::{CreateStart, SoleWriterSince},
};

/// A creation as it was requested.
#[derive(Clone, Copy)]
pub(super) struct CreateCall<'a> {
    /// What to create; its path is not used.
    pub(super) what: &'a Create,
    /// The request, if it was [`OpenEntry`]: no symbolic link is followed.
    pub(super) entry: Option<&'a OpenEntry>,
}

impl CreateCall<'_> {
    fn request(&self) -> MdsRequest {
        match self.entry {
            Some(entry) => MdsRequest::OpenEntry(entry.clone()),
            None => MdsRequest::Create(self.what.clone()),
        }
    }
}

impl MdsCore {
    pub(super) fn create(&self, call: Call, r: &Create) -> CallOutcome {
        // A final link is followed only without O_EXCL (POSIX open()).
        let slot = match self.slot_at(&call, &r.at, !r.exclusive) {
            Ok(slot) if slot.wants_directory => {
                return CallOutcome::Fail(call, Status::IsDirectory.into());
            }
            Ok(slot) => (slot.directory, slot.name),
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        self.create_in(call, slot, CreateCall { what: r, entry: None })
    }

    /// Creates a file under a name, or opens the one that has it.
    pub(super) fn create_in(
        &self,
        call: Call,
        slot: (FileIndex, Vec<u8>),
        of: CreateCall<'_>,
    ) -> CallOutcome {
        let r = of.what;
        // A name that exists already is only opened, which does not change the directory.
        let taken = !r.exclusive
            && self.is_leased(&call, LeaseOf::Names(slot.0))
            && self.namespace.lookup(&call.who, slot.0, &slot.1).is_ok();
        if taken {
            return self.find_file(call, slot, of);
        }
        let call = claimed!(self.claim(call, &[names(slot.0)]));
        // First as if the name were free: for a new file no daemon is asked.
        let since = Some((SoleWriterSince::Made, self.create_start()));
        match self.make_file(&call, &slot, r, true) {
            Ok(made) => {
                // No other client knows the file yet.
                let attributes =
                    Attributes { uncacheable: false, ..convert::attributes(&made.inode) };
                let directory = self.directory_after(&call, slot.0);
                self.created(call, &made, attributes, of, (directory, since))
            }
            Err(failure) if failure.status == Status::Exists && !r.exclusive => {
                self.find_file(call, slot, of)
            }
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    /// The name exists: its file is opened, once its size is known.
    fn find_file(&self, call: Call, slot: (FileIndex, Vec<u8>), of: CreateCall<'_>) -> CallOutcome {
        let r = of.what;
        let is_link = |kind| kind == FileKind::Symlink && of.entry.is_some();
        let known =
            self.namespace.lookup(&call.who, slot.0, &slot.1).and_then(|inode| match r.rights {
                // open(2) with O_NOFOLLOW: ELOOP.
                _ if is_link(inode.kind) => Err(Status::TooManyLinks.into()),
                Some(rights) => may_open(&call, inode, rights),
                None => Ok(inode),
            });
        let inode = match known {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut call = call;
        if let Some(rights) = r.rights {
            call = claimed!(self.recall_excluding(call, &inode, rights, r.deny));
            if let Err(failure) = self.check_share(&inode, rights, r.deny) {
                return CallOutcome::Fail(call, failure);
            }
        }
        let needs = match r.rights {
            Some(rights) => self.needs_of_open(&call, &inode, rights, r.deny, r.truncate),
            None if r.truncate => {
                self.needs_of_open(&call, &inode, Rights::WRITE, Deny::NONE, true)
            }
            None => Vec::new(),
        };
        let deny = if r.rights.is_some() { r.deny } else { Deny::NONE };
        let call = claimed!(self.claim_to_open(call, &inode, needs, deny));
        let (what, entry, file) = (r.clone(), of.entry.cloned(), inode.file);
        let again = of.request();
        let go_on = move |core: &Self, call: Call, attributes| {
            let (made, recorded) = (core.create_start(), core.create_start_if_recorded(file));
            match core.make_file(&call, &slot, &what, false) {
                Ok(found) => {
                    // The name may be another file's now.
                    let recorded = recorded
                        .filter(|_| found.inode.file == file)
                        .map(|mark| (SoleWriterSince::Recorded, mark));
                    let since =
                        if found.created { Some((SoleWriterSince::Made, made)) } else { recorded };
                    let of = CreateCall { what: &what, entry: entry.as_ref() };
                    core.created(call, &found, attributes, of, (None, since))
                }
                Err(failure) => CallOutcome::Fail(call, failure),
            }
        };
        if r.truncate {
            return self.make_empty(call, file, again, move |core, call, inode| {
                let attributes = convert::attributes(&inode);
                go_on(core, call, attributes)
            });
        }
        self.with_true_size(call, inode, || again, go_on)
    }

    fn make_file(
        &self,
        call: &Call,
        slot: &(FileIndex, Vec<u8>),
        r: &Create,
        exclusive: bool,
    ) -> Result<Created, Failure> {
        let session = call.session.unwrap_or_default();
        let open = r.rights.map(|rights| args(session, rights, r.deny));
        // Read before: the closure runs under the namespace's lock and must not take the server's.
        let iods = self.state().cluster.candidates();
        let place = |default: Option<&DirectoryDefault>, _| {
            self.place(&iods, default, &r.layout_hint, call.who.uid)
        };
        let args = CreateArgs { mode: convert::mode(r.mode, r.umask), exclusive, open, place };
        self.namespace.create(&self.change(call), slot.0, &slot.1, args)
    }

    pub(super) fn create_unnamed(&self, call: Call, r: &CreateUnnamed) -> CallOutcome {
        let iods = self.state().cluster.candidates();
        let opened = session_of(&call).and_then(|session| {
            if !r.rights.allow(Rights::WRITE) {
                // open(2): O_TMPFILE requires an open for writing.
                return Err(Failure::new(
                    Status::Invalid,
                    "a file without a name must be opened for writing",
                ));
            }
            let directory = self.file_at(&call, &r.at, true)?;
            let open = args(session, r.rights, Deny::NONE);
            let place = |default: Option<&DirectoryDefault>, _| {
                self.place(&iods, default, &r.layout_hint, call.who.uid)
            };
            let mode = convert::mode(r.mode, r.umask);
            let inode = self.namespace.create_unnamed(
                &self.change(&call),
                directory.file,
                mode,
                open,
                place,
            )?;
            self.give_handle(session, &inode, convert::attributes(&inode), r.rights, Deny::NONE)
        });
        CallOutcome::from(call, opened)
    }

    fn created(
        &self,
        call: Call,
        made: &Created,
        known: Attributes,
        of: CreateCall<'_>,
        (directory, since): (Option<Attributes>, Option<(SoleWriterSince, CreateStart)>),
    ) -> CallOutcome {
        let r = of.what;
        let now = convert::attributes(&made.inode);
        let (size_is_known, Attributes { bytes, bytes_used, mtime, change, .. }) =
            (!known.uncacheable, known);
        let change = change.max(now.change);
        let denied = r.rights.is_some() && r.deny.has(Deny::READ);
        let uncacheable = if made.created {
            denied
        } else {
            self.is_uncacheable(&call, &made.inode, size_is_known)
        };
        let attributes = Attributes { bytes, bytes_used, mtime, change, uncacheable, ..now };
        let opened = r.rights.map(|rights| {
            let session = session_of(&call)?;
            let opened =
                self.give_handle(session, &made.inode, attributes.clone(), rights, r.deny)?;
            if let Some((since, mark)) = since.filter(|_| rights.allow(Rights::WRITE)) {
                self.note_sole_writer(&made.inode, (session, opened.open_id), since, mark);
            }
            Ok(self.with_lease(&call, opened, r.lease))
        });
        let opened: Result<_, Failure> = opened.transpose();
        let created = made.created;
        let answer = match of.entry {
            Some(_) => {
                let change = made.directory.map(convert::directory_change);
                let reply = opened.and_then(|opened| {
                    let opened = opened.ok_or(Status::Internal)?;
                    Ok(OpenEntryReply { opened, created, change })
                });
                CallOutcome::from(call, reply)
            }
            None => {
                let reply =
                    opened.map(|opened| CreateReply { attributes, created, opened, directory });
                CallOutcome::from(call, reply)
            }
        };
        let deny = if r.rights.is_some() { r.deny } else { Deny::NONE };
        self.answer_after_sync(answer, deny)
    }

    /// The layout of a new file.
    pub(super) fn place(
        &self,
        candidates: &Candidates,
        default: Option<&DirectoryDefault>,
        wish: &LayoutHint,
        uid: u64,
    ) -> Result<Arc<Layout>, Failure> {
        let (iods, round_robin) = (candidates.iods(), self.next_round_robin());
        let make = || {
            let inherited = default.map_or_else(LayoutHint::none, convert::wish);
            let layout =
                PlacementInput { wish, inherited: &inherited, iods, round_robin, uid }.layout()?;
            layout.validate().map_err(|error| Failure::new(Status::Invalid, error.to_string()))?;
            Ok(layout)
        };
        match default {
            None if *wish == LayoutHint::none() => candidates.default_layout(round_robin, make),
            _ => make().map(Arc::new),
        }
    }
}
