//! Delegations of one client. RFC 8881 10.4.
//!
//! ```text
//!   granted ──recall──> recalled ──DELEGRETURN──> (gone)
//!      └────────────────────┴──not returned in time, lost──> revoked ──FREE_STATEID──> (gone)
//! ```

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use braid_nfs_wire::nfs4::callback::ReferringCall;
use braid_nfs_wire::nfs4::{ClientId, NfsResult, NfsStatus, SessionId, StateId};
use braid_share::FileIndex;
use tokio::sync::Notify;

use super::write_delegations::{HolderAnswers, WriteDelegationEntry, WriteDelegations};
use super::{DELEGATION_SEQUENCE, KIND_DELEGATION, Known, States};
use crate::export::ExportedFile;

/// Delegations of one client (I9). A client with as many is asked to return some.
pub const DELEGATIONS_MAX: usize = 16_384;

/// The request that granted a delegation. RFC 8881 2.10.6.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantingCall {
    /// Its session.
    pub session_id: SessionId,
    /// Its slot and number.
    pub call: ReferringCall,
}

/// A delegation.
#[derive(Debug)]
pub struct DelegationState<F> {
    pub(super) other: [u8; 12],
    /// The file.
    pub file: ExportedFile,
    /// Whether it is to write.
    pub write: bool,
    /// The OPEN that granted it.
    pub granted_by: Option<GrantingCall>,
    /// What the holder answers to CB_GETATTR.
    pub answers: HolderAnswers,
    /// The change number at the grant: `sc` of RFC 8881 10.4.3.
    granted_change: OnceLock<u64>,
    inner: Mutex<DelegationInner<F>>,
    /// Notified when it is returned or revoked.
    ended: Notify,
}

#[derive(Debug)]
struct DelegationInner<F> {
    /// The open of a delegation to write, by which the client writes after it has closed its own.
    share_file: Option<F>,
    /// That of a delegation to write whose holder is asked for attributes.
    entry: Option<WriteDelegationEntry<F>>,
    recalled: bool,
    end: Option<End>,
}

/// How a delegation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Returned,
    Revoked,
}

impl<F> DelegationState<F> {
    fn inner(&self) -> MutexGuard<'_, DelegationInner<F>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its state id.
    pub fn state_id(&self) -> StateId {
        StateId { seqid: DELEGATION_SEQUENCE, other: self.other }
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.inner().end == Some(End::Revoked)
    }

    /// Whether it was returned or revoked.
    pub fn has_ended(&self) -> bool {
        self.inner().end.is_some()
    }

    /// Whether it is being recalled.
    pub fn is_recalled(&self) -> bool {
        self.inner().recalled
    }

    /// Notes that it is being recalled. Whether it was not before.
    pub fn set_recalled(&self) -> bool {
        !std::mem::replace(&mut self.inner().recalled, true)
    }

    /// The change number at the grant, for one whose holder is asked for attributes.
    pub fn granted_change(&self) -> Option<u64> {
        self.granted_change.get().copied()
    }

    /// Lets others ask the holder for the attributes of the file, instead of a recall, until the
    /// delegation ends. `change` is the change number that the holder gets with the grant.
    pub fn answer_for(
        self: &Arc<Self>,
        client: ClientId,
        all: &Arc<WriteDelegations<F>>,
        change: u64,
    ) {
        let mut inner = self.inner();
        if inner.end.is_none() && self.granted_change.set(change).is_ok() {
            inner.entry = Some(all.add(client, self));
        }
    }

    /// Waits until it is returned or revoked.
    pub async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            // Before the check, so that no notification is missed.
            ended.as_mut().enable();
            if self.has_ended() {
                return;
            }
            ended.await;
        }
    }
}

impl<F: Clone> DelegationState<F> {
    /// The open of a delegation to write.
    pub fn share_file(&self) -> Option<F> {
        self.inner().share_file.clone()
    }
}

impl<F> States<F> {
    /// The client's delegation of a file.
    pub fn delegation_of(&self, file: FileIndex) -> Option<Arc<DelegationState<F>>> {
        self.lock().delegations.get(&file).cloned()
    }

    /// How many delegations the client has.
    pub fn delegation_count(&self) -> usize {
        self.lock().delegations.len()
    }

    /// Adds a delegation; the open of one to write. `None`, with the open, if the client has one of
    /// the file.
    pub fn insert_delegation(
        &self,
        file: ExportedFile,
        share_file: Option<F>,
        granted_by: Option<GrantingCall>,
    ) -> Result<Arc<DelegationState<F>>, Option<F>> {
        let mut inner = self.lock();
        if inner.delegations.contains_key(&file.file) {
            return Err(share_file);
        }
        let other = inner.other(self.epoch, KIND_DELEGATION);
        let delegation = Arc::new(DelegationState {
            other,
            write: share_file.is_some(),
            granted_by,
            answers: HolderAnswers::default(),
            granted_change: OnceLock::new(),
            inner: Mutex::new(DelegationInner {
                share_file,
                entry: None,
                recalled: false,
                end: None,
            }),
            file,
            ended: Notify::new(),
        });
        inner.by_other.insert(other, Known::Delegation(Arc::clone(&delegation)));
        inner.delegations.insert(delegation.file.file, Arc::clone(&delegation));
        Ok(delegation)
    }

    /// The client returns a delegation. Returns its open, to be closed. The file gets no other
    /// delegation before [`States::forget_delegation`].
    ///
    /// # Errors
    /// `BAD_STATEID` if it was returned before, `DELEG_REVOKED` if it was revoked.
    pub fn return_delegation(&self, delegation: &Arc<DelegationState<F>>) -> NfsResult<Option<F>> {
        let mut inner = self.lock();
        let share_file = {
            let mut state = delegation.inner();
            match state.end {
                Some(End::Revoked) => return Err(NfsStatus::DelegRevoked),
                Some(End::Returned) => return Err(NfsStatus::BadStateId),
                None => state.end = Some(End::Returned),
            }
            state.entry = None;
            state.share_file.take()
        };
        inner.by_other.remove(&delegation.other);
        drop(inner);
        delegation.ended.notify_waiters();
        Ok(share_file)
    }

    /// The lease of a delegation that ended was returned: the file can be delegated again.
    pub fn forget_delegation(&self, delegation: &Arc<DelegationState<F>>) {
        let mut inner = self.lock();
        let file = delegation.file.file;
        if inner.delegations.get(&file).is_some_and(|known| Arc::ptr_eq(known, delegation)) {
            inner.delegations.remove(&file);
        }
    }

    /// Revokes a delegation. Returns its open, to be closed; `None` if it was returned or revoked
    /// before. The file gets no other delegation before [`States::forget_delegation`].
    pub fn revoke_delegation(&self, delegation: &Arc<DelegationState<F>>) -> Option<Option<F>> {
        let mut inner = self.lock();
        let share_file = {
            let mut state = delegation.inner();
            if state.end.is_some() {
                return None;
            }
            state.end = Some(End::Revoked);
            state.entry = None;
            state.share_file.take()
        };
        inner.revoked += 1;
        drop(inner);
        delegation.ended.notify_waiters();
        Some(share_file)
    }

    /// All delegations of the client.
    pub fn delegations(&self) -> Vec<Arc<DelegationState<F>>> {
        self.lock().delegations.values().cloned().collect()
    }

    /// Whether the client has not freed some revoked delegations. RFC 8881 18.46.3.
    pub fn has_revoked(&self) -> bool {
        self.lock().revoked > 0
    }

    /// FREE_STATEID of a revoked delegation: whether the state id is one. RFC 8881 18.38.3.
    pub fn free_revoked(&self, id: &StateId) -> bool {
        let mut inner = self.lock();
        match inner.by_other.get(&id.other) {
            Some(Known::Delegation(delegation)) if delegation.is_revoked() => {}
            _ => return false,
        }
        inner.by_other.remove(&id.other);
        inner.revoked -= 1;
        true
    }
}
