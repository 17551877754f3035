//! Delegations: leases that a gateway holds for a client of another protocol (ADR 0038). The
//! protocol's client returns them when it is asked, which may take long: nothing waits here for it.

use braid_net::Driver;
use braid_types::{FileIndex, Status};

use super::Client;
use crate::{
    engine::RecallNotice,
    error::{Error, Result},
    lease::{LeaseMode, LeaseOf, Recalled},
};

/// What a holder of delegations must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegationNotice {
    /// A delegation is recalled. When it is returned, call [`Client::delegation_returned`].
    Recalled(Recalled),
    /// All delegations are lost. When none is used any more, call
    /// [`Client::delegations_dropped`] with this number, then ask for the next notice.
    AllLost(u64),
}

impl<D: Driver> Client<D> {
    /// Allows requests for delegations. The caller then asks for the notices, in one task. For a
    /// client that uses no other leases.
    ///
    /// # Errors
    /// [`Status::Exists`] if the recalls of this client are served already.
    pub fn begin_delegations(&self) -> Result<()> {
        if self.caller().engine().serve_recalls(false) {
            return Ok(());
        }
        Err(Error::new(Status::Exists, "this client serves its recalls already"))
    }

    /// Waits for something that a holder of delegations must do. `None`: the client is closed.
    pub async fn next_delegation_notices(&self) -> Option<Vec<DelegationNotice>> {
        let engine = self.caller().engine();
        loop {
            match engine.next_notice().await {
                RecallNotice::AllLost(lost) => return Some(vec![DelegationNotice::AllLost(lost)]),
                RecallNotice::Recalled(recalled) => {
                    let mut notices = Vec::with_capacity(recalled.len());
                    for one in recalled {
                        if one.held && matches!(one.of, LeaseOf::Delegation(_)) {
                            notices.push(DelegationNotice::Recalled(one));
                        } else {
                            // If the server does not receive this, it repeats the recall.
                            let _ = engine.carried_out(&one, LeaseMode::None).await;
                        }
                    }
                    return Some(notices);
                }
                RecallNotice::Quiet => {}
                RecallNotice::Ended => return None,
            }
        }
    }

    /// Requests the delegation of a file that this client has open: to read, or to write. Returns
    /// whether it is granted; the call does not wait.
    ///
    /// # Errors
    /// As any call.
    pub async fn ask_delegation(&self, file: FileIndex, write: bool) -> Result<bool> {
        let mode = if write { LeaseMode::Write } else { LeaseMode::Read };
        Ok(self.caller().ask_delegation(file, mode).await?.is_some())
    }

    /// A recalled delegation was returned, or is not used any more.
    ///
    /// # Errors
    /// The server is not reached: it repeats the recall, or ends the session.
    pub async fn delegation_returned(&self, recalled: &Recalled) -> Result<()> {
        self.caller().engine().carried_out(recalled, LeaseMode::None).await
    }

    /// A recalled delegation to write is used to read only, which the recall allows
    /// ([`Recalled::keep`]).
    ///
    /// # Errors
    /// As [`Client::delegation_returned`].
    pub async fn delegation_reduced(&self, recalled: &Recalled) -> Result<()> {
        self.caller().engine().carried_out(recalled, LeaseMode::Read).await
    }

    /// After a loss of all delegations none is used any more.
    pub fn delegations_dropped(&self, lost: u64) {
        self.caller().engine().all_invalidated(lost);
    }
}
