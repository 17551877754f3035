//! Open, close, and capabilities (I4).

use std::sync::Arc;

use braid_meta::{Inode, OpenArgs, OpenMode, Want, lease::LeaseMode as StoredMode};
use braid_types::{Failure, FileIndex, SessionId, Status};
use braid_wire::{
    Capability, Deny, Rights,
    message::{
        entry::OpenEntryReply,
        lease::{LeaseGrant, LeaseMode},
        mds::{Close, MdsRequest, Open, OpenReply, RenewCapability},
        types::Attributes,
    },
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::{MdsCore, MdsState},
    lease::claimed,
    session::OpenFile,
    size::SoleWriterSince,
};

/// Handles in one `Close` (I9): as many as fit a message would hold the server's lock for too long.
const CLOSE_HANDLES_MAX: usize = 4096;

/// How to open a file.
#[derive(Clone, Copy)]
pub(super) struct OpenHow {
    pub(super) rights: Rights,
    pub(super) deny: Deny,
    pub(super) lease: LeaseMode,
    pub(super) truncate: bool,
    /// Whether the answer is an [`OpenEntryReply`].
    pub(super) entry: bool,
}

/// An open as the store counts it.
pub(super) fn args(session: SessionId, rights: Rights, deny: Deny) -> OpenArgs {
    let OpenMode { access, deny } = convert::open_mode(rights, deny);
    OpenArgs { session, access, deny }
}

impl MdsCore {
    pub(super) fn open_file(&self, mut call: Call, r: &Open) -> CallOutcome {
        let Open { rights, deny, mut lease, truncate, .. } = *r;
        if lease != LeaseMode::None {
            call = match self.as_lease_holder(call, || MdsRequest::Open(r.clone())) {
                Ok((call, _)) => call,
                // A disk that is full, for example: the open goes on without the lease.
                Err(CallOutcome::Fail(call, _)) => {
                    lease = LeaseMode::None;
                    call
                }
                Err(flow) => return flow,
            };
        }
        let found = self.file_at(&call, &r.at, true);
        let how = OpenHow { rights, deny, lease, truncate, entry: false };
        self.open_found(call, found, how, MdsRequest::Open(r.clone()))
    }

    /// Opens the file that was found. `again` is the request, for a call that must run again.
    pub(super) fn open_found(
        &self,
        call: Call,
        found: Result<Arc<Inode>, Failure>,
        how: OpenHow,
        again: MdsRequest,
    ) -> CallOutcome {
        let inode = match found.and_then(|inode| may_open(&call, inode, how.rights)) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.recall_excluding(call, &inode, how.rights, how.deny));
        if let Err(failure) = self.check_share(&inode, how.rights, how.deny) {
            return CallOutcome::Fail(call, failure);
        }
        let needs = self.needs_of_open(&call, &inode, how.rights, how.deny, how.truncate);
        let call = claimed!(self.claim_to_open(call, &inode, needs, how.deny));
        if how.truncate {
            let file = inode.file;
            return self.make_empty(call, file, again, move |core, call, inode| {
                core.open_known(call, convert::attributes(&inode), how)
            });
        }
        self.with_true_size(
            call,
            inode,
            || again,
            move |core, call, attributes| core.open_known(call, attributes, how),
        )
    }

    /// Opens a file, with its true size.
    fn open_known(&self, call: Call, known: Attributes, how: OpenHow) -> CallOutcome {
        let OpenHow { rights, deny, lease, entry, .. } = how;
        let writes = rights.allow(Rights::WRITE);
        let opened = session_of(&call).and_then(|session| {
            let recorded = if writes { self.create_start_if_recorded(known.file) } else { None };
            let inode = self.namespace.open_file(
                &self.change(&call),
                known.file,
                args(session, rights, deny),
            )?;
            let now = convert::attributes(&inode);
            let (size_is_known, Attributes { bytes, bytes_used, mtime, change, .. }) =
                (!known.uncacheable, known);
            let uncacheable = self.is_uncacheable(&call, &inode, size_is_known);
            let change = change.max(now.change);
            let attributes = Attributes { bytes, bytes_used, mtime, change, uncacheable, ..now };
            let opened = self.give_handle(session, &inode, attributes, rights, deny)?;
            if let Some(mark) = recorded {
                self.note_sole_writer(
                    &inode,
                    (session, opened.open_id),
                    SoleWriterSince::Recorded,
                    mark,
                );
            }
            Ok(self.with_lease(&call, opened, lease))
        });
        let answer = match entry {
            true => {
                let reply = |opened| OpenEntryReply { opened, created: false, change: None };
                CallOutcome::from(call, opened.map(reply))
            }
            false => CallOutcome::from(call, opened),
        };
        self.answer_after_sync(answer, deny)
    }

    /// Adds the data lease that was requested with an open.
    pub(super) fn with_lease(&self, call: &Call, opened: OpenReply, lease: LeaseMode) -> OpenReply {
        let wish = convert::lease_mode(lease).unwrap_or(StoredMode::None);
        if wish == StoredMode::None {
            return opened;
        }
        let file = opened.attributes.file;
        let known = self.namespace.getattr(file);
        if !known.is_ok_and(|inode| self.may_cache_data(call, &inode, wish).is_ok()) {
            return opened;
        }
        let (mode, number) = self.try_data(call, file, wish);
        // Read after the grant: a later change of the set-id bits recalls it. If they cannot be
        // read, the client asks when it writes.
        let set_ids = self
            .namespace
            .getattr(file)
            .map_or(true, |inode| self.namespace.has_privileges(&inode));
        OpenReply { lease: convert::granted(mode, number, set_ids), ..opened }
    }

    /// Makes handle and capability for an open that the store has recorded.
    pub(super) fn give_handle(
        &self,
        session: SessionId,
        inode: &Arc<Inode>,
        attributes: Attributes,
        rights: Rights,
        deny: Deny,
    ) -> Result<OpenReply, Failure> {
        let open = OpenFile { file: inode.file, rights, deny };
        let given = {
            let mut state = self.state();
            if rights.allow(Rights::WRITE) {
                state.sizes.opened_for_writing(inode.file);
            }
            match state.sessions.live.get_mut(session) {
                Some(live) => live.open(open).map(|id| (id, live.recount_opens)),
                None => Err(ended(session)),
            }
        };
        let (open_id, recounts) = match given {
            Ok(given) => given,
            Err(failure) => {
                self.undo_open(session, open);
                if let Some(live) = self.state().sessions.live.get_mut(session) {
                    live.recount_opens = true;
                }
                return Err(failure);
            }
        };
        if recounts {
            // The open may be answered from a replay record, although its count has ended since: by
            // a reclaim, or because it was undone.
            self.ensure_counted(session, open, open_id)?;
        }
        self.with_capability(session, inode, attributes, rights, open_id)
    }

    pub(super) fn with_capability(
        &self,
        session: SessionId,
        inode: &Inode,
        attributes: Attributes,
        rights: Rights,
        open_id: u64,
    ) -> Result<OpenReply, Failure> {
        let layout = inode
            .layout
            .as_deref()
            .ok_or_else(|| Failure::new(Status::Corrupted, "a file without a layout"))?;
        let capability = Capability {
            file: inode.file,
            size_generation: inode.size_generation,
            rights,
            session,
            epoch: self.epoch,
            owner: (inode.owner.id, inode.group.id),
            layout: layout.clone(),
            existing_parts: inode.parts.as_bytes().to_vec(),
        };
        let growth_grant =
            self.growth_grant(session, (inode.file, layout), rights, attributes.bytes)?;
        let signed = capability.sign(&self.key);
        let Capability { layout, existing_parts, .. } = capability;
        let lease = LeaseGrant::NONE;
        Ok(OpenReply {
            open_id,
            attributes,
            layout,
            existing_parts,
            capability: signed,
            lease,
            growth_grant,
        })
    }

    /// Undoes an open that could not be added to its session.
    fn undo_open(&self, session: SessionId, open: OpenFile) {
        let who = braid_meta::Identity::root();
        let change = braid_meta::Call { who: &who, now: self.env.clock.wall(), replay: None };
        let args = args(session, open.rights, open.deny);
        if let Err(failure) = self.namespace.close_file(&change, open.file, args) {
            crate::core::report("undoing an open", &failure);
            self.state().sessions.close_handle_later(session, open);
        }
    }

    /// Closes a handle that no client has, unless its session has ended.
    pub(crate) fn close_unclaimed(&self, session: SessionId, open_id: u64) -> Result<(), Failure> {
        let who = braid_meta::Identity::root();
        let change = braid_meta::Call { who: &who, now: self.env.clock.wall(), replay: None };
        // Handle and count end under one lock, since a reclaim compares them.
        let mut state = self.state();
        let opened = state.sessions.live.get(session).and_then(|live| live.opened(open_id));
        let Some(open) = opened else { return Ok(()) };
        if self.namespace.close_file(&change, open.file, args(session, open.rights, open.deny))? {
            state.sizes.last_writer_closed(open.file);
        }
        if let Some(live) = state.sessions.live.get_mut(session) {
            live.close(open_id);
        }
        Ok(())
    }

    pub(super) fn close(&self, call: Call, r: &Close) -> CallOutcome {
        if r.open_ids.len() > CLOSE_HANDLES_MAX {
            let failure = Failure::new(
                Status::LimitExceeded,
                format!("at most {CLOSE_HANDLES_MAX} handles in one call"),
            );
            return CallOutcome::Fail(call, failure);
        }
        let session = match session_of(&call) {
            Ok(session) => session,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let opens: Vec<(u64, OpenFile)> = match self.state().sessions.live.get_mut(session) {
            Some(live) => {
                r.open_ids.iter().filter_map(|id| Some((*id, live.close(*id)?))).collect()
            }
            None => Vec::new(),
        };
        // Each handle is removed above, once. A retry finds only those that could not be closed, so
        // it needs no replay record.
        let change = braid_meta::Call { replay: None, ..self.change(&call) };
        let mut failed = None;
        for (open_id, open) in opens {
            let args = args(session, open.rights, open.deny);
            if open.rights.allow(Rights::WRITE) && call.connection.owner.user.is_some() {
                self.state().note_unfenced_close(session, open.file);
            }
            match self.namespace.close_file(&change, open.file, args) {
                Ok(true) => self.cache_report_or_collect(&call, open_id, open.file),
                Ok(false) if open.rights.allow(Rights::WRITE) => {
                    self.state().sizes.writer_closed(open.file)
                }
                Ok(false) => {}
                Err(failure) => {
                    self.restore_handle(session, open_id, open);
                    failed = Some(failure);
                }
            }
        }
        self.state().deletions.note_queued();
        CallOutcome::from(call, failed.map_or(Ok(()), Err))
    }

    /// The store could not end an open and still counts it: its handle is restored, so that a retry
    /// can close it.
    fn restore_handle(&self, session: SessionId, open_id: u64, open: OpenFile) {
        if let Some(live) = self.state().sessions.live.get_mut(session) {
            live.restore(open_id, open);
        }
        // A reclaim may have ended the count in the meantime.
        if let Err(failure) = self.ensure_counted(session, open, open_id) {
            crate::core::report("restoring a handle that could not be closed", &failure);
        }
    }

    pub(super) fn renew_capability(&self, call: Call, r: &RenewCapability) -> CallOutcome {
        let session = match session_of(&call) {
            Ok(session) => session,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let inode = match self.file_named(&call, r.file) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        if self.is_size_changing(r.file) {
            return CallOutcome::Gate(call, r.file);
        }
        let held = self.state().sessions.live.get(session).and_then(|live| live.opened(r.open_id));
        let (open_id, rights) = (r.open_id, r.rights);
        let allowed = match held {
            Some(open) if open.file == r.file && open.rights.allow(rights) => Ok(()),
            Some(_) => Err(Failure::new(
                Status::Invalid,
                format!("handle {open_id} is open for something else"),
            )),
            // It was closed, or not reclaimed.
            None => Err(Failure::new(Status::StaleHandle, format!("handle {open_id} is not open"))),
        };
        // A handle that may write was checked when it was opened: only the size must be known.
        let allowed = allowed.and_then(|()| self.check_lost_parts(&inode, Rights::READ));
        if let Err(failure) = allowed {
            return CallOutcome::Fail(call, failure);
        }
        let again = r.clone();
        self.with_true_size(
            call,
            inode,
            || MdsRequest::RenewCapability(again),
            move |core, call, attributes| {
                // Read again, since the size generation must be the newest.
                let inode = core.namespace.getattr(attributes.file);
                let opened = inode.and_then(|inode| {
                    core.with_capability(session, &inode, attributes, rights, open_id)
                });
                CallOutcome::from(call, opened)
            },
        )
    }
}

impl MdsState {
    /// A session of a ticket closes a file that it may write, and may still use its capability. So
    /// the size of the file is asked of its objects until the session's fence holds (I5).
    pub(super) fn note_unfenced_close(&mut self, session: SessionId, file: FileIndex) {
        if !self.sizes.may_note_unfenced_close() {
            return;
        }
        let Some(live) = self.sessions.live.get_mut(session) else { return };
        if let Some(oldest) = live.note_unfenced_close(file) {
            self.sizes.note_unfenced_close(file);
            oldest.into_iter().for_each(|oldest| self.sizes.end_unfenced_close(oldest));
        }
    }
}

pub(super) fn session_of(call: &Call) -> Result<SessionId, Failure> {
    call.session.ok_or_else(|| Failure::new(Status::NoSession, "open a session first"))
}

/// Checks permission and kind, before daemons are asked for sizes.
pub(super) fn may_open(
    call: &Call,
    inode: Arc<Inode>,
    rights: Rights,
) -> Result<Arc<Inode>, Failure> {
    let both = |asked: bool, want: Want| if asked { want } else { Want::NOTHING };
    let want = both(rights.allow(Rights::READ), Want::READ)
        .and(both(rights.allow(Rights::WRITE), Want::WRITE));
    match inode.kind {
        braid_meta::FileKind::Regular => {
            braid_meta::permit(&call.who, &inode, want).map(|()| inode)
        }
        braid_meta::FileKind::Directory => Err(Status::IsDirectory.into()),
        _ => Err(Status::NoDevice.into()),
    }
}

pub(super) fn ended(session: SessionId) -> Failure {
    Failure::new(Status::NoSession, format!("session {session} has ended"))
}
