//! Leases: requests, returns, and waiting for recalls. ADR 0009.

use braid_layout::Layout;
use braid_meta::{
    Inode, Want,
    lease::{LeaseMode as StoredMode, LeaseOf},
    permit,
};
use braid_types::{Failure, FileIndex, SessionId, Status, limits::LEASES_RETURNED_MAX};
use braid_wire::message::mds::{
    AwaitRecalls, LayoutGrant, LeaseData, LeaseDelegation, LeaseLayout, LeaseNames, MdsRequest,
    NamesGrant, ReturnLeases,
};

use super::open::session_of;
use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
};

impl MdsCore {
    pub(super) fn lease_names(&self, call: Call, r: &LeaseNames) -> CallOutcome {
        let (call, session) = match self.as_lease_holder(call, || MdsRequest::LeaseNames(r.clone()))
        {
            Ok(known) => known,
            Err(flow) => return flow,
        };
        let named = self
            .file_named(&call, r.dir)
            .and_then(|inode| may_keep_names(&call, &inode).map(|()| inode));
        let granted = named.and_then(|inode| match inode.is_directory() {
            true if inode.nlink > 0 => {
                let Some(number) = self.grant_shared(LeaseOf::Names(r.dir), session) else {
                    return Ok(None);
                };
                // Read after the grant: a later change recalls it.
                let attributes = convert::attributes(&*self.file_named(&call, r.dir)?);
                Ok(Some(NamesGrant { number, attributes }))
            }
            true => Ok(None),
            false => Err(Status::NotDirectory.into()),
        });
        CallOutcome::from(call, granted)
    }

    pub(super) fn lease_layout(&self, call: Call, r: &LeaseLayout) -> CallOutcome {
        let (call, session) =
            match self.as_lease_holder(call, || MdsRequest::LeaseLayout(r.clone())) {
                Ok(known) => known,
                Err(flow) => return flow,
            };
        let granted = self.layout_of(&call, r.file).and_then(|_| {
            let Some(number) = self.grant_shared(LeaseOf::Layout(r.file), session) else {
                return Ok(None);
            };
            // Read after the grant: a later change recalls it.
            Ok(Some(LayoutGrant { number, layout: self.layout_of(&call, r.file)? }))
        });
        CallOutcome::from(call, granted)
    }

    fn layout_of(&self, call: &Call, file: FileIndex) -> Result<Layout, Failure> {
        let inode = self.file_named(call, file)?;
        let layout = inode.layout.as_deref().cloned();
        let layout = layout
            .ok_or_else(|| Failure::new(Status::Invalid, "only a regular file has a layout"))?;
        self.may_access(call, &inode).map(|()| layout)
    }

    /// A holder of a data lease makes others wait. So it is granted only to a user who could open
    /// the file in this way.
    pub(super) fn may_cache_data(
        &self,
        call: &Call,
        inode: &Inode,
        mode: StoredMode,
    ) -> Result<(), Failure> {
        match mode {
            StoredMode::Write if call.connection.rights.read_only => Err(Status::ReadOnly.into()),
            StoredMode::Write => match permit(&call.who, inode, Want::WRITE) {
                Err(_) if self.session_has_open(call, inode, |open| open.writers > 0) => Ok(()),
                permitted => permitted,
            },
            _ => self.may_access(call, inode),
        }
    }

    /// Whether the caller may read or write a file or owns it, or its session has it open.
    pub(super) fn may_access(&self, call: &Call, inode: &Inode) -> Result<(), Failure> {
        let permitted =
            permit(&call.who, inode, Want::READ).or_else(|_| permit(&call.who, inode, Want::WRITE));
        if permitted.is_err()
            && (call.who.owns(inode) || self.session_has_open(call, inode, |open| !open.is_none()))
        {
            return Ok(());
        }
        permitted
    }

    pub(super) fn lease_data(&self, call: Call, r: &LeaseData) -> CallOutcome {
        let (call, _) = match self.as_lease_holder(call, || MdsRequest::LeaseData(r.clone())) {
            Ok(known) => known,
            Err(flow) => return flow,
        };
        let wish = self.file_named(&call, r.file).and_then(|inode| {
            if inode.layout.is_none() {
                return Err(Failure::new(Status::Invalid, "only regular files have data leases"));
            }
            let mode = convert::lease_mode(r.mode)?;
            self.may_cache_data(&call, &inode, mode).map(|()| mode)
        });
        let asked = match wish {
            Ok(mode) => self.ask_data(call, r.file, (mode, r.exclusive)),
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        match asked {
            // Read after the grant: a later change of the set-id bits recalls it.
            Ok((call, mode, number)) => {
                let granted = self.namespace.getattr(r.file);
                CallOutcome::from(
                    call,
                    granted.map(|inode| {
                        convert::granted(mode, number, self.namespace.has_privileges(&inode))
                    }),
                )
            }
            Err(flow) => flow,
        }
    }

    /// A holder of a delegation makes others wait. So it is granted only to a session that has the
    /// file open in this way.
    pub(super) fn lease_delegation(&self, call: Call, r: &LeaseDelegation) -> CallOutcome {
        let (call, session) =
            match self.as_lease_holder(call, || MdsRequest::LeaseDelegation(r.clone())) {
                Ok(known) => known,
                Err(flow) => return flow,
            };
        let granted = self.file_named(&call, r.file).and_then(|inode| {
            let mode = convert::lease_mode(r.mode)?;
            let has_open = match mode {
                StoredMode::Read => self.session_has_open(&call, &inode, |open| !open.is_none()),
                StoredMode::Write => self.session_has_open(&call, &inode, |open| open.writers > 0),
                _ => return Err(Status::Invalid.into()),
            };
            if inode.layout.is_none() || !has_open {
                let why = "a session is delegated only regular files that it has open";
                return Err(Failure::new(Status::Invalid, why));
            }
            if inode.nlink == 0 || self.is_size_changing(r.file) {
                return Ok(None);
            }
            Ok(self.grant_delegation(session, r.file, mode))
        });
        CallOutcome::from(call, granted)
    }

    pub(super) fn await_recalls(&self, call: Call, r: &AwaitRecalls) -> CallOutcome {
        match self.as_lease_holder(call, || MdsRequest::AwaitRecalls(r.clone())) {
            Ok((call, session)) => {
                self.await_recalls_of(call, session, (r.seen, r.io_under_leases));
                CallOutcome::Pending
            }
            Err(flow) => flow,
        }
    }

    pub(super) fn return_leases(&self, call: Call, r: &ReturnLeases) -> CallOutcome {
        let returned = session_of(&call).and_then(|session| {
            if r.leases.len() > LEASES_RETURNED_MAX {
                let why =
                    format!("at most {LEASES_RETURNED_MAX} leases are returned in one message");
                return Err(Failure::new(Status::LimitExceeded, why));
            }
            let named = r.leases.iter().map(|one| {
                Ok((
                    convert::lease_of(one.kind, one.file)?,
                    one.number,
                    convert::lease_mode(one.keep)?,
                ))
            });
            self.return_leases_of(session, &named.collect::<Result<Vec<_>, Failure>>()?);
            Ok(())
        });
        CallOutcome::from(call, returned)
    }

    /// Continues when the session is on record, and on disk, as a holder of leases: a restarted
    /// server must know which sessions may still rely on leases.
    #[allow(clippy::result_large_err)]
    pub(super) fn as_lease_holder(
        &self,
        call: Call,
        again: impl FnOnce() -> MdsRequest,
    ) -> Result<(Call, SessionId), CallOutcome> {
        let session = match session_of(&call) {
            Ok(session) if self.is_lease_holder(session) => return Ok((call, session)),
            Ok(session) => session,
            Err(failure) => return Err(CallOutcome::Fail(call, failure)),
        };
        let Some(me) = self.arc() else {
            return Err(CallOutcome::Fail(call, Status::NotServing.into()));
        };
        if let Err(failure) = self.namespace.note_leases(session) {
            return Err(CallOutcome::Fail(call, failure));
        }
        let request = again();
        me.sync_log_then(move |core, forced| match forced {
            Ok(()) if core.note_lease_holder(session) => core.run(call, request),
            Ok(()) => core.fail(call, &super::open::ended(session)),
            Err(failure) => core.fail(call, &failure),
        });
        Err(CallOutcome::Pending)
    }
}

/// A holder of a names lease makes changes of the directory wait. So it is granted only to a user
/// who may look up names in it, or list it.
fn may_keep_names(call: &Call, directory: &Inode) -> Result<(), Failure> {
    permit(&call.who, directory, Want::EXECUTE)
        .or_else(|_| permit(&call.who, directory, Want::READ))
}
