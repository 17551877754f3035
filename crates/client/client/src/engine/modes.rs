//! Open modes: what an open file is open for and denies to others, changed while it is open; and closes that wait here and
//! would be in the way. ADR 0009.

use braid_net::Driver;
use braid_types::Status;
use braid_wire::{Deny, Rights, message::mds::SetOpenModes};

use super::{Caller, OpenFile};
use crate::error::{Error, Result};

impl<D: Driver> Caller<D> {
    /// Before an open that denies something: what this client has closed, and not told yet, is not to exclude it.
    pub(super) async fn make_way(&self, deny: Deny) {
        if !deny.is_none() {
            // What fails stays in the queue: then the open fails too, or is refused.
            let _ = self.engine.flush_closes().await;
        }
    }

    /// Whether an open may have been refused for the sake of what this client has closed, which the server knows by now.
    pub(super) async fn may_be_in_its_own_way(&self, error: &Error) -> bool {
        error.status() == Status::SharingViolation
            && self.engine.handles.closes() > 0
            && self.engine.flush_closes().await.is_ok()
    }
}

impl<D: Driver> OpenFile<D> {
    /// Changes what the file is open for, and what it denies to other opens, to exactly this. Who gives up writing has what it
    /// wrote synced first: afterwards it has no right to.
    ///
    /// # Errors
    /// [`Status::SharingViolation`] when another open excludes it: then nothing has changed. When the server is not reached it
    /// is not known whether it was done; the file may be used for what both allow.
    pub async fn set_modes(&self, rights: Rights, deny: Deny) -> Result<()> {
        self.change_modes(rights, deny)
            .await
            .map_err(|error| error.during("change the modes of", self.path()))
    }

    async fn change_modes(&self, rights: Rights, deny: Deny) -> Result<()> {
        if rights == Rights(0) {
            let why = "neither reading nor writing is requested";
            return Err(Error::new(Status::Invalid, why).with_hint("File::close"));
        }
        self.allow(Rights(0))?;
        let engine = self.engine();
        let deadline = engine.deadline();
        if !rights.allow(Rights::WRITE) {
            self.flush_daemons(deadline).await?;
        }
        self.caller.make_way(deny).await;
        // A flush may have asked for a fresh capability: only now is nobody else to.
        let _one = self
            .renewing
            .acquire(engine.driver(), deadline)
            .await
            .map_err(|refused| engine.crowded(refused))?;
        let previous = self.rights();
        // From before the server counts it as less, nothing more is begun. A reclaim names what it was until it is changed.
        self.narrow(Rights(previous.0 & rights.0));
        let call = SetOpenModes { open_id: self.open_id(), file: self.file(), rights, deny };
        let changed = loop {
            let answered = engine
                .repeatable(call.clone())
                .in_session(self.handle.session)
                .identity(self.caller.identity.number())
                .until(deadline)
                .send_with_epoch()
                .await;
            match answered {
                // A server that restarted since was told the modes of before: it is asked again.
                Ok((_, run)) if !engine.handles.change(run, &self.handle, rights, deny) => {}
                answered => break answered,
            }
        };
        match changed {
            Ok((opened, _)) => {
                self.narrow(Rights::READ_WRITE);
                self.set_grant(opened).map(drop)
            }
            Err(error) => {
                if !matches!(error.status(), Status::Unreachable | Status::ConnectionLost) {
                    self.narrow(Rights::READ_WRITE);
                }
                // Why the server does not have it open is known better here.
                Err(self.handle.check().err().unwrap_or(error))
            }
        }
    }
}
