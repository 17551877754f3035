//! CREATE of a client that asks for an open which it has lost. MS-SMB2 3.3.5.9.7, 3.3.5.9.12;
//! ADR 0056.

use std::sync::Arc;
use std::time::Duration;

use braid_share::{Attributes, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::create::{
    CreateAction, CreateContext, CreateRequest, Lease, OplockLevel, context as tags,
};
use tokio::time::timeout;

use super::durable::Reconnect;
use super::{lease, response, share_path};
use crate::context::{Context, OpResult, Reply, malformed};
use crate::durable::Disconnected;
use crate::leases::{Form, Owner, rules};
use crate::open::{FileOpen, Open};
use crate::session::{Logon, OpenSlot};
use crate::status::failed;
use crate::tree::{Target, Tree};

/// How long requests of the lost connection may go on to run.
const RUNNING_MAX: Duration = Duration::from_secs(10);

/// A request for a lost open.
struct Reopening<'a, S: Share> {
    context: &'a Context<S>,
    request: &'a CreateRequest,
    wanted: Reconnect,
    /// The lease that the request names.
    lease: Option<Lease>,
}

/// Gives an open back to its client.
///
/// # Errors
/// `OBJECT_NAME_NOT_FOUND` without such an open, `ACCESS_DENIED` for another user's,
/// `INVALID_PARAMETER` for another name, and `FILE_NOT_AVAILABLE` while requests of the lost
/// connection run.
pub(super) async fn reconnect<S: Share>(
    context: &Context<S>,
    request: &CreateRequest,
    wanted: Reconnect,
) -> OpResult {
    let lease = CreateContext::find(&request.contexts, tags::LEASE);
    let lease = lease.map(Lease::decode).transpose().map_err(malformed)?;
    let reopening = Reopening { context, request, wanted, lease };
    let (server, session) = (&context.server, context.session()?);
    let slot = session.reserve_open(&server.config.limits)?;
    let channel = {
        let mut channel = None;
        server.disconnected.look(wanted.persistent, |one| {
            reopening.check(one)?;
            channel = one.open.file().ok().map(|file| Arc::clone(&file.channel));
            Ok(())
        })?;
        channel.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?
    };
    // Invariant 3 of `crate::durable`: what was sent before does not come after what is sent now.
    timeout(RUNNING_MAX, channel.idle()).await.map_err(|_| NtStatus::FILE_NOT_AVAILABLE)?;
    let taken = server.disconnected.take_if(wanted.persistent, |one| reopening.check(one))?;
    let Disconnected { open, session: before, .. } = taken;
    let restored = reopening.restore(&open, slot).await;
    if restored.is_err() {
        crate::ops::close::close_open(server, &before, &open).await;
    }
    restored
}

impl<S: Share> Reopening<'_, S> {
    /// Checks that the request may have the open.
    fn check(&self, one: &Disconnected<S>) -> Result<(), NtStatus> {
        let not_found = Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        let Open::File(file) = &*one.open else { return not_found };
        let (session, tree) = (self.context.session()?, self.context.tree()?);
        let negotiated = self.context.connection.negotiated();
        let client_guid = negotiated.ok_or(NtStatus::INVALID_PARAMETER)?.client_guid;
        // 3.3.5.9.12; an open of version 1 has none.
        let created_by = file.record.as_ref().map(|record| record.guid()).unwrap_or_default();
        if self.wanted.create_guid.is_some_and(|guid| guid != created_by) {
            return not_found;
        }
        if !is_same_share(&file.tree, tree) {
            return not_found;
        }
        // 3.3.5.9.7, 3.3.5.9.12: the same lease of the same machine, or no lease.
        let has_lease = match (file.owner(), &self.lease) {
            (Owner::Lease(name), Some(lease)) if name == (client_guid, lease.key) => true,
            (Owner::Open(_), None) => false,
            _ => return not_found,
        };
        // 3.3.5.9.7: Open.DurableOwner.
        let is_owner = session.logon == Logon::User
            && file.durable.as_ref().is_some_and(|durable| durable.owner == session.user.name);
        if !is_owner {
            return Err(NtStatus::ACCESS_DENIED);
        }
        // 3.3.5.9.7. As Windows, only with the oplock level of a lease.
        let names = has_lease && self.request.oplock_level == OplockLevel::LEASE;
        match names && !file.is_delete_on_close() && !self.names(file) {
            true => Err(NtStatus::INVALID_PARAMETER),
            false => Ok(()),
        }
    }

    /// Whether the request has the name of an open, in any case.
    fn names(&self, file: &FileOpen<S>) -> bool {
        let upper = |text: &str| text.chars().flat_map(char::to_uppercase).collect::<String>();
        share_path(self.context, &self.request.name)
            .is_ok_and(|path| upper(&path.text()) == upper(&file.place().path))
    }

    /// Adds the open to the session, and answers.
    async fn restore(&self, open: &Arc<Open<S>>, slot: OpenSlot<S>) -> OpResult {
        let (context, file) = (self.context, open.file()?);
        file.set_tree(context.tree()?);
        file.channel.restart(context.header.channel_sequence());
        let peer = lease::peer_of(context)?;
        let lease = file.lease.as_ref().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        let granted = lease.reconnect(peer).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        let known = attributes(context, file).await?;
        if let Some((app, record)) = &file.app {
            record.enter(app, open, context.session()?);
        }
        slot.fill(Arc::clone(open))?;
        let (level, contexts) = match (granted.form, &self.lease) {
            (Form::Lease(_), Some(asked)) => {
                (OplockLevel::LEASE, vec![lease::context_of(asked, granted)])
            }
            _ => (rules::level_of(granted.state), Vec::new()),
        };
        let facts = file.facts(&known);
        let body = response::response(open.id(), CreateAction::OPENED, &facts, level, contexts);
        Ok(Reply::new(&body).with_file(open.id()))
    }
}

/// Whether two trees are of one share.
fn is_same_share(one: &Tree, other: &Tree) -> bool {
    match (&one.target, &other.target) {
        (Target::Files { share, root }, Target::Files { share: others, root: other_root }) => {
            share.name == others.name && root == other_root
        }
        _ => false,
    }
}

/// The attributes of an open file.
pub(super) async fn attributes<S: Share>(
    context: &Context<S>,
    file: &FileOpen<S>,
) -> Result<Attributes, NtStatus> {
    let known = match &file.data {
        Some(data) => data.attributes().await,
        None => file.machine.client().attributes(context.who()?, file.file).await,
    };
    known.map_err(failed)
}
