//! Open modes: changes the rights and denials of an open file, and sends pending closes that would
//! conflict with an open. ADR 0009.

use braid_net::Driver;
use braid_types::Status;
use braid_wire::{Deny, Rights, message::mds::SetOpenModes};

use super::{Caller, OpenFile};
use crate::error::{Error, Result};

impl<D: Driver> Caller<D> {
    /// Called before an open that denies something: sends pending closes, which would conflict with
    /// it.
    pub(super) async fn flush_pending_closes(&self, deny: Deny) {
        if !deny.is_none() {
            // On failure they stay in the queue. Then the open fails, too, or is refused.
            let _ = self.engine.flush_closes().await;
        }
    }

    /// Whether the open may have been refused because of pending closes, which have been sent now.
    pub(super) async fn had_pending_closes(&self, error: &Error) -> bool {
        error.status() == Status::SharingViolation
            && self.engine.open_table.pending_closes() > 0
            && self.engine.flush_closes().await.is_ok()
    }
}

impl<D: Driver> OpenFile<D> {
    /// Changes the rights of the open file, and what it denies to other opens, to exactly these. If
    /// it loses the right to write, its writes are synced first, since it may not do so afterwards.
    ///
    /// # Errors
    /// [`Status::SharingViolation`] if another open conflicts; then nothing has changed. If the
    /// server is not reached, the outcome is unknown, and the file may be used for what both modes
    /// allow.
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
        self.check_rights(Rights(0))?;
        let engine = self.engine();
        let deadline = engine.deadline();
        if !rights.allow(Rights::WRITE) {
            self.flush_daemons(deadline).await?;
        }
        self.caller.flush_pending_closes(deny).await;
        // The flush may have renewed the capability. From here on nothing else may.
        let _one = self
            .renewing
            .acquire(engine.driver(), deadline)
            .await
            .map_err(|refused| engine.queue_error(refused))?;
        let previous = self.rights();
        if rights.allow(Rights::WRITE) {
            self.end_caching();
        }
        // No new operation uses a right that is being removed. A reclaim names the old modes until
        // they are changed.
        self.restrict_rights(Rights(previous.0 & rights.0));
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
                // The server restarted meanwhile and was sent the old modes: repeat.
                Ok((_, run))
                    if !engine.open_table.change_modes(run, &self.handle, rights, deny) => {}
                answered => break answered,
            }
        };
        match changed {
            Ok((opened, _)) => {
                self.restrict_rights(Rights::READ_WRITE);
                self.set_state(opened).map(drop)
            }
            Err(error) => {
                if !matches!(error.status(), Status::Unreachable | Status::ConnectionLost) {
                    self.restrict_rights(Rights::READ_WRITE);
                }
                // If the server does not have the file open, the handle knows the reason.
                Err(self.handle.check().err().unwrap_or(error))
            }
        }
    }
}
