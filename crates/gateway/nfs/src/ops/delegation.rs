//! Delegations: grants with OPEN, recalls, DELEGRETURN and revocation. RFC 8881 10.4, 18.6, 20.2.
//!
//! ```text
//!   OPEN ─> back channel up? lease of the client's session at the metadata server ─> state id
//!   metadata server recalls ─> CB_RECALL ─> DELEGRETURN ─> lease returned
//!                                └─ not returned in `recall_limit` ─> revoked, lease returned
//! ```
//!
//! Invariants:
//! 1. The lease at the metadata server is held from before a delegation is given to the client
//!    until after it is returned or revoked.
//! 2. A recall ends within `RECALL_MAX`, whatever the client does (I8).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use braid_nfs_wire::nfs4::args::DelegReturnArgs;
use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackResOp, RecallAnyArgs, RecallArgs, recallable,
};
use braid_nfs_wire::nfs4::results::{
    OpenDelegation, ReadDelegation, SpaceLimit, WhyNoDelegation, WriteDelegation,
};
use braid_nfs_wire::nfs4::{
    Ace, AceFlags, AceMask, AceType, Bitmap, NfsResult, NfsStatus, ShareAccess, StateId,
    WantedDelegation,
};
use braid_share::{
    DelegationRecall, Deny, FILE_BYTES_MAX, OpenMode, OpenTarget, Rights, Share, ShareClient,
    ShareFile,
};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node};
use crate::ops::courtesy;
use crate::ops::filehandle::handle_of;
use crate::ops::stateid::{FileAccess, FileOf};
use crate::server::{Client, NfsServer};
use crate::state::client_state::ClientState;
use crate::state::opens::{DELEGATIONS_MAX, DelegationState, Known};
use crate::status::nfs_status;

/// Longest time that a client has to return a recalled delegation. Others wait for it, for 30 s at
/// most (I8), and the metadata server ends the session of a client after 40 s.
const RECALL_MAX: Duration = Duration::from_secs(20);
/// Pause before a recall is repeated that the client could not carry out. The client may not know
/// the state id yet, since the reply of its OPEN is in flight (RFC 8881 20.2.4).
const REPEAT_PAUSE: Duration = Duration::from_millis(200);

/// What an OPEN says about the delegation that its client wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// `OPEN4_SHARE_ACCESS_WANT_*`.
    pub access: ShareAccess,
    /// Access and denial of the open.
    pub mode: OpenMode,
    /// Whether the open created the file.
    pub created: bool,
}

/// How long a client may take to return a delegation: less than its lease, so that a client that
/// waits for it keeps its own.
fn recall_limit(lease: Duration) -> Duration {
    RECALL_MAX.min(lease * 2 / 3)
}

/// The delegation of a file that was just opened, if the client gets one.
///
/// # Errors
/// Those of [`CompoundState::client_state`].
pub async fn grant<S: Share>(
    state: &CompoundState<'_, S>,
    file: &ExportedFile,
    wish: Wish,
) -> NfsResult<OpenDelegation> {
    let wanted = wish.access.wanted_delegation().unwrap_or(WantedDelegation::None);
    let refused = |why| match wanted {
        // RFC 8881 18.16.3: only a client that expresses a wish gets the reason.
        WantedDelegation::NoPreference => OpenDelegation::None,
        _ => OpenDelegation::NoneExt(why),
    };
    let writes = wish.mode.rights.allow(Rights::WRITE);
    let write = match wanted {
        WantedDelegation::None => return Ok(refused(WhyNoDelegation::NotWanted)),
        WantedDelegation::Cancel => return Ok(refused(WhyNoDelegation::Cancelled)),
        // A file that is created is mostly written once: its delegation would only cost calls.
        WantedDelegation::NoPreference if writes && wish.created => {
            return Ok(OpenDelegation::None);
        }
        WantedDelegation::NoPreference | WantedDelegation::Any => writes,
        WantedDelegation::Read => false,
        WantedDelegation::Write => true,
        _ => return Ok(refused(WhyNoDelegation::Resource(false))),
    };
    let (server, client) = (state.server, state.client()?);
    let client_state = state.client_state()?;
    let states = &client_state.states;
    if let Some(known) = states.delegation_of(file.file) {
        // RFC 8881 9.1.2 and 18.16.3: a client has one delegation of a file, of one kind.
        return Ok(refused(match (known.write, write) {
            (false, true) => WhyNoDelegation::NotSuppUpgrade,
            (true, false) => WhyNoDelegation::NotSuppDowngrade,
            _ => WhyNoDelegation::Resource(false),
        }));
    }
    // The client opens the file locally, and would ignore what its other opens deny. The metadata
    // server looks at those of other sessions only.
    let denies = |mode: OpenMode| mode.deny != Deny::NONE;
    if denies(wish.mode) || states.opens_of_file(file.file).iter().any(|open| denies(open.mode())) {
        return Ok(refused(WhyNoDelegation::Resource(false)));
    }
    if !server.config.delegations || writes != write || !server.can_call_client(client.id()) {
        return Ok(refused(WhyNoDelegation::Resource(false)));
    }
    if states.delegation_count() >= DELEGATIONS_MAX {
        recall_some(server, client);
        return Ok(refused(WhyNoDelegation::Resource(false)));
    }
    receive_recalls(server, client);
    let share_file = if write { open_to_write(state, file).await } else { None };
    if write && share_file.is_none() {
        return Ok(refused(WhyNoDelegation::Resource(false)));
    }
    // Before the lease, so that a recall that overtakes the reply finds the delegation.
    let delegation = match states.insert_delegation(file.clone(), share_file, state.granting_call())
    {
        Ok(delegation) => delegation,
        Err(share_file) => {
            // Another OPEN of this client was first.
            close(share_file).await;
            return Ok(refused(WhyNoDelegation::Resource(false)));
        }
    };
    // Invariant 1. The client's own open of the file exists until the grant.
    let granted = client_state.share.delegate(file.file, write).await;
    if !matches!(granted, Ok(true)) {
        if let Ok(share_file) = states.return_delegation(&delegation) {
            close(share_file).await;
            states.forget_delegation(&delegation);
        }
        return Ok(refused(match granted {
            Ok(_) => WhyNoDelegation::Contention(false),
            Err(_) => WhyNoDelegation::Resource(false),
        }));
    }
    if write {
        answer_for_others(state, &delegation).await;
    }
    let (state_id, recall) = (delegation.state_id(), delegation.is_recalled());
    Ok(if write {
        OpenDelegation::Write(WriteDelegation {
            state_id,
            recall,
            // What is buffered is limited by the file system, as without a delegation.
            space_limit: SpaceLimit::FileSize(FILE_BYTES_MAX),
            permissions: no_permissions(),
        })
    } else {
        OpenDelegation::Read(ReadDelegation { state_id, recall, permissions: no_permissions() })
    })
}

/// Lets others ask the client for attributes. Those that it gets in the same compound are the ones
/// that the server compares its answers with (RFC 8881 10.4.3).
async fn answer_for_others<S: Share>(
    state: &CompoundState<'_, S>,
    delegation: &Arc<DelegationState<FileOf<S>>>,
) {
    let (Ok(client), Ok(share)) = (state.client(), state.share_client()) else { return };
    // Without them, others recall the delegation.
    let Ok(known) = share.attributes(state.who(), delegation.file.file).await else { return };
    delegation.answer_for(client.id(), state.server.write_delegations(), known.change);
    state.note_attributes(known);
}

/// The open by which a client with a delegation to write reads and writes after its own CLOSE.
async fn open_to_write<S: Share>(
    state: &CompoundState<'_, S>,
    file: &ExportedFile,
) -> Option<FileOf<S>> {
    let client = state.share_client().ok()?;
    let mode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };
    let opened = client.open(state.who(), OpenTarget::File(file.file), mode).await;
    opened.ok().map(|opened| opened.file)
}

async fn close<F: ShareFile>(share_file: Option<F>) {
    if let Some(share_file) = share_file
        && let Err(error) = share_file.close().await
    {
        tracing::debug!(%error, "the open of a delegation was closed with an error");
    }
}

/// RFC 8881 10.4.1: the client asks with ACCESS whether a user may open the file.
fn no_permissions() -> Ace {
    Ace {
        ace_type: AceType::ALLOW,
        flags: AceFlags::empty(),
        mask: AceMask::empty(),
        who: Bytes::new(),
    }
}

/// The delegation of a state id, for CLAIM_DELEGATE_CUR.
///
/// # Errors
/// `BAD_STATEID`, `DELEG_REVOKED`.
pub fn of_state_id<S: Share>(
    state: &CompoundState<'_, S>,
    id: StateId,
) -> NfsResult<Arc<DelegationState<FileOf<S>>>> {
    match state.client_state()?.states.find(&state.resolve_state_id(id)?)? {
        Known::Delegation(delegation) => Ok(delegation),
        _ => Err(NfsStatus::BadStateId),
    }
}

/// The open file for a READ or WRITE that names a delegation. RFC 8881 9.1.2.
///
/// # Errors
/// `BAD_STATEID` for another file's delegation; `OPENMODE` for a WRITE with one to read.
pub async fn access<S: Share>(
    state: &CompoundState<'_, S>,
    delegation: &DelegationState<FileOf<S>>,
    file: &ExportedFile,
    wanted: Rights,
) -> NfsResult<FileAccess<FileOf<S>>> {
    if delegation.file.file != file.file {
        return Err(NfsStatus::BadStateId);
    }
    if delegation.write {
        return delegation.share_file().map(FileAccess::Open).ok_or(NfsStatus::BadStateId);
    }
    if wanted.allow(Rights::WRITE) {
        return Err(NfsStatus::OpenMode);
    }
    let opens = state.client_state()?.states.opens_of_file(file.file);
    if let Some(open) = opens.iter().find(|open| open.mode().rights.allow(wanted)) {
        return Ok(FileAccess::Open(open.share_file.clone()));
    }
    let mode = OpenMode { rights: wanted, deny: Deny::NONE };
    let opened = courtesy::open(state, OpenTarget::File(file.file), mode).await?;
    let opened = opened.map_err(|error| nfs_status(error.status()))?;
    Ok(FileAccess::ForThisCall(opened.file))
}

/// DELEGRETURN. RFC 8881 18.6.
pub async fn deleg_return<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: DelegReturnArgs,
) -> NfsResult<()> {
    let file = state.file(NfsStatus::IsDir)?.file;
    let delegation = of_state_id(state, args.state_id)?;
    if delegation.file.file != file {
        return Err(NfsStatus::BadStateId);
    }
    let client = state.client_state()?;
    let share_file = client.states.return_delegation(&delegation)?;
    close(share_file).await;
    give_back(client, &delegation).await;
    Ok(())
}

/// Returns the lease of a delegation that nobody uses any more. Only then can the file be delegated
/// again: otherwise the lease of the new delegation would be returned.
async fn give_back<S: Share>(
    client: &ClientState<S>,
    delegation: &Arc<DelegationState<FileOf<S>>>,
) {
    if let Err(error) = client.share.return_delegation(delegation.file.file).await {
        // The metadata server repeats the recall, or has ended the session.
        tracing::debug!(%error, "a delegation could not be returned");
    }
    client.states.forget_delegation(delegation);
}

/// Receives the recalls of a client's delegations, in one task for each client.
pub fn receive_recalls<S: Share>(server: &Arc<NfsServer<S>>, client: &Arc<Client<S>>) {
    let Some(data) = client.data() else { return };
    if data.receives_recalls.swap(true, Ordering::AcqRel) {
        return;
    }
    let (server, client) = (Arc::downgrade(server), Arc::clone(client));
    drop(tokio::spawn(async move {
        let Some(data) = client.data() else { return };
        while let Some(recall) = data.share.next_recall().await {
            match recall {
                // RFC 8881 10.4: a delegation is returned as a whole.
                DelegationRecall::File(file) | DelegationRecall::Reduce(file) => {
                    match data.states.delegation_of(file) {
                        Some(delegation) if !delegation.has_ended() => {
                            // A recall that the metadata server repeats is being carried out.
                            if delegation.set_recalled() {
                                drop(tokio::spawn(carry_out(
                                    Weak::clone(&server),
                                    Arc::clone(&client),
                                    delegation,
                                )));
                            }
                        }
                        _ => drop(tokio::spawn(answer_unknown(Arc::clone(&client), file))),
                    }
                }
                DelegationRecall::All => {
                    for delegation in data.states.delegations() {
                        revoke(&client, &delegation).await;
                    }
                    data.share.drop_delegations().await;
                }
            }
        }
    }));
}

/// Recalls a delegation from the client, and revokes it if the client does not return it in time.
async fn carry_out<S: Share>(
    server: Weak<NfsServer<S>>,
    client: Arc<Client<S>>,
    delegation: Arc<DelegationState<FileOf<S>>>,
) {
    let Some(lease) = server.upgrade().map(|server| server.config.lease) else { return };
    let until = Instant::now() + recall_limit(lease);
    // RFC 8881 8.4.2.4: the state of a client whose lease has passed gives way immediately.
    let has_expired = |server: &NfsServer<S>| client.is_expired(server.now(), lease);
    while let Some(server) = server.upgrade() {
        if has_expired(&server) {
            break;
        }
        let args = RecallArgs {
            state_id: delegation.state_id(),
            truncate: false,
            handle: handle_of(&server, &Node::File(delegation.file.clone())),
        };
        let op = CallbackArgOp::Recall(args);
        // RFC 8881 20.2.4: the client waits for the reply to its OPEN, if that is in flight.
        let call = server.call_client_after(client.id(), delegation.granted_by.as_ref(), &op);
        let answer = tokio::select! {
            biased;
            () = delegation.ended() => return,
            answer = timeout_at(until, call) => answer,
        };
        drop(server);
        let repeat_at = match answer {
            Err(_) => break,
            // It returns the delegation as soon as it can.
            Ok(Ok(CallbackResOp::Recall(Ok(())))) => until,
            Ok(refused) => {
                tracing::debug!(client = client.id().0, ?refused, "a recall is repeated");
                until.min(Instant::now() + REPEAT_PAUSE)
            }
        };
        if timeout_at(repeat_at, delegation.ended()).await.is_ok() {
            return;
        }
        if repeat_at == until {
            break;
        }
    }
    tracing::warn!(
        client = client.id().0,
        "a client does not return a delegation in time: it is revoked"
    );
    revoke(&client, &delegation).await;
}

/// Revokes a delegation: the client notices it with its next SEQUENCE. RFC 8881 10.2.1.
async fn revoke<S: Share>(client: &Client<S>, delegation: &Arc<DelegationState<FileOf<S>>>) {
    let Some(data) = client.data() else { return };
    let Some(share_file) = data.states.revoke_delegation(delegation) else { return };
    close(share_file).await;
    give_back(data, delegation).await;
}

/// Answers the recall of a delegation that the client has returned meanwhile.
async fn answer_unknown<S: Share>(client: Arc<Client<S>>, file: braid_share::FileIndex) {
    let Some(data) = client.data() else { return };
    if let Err(error) = data.share.return_delegation(file).await {
        tracing::debug!(%error, "a recall could not be answered");
    }
}

/// Asks a client with too many delegations to return some. RFC 8881 20.6.
fn recall_some<S: Share>(server: &Arc<NfsServer<S>>, client: &Arc<Client<S>>) {
    let Some(data) = client.data() else { return };
    if data.recalls_any.swap(true, Ordering::AcqRel) {
        return;
    }
    let (server, client) = (Arc::clone(server), Arc::clone(client));
    drop(tokio::spawn(async move {
        let kinds = [recallable::READ_DELEGATION, recallable::WRITE_DELEGATION];
        let args = RecallAnyArgs {
            objects_to_keep: (DELEGATIONS_MAX - DELEGATIONS_MAX / 4) as u32,
            type_mask: Bitmap::of(&kinds),
        };
        // What the client does with it is its own matter: it gets no more delegations before.
        let asked = server.call_client(client.id(), &CallbackArgOp::RecallAny(args)).await;
        tracing::debug!(client = client.id().0, ?asked, "a client has too many delegations");
        sleep(RECALL_MAX).await;
        if let Some(data) = client.data() {
            data.recalls_any.store(false, Ordering::Release);
        }
    }));
}
