//! COMPOUND: the state that its operations share, and the loop over them. RFC 8881 16.2.
//!
//! ```text
//!   tag, minor version ─> SEQUENCE (session, slot) ─> operation ─> operation ─> … ─> reply
//!                                                       │  current and saved file handle,
//!                                                       └─ current and saved state id
//! ```
//!
//! An operation is an async function of its module in `ops`, called by `dispatch.rs`:
//!
//! ```text
//!   pub async fn lookup<S: Share>(state: &mut CompoundState<'_, S>, args: LookupArgs)
//!       -> NfsResult<()>
//! ```
//!
//! It finds in [`CompoundState`]: the server (`state.server`), the caller after the export's squash
//! ([`CompoundState::who`]), the client's session at the metadata server
//! ([`CompoundState::share_client`]) and its protocol state ([`CompoundState::client_state`]), the
//! current file handle ([`CompoundState::current`], [`CompoundState::file`],
//! [`CompoundState::writable_file`]), and state ids with the special value resolved
//! ([`CompoundState::resolve_state_id`]). It sets the file handle with
//! [`CompoundState::set_current`], which also forgets the current state id, and a state id that it
//! returns with [`CompoundState::set_state_id`]. `ops/walk.rs` finds a name of a directory, and the
//! directory above it, across exports. Callbacks go through `state.server.call_client`. An expired
//! client whose state conflicts is ended by `state.server.end_expired_client`.
//!
//! Invariants:
//! 1. The reply never exceeds the session's limits. An operation that changes something does not
//!    begin if its result might not fit.
//! 2. A compound that got a slot ends with [`SlotTable::finish`], also when its task is dropped.
//!
//! [`SlotTable::finish`]: crate::state::sessions::SlotTable::finish

mod known;
mod reply_limit;
mod run;
mod security;
mod sequence;

use std::sync::Arc;

use braid_nfs_wire::nfs4::callback::ReferringCall;
use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber, SequenceId, SlotId, StateId};
use braid_share::{Attributes, FileIndex, Identity, Share, ShareClient};

use known::KnownAttributes;
pub use reply_limit::ReplyMemory;
pub(crate) use run::refuse;
pub use run::{BadArguments, Request, Results, run};
pub use sequence::SlotGuard;

use crate::connection::Connection;
use crate::export::{Export, ExportedFile, Node};
use crate::ops::delegated_attributes;
use crate::rpc::Caller;
use crate::server::{Client, NfsServer};
use crate::state::client_state::ClientState;
use crate::state::opens::GrantingCall;
use crate::status::nfs_status;

/// What the operations of a compound share.
#[derive(Debug)]
pub struct CompoundState<'a, S: Share> {
    /// The server.
    pub server: &'a Arc<NfsServer<S>>,
    /// The connection that the request came from.
    pub connection: &'a Arc<Connection>,
    /// The caller as it authenticated, before squash.
    pub caller: &'a Caller,
    /// Minor version of the compound, 1 or 2.
    pub minor_version: u32,
    /// The session and slot; `None` in a compound without SEQUENCE.
    pub slot: Option<SlotGuard<S>>,
    /// Number of the operation that runs, from 0.
    pub op_index: u32,
    /// Number of operations in the compound.
    pub op_count: u32,
    /// The operation after the one that runs, if the compound has one that is known.
    pub next_op: Option<OpNumber>,
    /// Bytes that the result of the operation may have, its number and status included.
    pub reply_space: usize,
    /// The status of an operation whose result needs more.
    pub too_big: NfsStatus,
    current: Option<Node>,
    saved: Option<Node>,
    state_id: Option<StateId>,
    saved_state_id: Option<StateId>,
    /// The caller's identity in the export of the current file, if squash changes it.
    squashed: Option<Identity>,
    known: KnownAttributes,
}

impl<'a, S: Share> CompoundState<'a, S> {
    fn new(
        server: &'a Arc<NfsServer<S>>,
        connection: &'a Arc<Connection>,
        caller: &'a Caller,
        minor_version: u32,
        op_count: u32,
    ) -> Self {
        Self {
            server,
            connection,
            caller,
            minor_version,
            slot: None,
            op_index: 0,
            op_count,
            next_op: None,
            reply_space: 0,
            too_big: NfsStatus::RepTooBig,
            current: None,
            saved: None,
            state_id: None,
            saved_state_id: None,
            squashed: None,
            known: KnownAttributes::default(),
        }
    }

    /// Whether the operation that runs is the last one.
    pub fn is_last_op(&self) -> bool {
        self.op_index + 1 == self.op_count
    }

    /// The client of the session.
    ///
    /// # Errors
    /// `OP_NOT_IN_SESSION` without SEQUENCE.
    pub fn client(&self) -> NfsResult<&Arc<Client<S>>> {
        let slot = self.slot.as_ref().ok_or(NfsStatus::OpNotInSession)?;
        Ok(slot.session().client())
    }

    /// The session, slot and number of the request.
    pub fn granting_call(&self) -> Option<GrantingCall> {
        let slot = self.slot.as_ref()?;
        let number = slot.session().with_slots(|slots| slots.newest(slot.slot()))?;
        let call = ReferringCall { sequence_id: SequenceId(number), slot_id: SlotId(slot.slot()) };
        Some(GrantingCall { session_id: slot.session().id(), call })
    }

    /// The protocol state of the client.
    ///
    /// # Errors
    /// As [`CompoundState::client`].
    pub fn client_state(&self) -> NfsResult<&ClientState<S>> {
        // A session is made after its client is confirmed.
        self.client()?.data().ok_or(NfsStatus::ServerFault)
    }

    /// Checks whether the client may obtain opens and locks.
    ///
    /// # Errors
    /// `GRACE` before the client has sent RECLAIM_COMPLETE.
    pub fn check_reclaimed(&self) -> NfsResult<()> {
        // RFC 8881 18.51.3.
        if self.client()?.has_reclaimed() { Ok(()) } else { Err(NfsStatus::Grace) }
    }

    /// The client's session at the metadata server, for a call. Cheap to clone.
    ///
    /// # Errors
    /// As [`CompoundState::client`].
    pub fn share_client(&self) -> NfsResult<S::Client> {
        Ok(self.client_state()?.share.clone())
    }

    /// The identity that calls act for, after the squash of the current file's export.
    pub fn who(&self) -> &Identity {
        self.squashed.as_ref().unwrap_or(&self.caller.identity)
    }

    /// Attributes that the operation has received of a file in their state after it, for the
    /// operations that follow it in the compound.
    pub fn note_attributes(&self, attributes: Attributes) {
        self.known.set(attributes);
    }

    /// The attributes of a file: those that an earlier operation of the compound has received, or
    /// else by a call, or by the holder of its write delegation.
    ///
    /// # Errors
    /// Those of the share, and of [`CompoundState::client`].
    pub async fn attributes_of(&self, file: FileIndex) -> NfsResult<Attributes> {
        if let Some(known) = self.known.of(file) {
            return Ok(known);
        }
        let found = match self.attributes_by_holder(file).await {
            Some(found) => found,
            None => {
                let found = self.share_client()?.attributes(self.who(), file).await;
                found.map_err(|error| nfs_status(error.status()))?
            }
        };
        self.note_attributes(found.clone());
        Ok(found)
    }

    async fn attributes_by_holder(&self, file: FileIndex) -> Option<Attributes> {
        if self.server.write_delegations().is_empty() {
            return None;
        }
        // Boxed: it is rare, and the futures of most operations would contain it.
        Box::pin(delegated_attributes::of_holder(self, file)).await
    }

    /// Whether the caller gets layouts of files of an export.
    pub fn gives_layouts(&self, export: &Export) -> bool {
        export.gives_layouts(self.caller.security, self.connection.transport())
    }

    /// What the current file handle names.
    ///
    /// # Errors
    /// `NOFILEHANDLE`.
    pub fn current(&self) -> NfsResult<&Node> {
        self.current.as_ref().ok_or(NfsStatus::NoFileHandle)
    }

    /// What the saved file handle names.
    ///
    /// # Errors
    /// `NOFILEHANDLE`; RESTOREFH has a status of its own.
    pub fn saved(&self) -> NfsResult<&Node> {
        self.saved.as_ref().ok_or(NfsStatus::NoFileHandle)
    }

    /// The file of the current file handle. `pseudo` is the status for a directory of the pseudo
    /// file system, for example `ISDIR` for READ.
    ///
    /// # Errors
    /// `NOFILEHANDLE`, or `pseudo`.
    pub fn file(&self, pseudo: NfsStatus) -> NfsResult<&ExportedFile> {
        match self.current()? {
            Node::File(file) => Ok(file),
            Node::Pseudo(_) => Err(pseudo),
        }
    }

    /// The file of the saved file handle. `pseudo` is the status for a directory of the pseudo file
    /// system.
    ///
    /// # Errors
    /// `NOFILEHANDLE`, or `pseudo`.
    pub fn saved_file(&self, pseudo: NfsStatus) -> NfsResult<&ExportedFile> {
        match self.saved()? {
            Node::File(file) => Ok(file),
            Node::Pseudo(_) => Err(pseudo),
        }
    }

    /// The file of the current file handle, if the export may be changed.
    ///
    /// # Errors
    /// `NOFILEHANDLE`; `ROFS` for a read-only export and the pseudo file system.
    pub fn writable_file(&self) -> NfsResult<&ExportedFile> {
        let file = self.file(NfsStatus::RoFs)?;
        if file.export.config().read_only { Err(NfsStatus::RoFs) } else { Ok(file) }
    }

    /// Replaces the current file handle. The current state id is then none.
    pub fn set_current(&mut self, node: Node) {
        // RFC 8881 16.2.3.1.2: an operation that sets the file handle and returns no state id sets
        // the current state id to the anonymous one.
        self.state_id = None;
        self.squashed = match &node {
            Node::File(file) => file.export.squash(&self.caller.identity),
            Node::Pseudo(_) => None,
        };
        self.current = Some(node);
    }

    /// Leaves no current file handle: SECINFO consumes it.
    pub fn clear_current(&mut self) {
        self.current = None;
        self.state_id = None;
        self.squashed = None;
    }

    /// Replaces the current state id, by an operation that returns one.
    pub fn set_state_id(&mut self, state_id: StateId) {
        self.state_id = Some(state_id);
    }

    /// SAVEFH: the file handle and the state id.
    pub(crate) fn save(&mut self) -> NfsResult<()> {
        self.saved = Some(self.current()?.clone());
        self.saved_state_id = self.state_id;
        Ok(())
    }

    /// RESTOREFH: the file handle and the state id.
    pub(crate) fn restore(&mut self) -> NfsResult<()> {
        let saved = self.saved.clone().ok_or(NfsStatus::RestoreFh)?;
        self.set_current(saved);
        self.state_id = self.saved_state_id;
        Ok(())
    }

    /// A state id of an argument, with the special one for the current state id replaced. The
    /// anonymous and the read-bypass state id are returned as they are.
    ///
    /// # Errors
    /// `BAD_STATEID` for the invalid one, for other undefined special ones, and if there is no
    /// current state id.
    pub fn resolve_state_id(&self, state_id: StateId) -> NfsResult<StateId> {
        // RFC 8881 8.2.3.
        match state_id {
            StateId::CURRENT => self.state_id.ok_or(NfsStatus::BadStateId),
            StateId::ANONYMOUS | StateId::READ_BYPASS => Ok(state_id),
            other if other.is_special() => Err(NfsStatus::BadStateId),
            other => Ok(other),
        }
    }

    /// As [`CompoundState::resolve_state_id`], with the state id that SAVEFH saved: the source of
    /// COPY and CLONE.
    ///
    /// # Errors
    /// As [`CompoundState::resolve_state_id`].
    pub fn resolve_saved_state_id(&self, state_id: StateId) -> NfsResult<StateId> {
        match state_id {
            StateId::CURRENT => self.saved_state_id.ok_or(NfsStatus::BadStateId),
            other => self.resolve_state_id(other),
        }
    }
}
