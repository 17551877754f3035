//! Leases and oplocks of CREATE. MS-SMB2 3.3.5.9, 3.3.5.9.8, 3.3.5.9.11.

use std::sync::Arc;

use braid_share::{FileIndex, Share};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::Dialect;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::create::{
    CreateContext, CreateRequest, Lease, LeaseFlags, LeaseState, LeaseV2, OplockLevel,
    context as tags,
};

use super::Job;
use crate::context::{Context, malformed};
use crate::file_state::Claim;
use crate::leases::rules::{self, Conflict};
use crate::leases::{Form, Granted, LeasedOpen, NewOpen, Owner, Peer, Refusal};

/// How often an open breaks what others cache before it is excluded for good. Each break ends in a
/// limited time; others may be granted something in between.
const BREAKS_MAX: usize = 16;

/// What a CREATE asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseWish {
    /// What the open shares its state with.
    pub owner: Owner,
    /// What it would cache.
    pub state: LeaseState,
    form: Form,
    /// The lease as it was asked for.
    asked: Option<Lease>,
}

impl LeaseWish {
    /// Reads what a request asks for; `id` is the number of the open.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for a context with another length.
    pub fn of<S: Share>(
        context: &Context<S>,
        request: &CreateRequest,
        id: FileId,
    ) -> Result<Self, NtStatus> {
        let owner = Owner::Open(id.volatile);
        let none = Self { owner, state: LeaseState::NONE, form: Form::Oplock, asked: None };
        if !context.server.config.leases {
            return Ok(none);
        }
        if request.oplock_level != OplockLevel::LEASE {
            return Ok(Self { state: rules::state_of(request.oplock_level), ..none });
        }
        let negotiated = context.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
        let Some(data) = CreateContext::find(&request.contexts, tags::LEASE) else {
            return Ok(none);
        };
        let asked = Lease::decode(data).map_err(malformed)?;
        let dialect = negotiated.dialect;
        // 3.3.5.9.8, 3.3.5.9.11: ignored where the dialect does not have it.
        if dialect == Dialect::Smb202 || asked.v2.is_some() && !dialect.is_smb3() {
            return Ok(none);
        }
        Ok(Self {
            owner: Owner::Lease((negotiated.client_guid, asked.key)),
            state: asked.state,
            form: Form::Lease(asked.v2),
            asked: Some(asked),
        })
    }

    /// The level and the context of the response. 2.2.14.2.10, 2.2.14.2.11.
    pub fn answer(&self, granted: Granted) -> (OplockLevel, Option<CreateContext>) {
        let Some(asked) = self.asked else {
            return (rules::level_of(granted.state), None);
        };
        (OplockLevel::LEASE, Some(context_of(&asked, granted)))
    }
}

/// The context of a response, to a request for the lease `asked`. 2.2.14.2.10, 2.2.14.2.11.
pub(super) fn context_of(asked: &Lease, granted: Granted) -> CreateContext {
    let flags = match granted.is_breaking {
        true => LeaseFlags::BREAK_IN_PROGRESS,
        false => LeaseFlags::default(),
    };
    // 3.3.5.9.11: a lease keeps the version in which it was asked for first.
    let v2 = match granted.form {
        Form::Lease(Some(v2)) => {
            let parent = asked.v2.filter(|_| asked.flags.has(LeaseFlags::PARENT_LEASE_KEY_SET));
            Some(LeaseV2 { parent_key: parent.unwrap_or_default().parent_key, epoch: v2.epoch })
        }
        _ => None,
    };
    let has_parent = v2.is_some() && asked.flags.has(LeaseFlags::PARENT_LEASE_KEY_SET);
    let flags = if has_parent { flags.with(LeaseFlags::PARENT_LEASE_KEY_SET) } else { flags };
    Lease { key: asked.key, state: granted.state, flags, v2 }.to_context()
}

/// Where notifications of an open go, which the client of a request makes or gets back.
pub(super) fn peer_of<S: Share>(context: &Context<S>) -> Result<Peer<S>, NtStatus> {
    let seals = context.is_sealed || context.tree()?.requires_encryption();
    let sealed_by = context.session.as_ref().filter(|_| seals);
    let connection = Arc::downgrade(&context.connection);
    Ok(Peer { connection, sealed_by: sealed_by.map(Arc::downgrade) })
}

impl<S: Share> Job<'_, S> {
    /// Checks, before a file is created, that the key names no other file's lease. 3.3.5.9.8.
    pub(super) fn check_new_lease(&self) -> Result<(), NtStatus> {
        match self.lease.owner {
            Owner::Lease(name) if self.context.server.leases.file_of(name).is_some() => {
                Err(NtStatus::INVALID_PARAMETER)
            }
            _ => Ok(()),
        }
    }

    /// Enters the open into the table of opens and that of leases, after others have given up what
    /// they may not cache beside it. `needed` is its claim with that to overwrite the file. None
    /// for a directory. MS-FSA 2.1.5.1.2, 2.1.5.1.2.2.
    pub(super) async fn enter(
        &self,
        (file, is_file): (FileIndex, bool),
        (granted, needed): (AccessMask, AccessMask),
        overwrites: bool,
    ) -> Result<Option<LeasedOpen<S>>, NtStatus> {
        let server = &self.context.server;
        let (claim, needed) = (self.claim(granted), self.claim(needed));
        if !is_file {
            server.files.open(file, claim)?;
            return Ok(None);
        }
        let conflict = Conflict::Open { access: granted, overwrites };
        for _ in 0..BREAKS_MAX {
            if !self.is_admitted(file, needed).await? {
                continue;
            }
            match server.leases.begin(file, self.new_open(conflict)?) {
                Ok(open) => match server.files.open(file, claim) {
                    Ok(()) => return Ok(Some(open)),
                    // Another open came between.
                    Err(_) => continue,
                },
                Err(Refusal::Blocked(blocked)) => self.waiter.wait(blocked.changed()).await?,
                Err(Refusal::Status(status)) => return Err(status),
            }
        }
        Err(NtStatus::SHARING_VIOLATION)
    }

    /// Whether no other open excludes this one. If one does whose client may have closed it without
    /// a call, waits until it has.
    async fn is_admitted(&self, file: FileIndex, claim: Claim) -> Result<bool, NtStatus> {
        let server = &self.context.server;
        let excluded = match server.files.check(file, claim) {
            Ok(()) => return Ok(true),
            Err(NtStatus::SHARING_VIOLATION) => NtStatus::SHARING_VIOLATION,
            // It may be removed by the close of a durable open, which this one has caused.
            Err(status) => match server.leases.closing(file) {
                Some(closing) => {
                    return self.waiter.wait(closing.changed()).await.map(|()| false);
                }
                None => return Err(status),
            },
        };
        match server.leases.make_way(file, self.lease.owner, Conflict::Excluded) {
            Some(blocked) => self.waiter.wait(blocked.changed()).await.map(|()| false),
            None => Err(excluded),
        }
    }

    fn new_open(&self, conflict: Conflict) -> Result<NewOpen<S>, NtStatus> {
        let (owner, form) = (self.lease.owner, self.lease.form);
        let (id, peer, client) = (self.id, peer_of(self.context)?, self.client.clone());
        Ok(NewOpen { id, owner, form, peer, client, conflict })
    }
}
