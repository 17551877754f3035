//! Closing: many files in one message, late. A close that never arrives is made up for by the end of the
//! session; until then an orphan keeps its space, so the queue is short.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::Status;
use braid_wire::{Rights, message::mds::Close};

use super::{Engine, OpenFile};
use crate::error::{Error, Result};

/// So many files are closed at most by one message; the call that makes the queue this long sends it.
const BATCH: usize = 64;

impl<D: Driver> Engine<D> {
    /// Sends the closes that wait.
    pub async fn flush_closes(self: &Arc<Self>) -> Result<()> {
        self.flush_closes_until(self.deadline()).await
    }

    pub(crate) async fn flush_closes_until(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        self.flush_returns().await;
        while let Some((session, handles)) = self.handles.take_closes(BATCH) {
            let told =
                handles.iter().filter_map(|handle| handle.told.tell(handle.open_id)).collect();
            let call = Close { open_ids: handles.iter().map(|handle| handle.open_id).collect() };
            match self.tell_in_session(session, told, &call, deadline).await {
                // With the session everything is closed.
                Err(error) if error.status() != Status::NoSession => {
                    self.handles.put_back(session, handles);
                    return Err(error.during("close", "files"));
                }
                _ => self.handles.closed(&handles),
            }
        }
        Ok(())
    }

    /// Sends the closes that wait when there are many.
    pub(crate) async fn flush_closes_when_due(self: &Arc<Self>) {
        if self.handles.closes() >= BATCH || self.returns() >= BATCH {
            // What fails stays in the queue, for the service or the next call.
            let _ = self.flush_closes().await;
        }
    }
}

impl<D: Driver> OpenFile<D> {
    /// Closes the file. The metadata server learns it a little later; what is reported here is whether
    /// writes that were never synced are known to be lost, or may be (I6).
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once. [`Status::StaleHandle`], once, of a file open for writing that a restarted
    /// metadata server could not take up again.
    pub async fn close(&self) -> Result<()> {
        if !self.engine().is_ours() {
            return Ok(()); // a child after `fork` closes its copy of the handle; the file is its parent's
        }
        // While the handle is good for it.
        self.clear_doubts().await;
        if self.handle.mark_closed() {
            self.engine().handles.close(&self.handle);
            if self.rights().allow(Rights::WRITE) {
                self.handle.check().map_err(|error| error.during("close", self.path()))?;
            }
            if self.handle.deny().is_none() {
                self.engine().flush_closes_when_due().await;
            } else {
                // What it denies is denied no longer than the file is open. What fails stays in the queue.
                let _ = self.engine().flush_closes().await;
            }
        }
        self.told_loss()
    }

    /// Tells whether writes that were never synced are known to be lost (I6). Asks nobody, but for a daemon that is known,
    /// through whatever file of this client, to have lost something.
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once.
    pub async fn check_loss(&self) -> Result<()> {
        self.clear_doubts().await;
        self.told_loss()
    }

    fn told_loss(&self) -> Result<()> {
        match self.unsynced.take_lost() {
            Some(server) => Err(lost(&server).during("close", self.path())),
            None => Ok(()),
        }
    }
}

pub(crate) fn lost(server: &str) -> Error {
    Error::new(Status::UnsyncedDataLost, Status::UnsyncedDataLost.text()).at(server)
}
