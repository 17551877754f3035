//! Closing. Closes are delayed and sent together. If a close is never sent, the end of the session
//! replaces it. Until then a deleted file keeps its space, so the queue is short.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::Status;
use braid_wire::{Rights, message::mds::Close};

use super::{Engine, OpenFile};
use crate::error::{Error, Result};

/// The largest number of closes in one message. The call that makes the queue this long sends it.
const CLOSE_BATCH: usize = 64;

impl<D: Driver> Engine<D> {
    /// Sends the pending closes.
    pub async fn flush_closes(self: &Arc<Self>) -> Result<()> {
        self.flush_closes_until(self.deadline()).await
    }

    pub(crate) async fn flush_closes_until(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        self.flush_returns().await;
        while let Some((session, handles)) = self.open_table.take_closes(CLOSE_BATCH) {
            let reports = handles
                .iter()
                .filter_map(|handle| handle.size_report.report(handle.open_id))
                .collect();
            let call = Close { open_ids: handles.iter().map(|handle| handle.open_id).collect() };
            match self
                .repeatable(call)
                .in_session(session)
                .size_reports(reports)
                .until(deadline)
                .send()
                .await
            {
                // The end of the session has closed everything.
                Err(error) if error.status() != Status::NoSession => {
                    self.open_table.put_back(session, handles);
                    return Err(error.during("close", "files"));
                }
                _ => self.open_table.closes_sent(&handles),
            }
        }
        Ok(())
    }

    /// Sends the pending closes if there are many.
    pub(crate) async fn flush_closes_when_due(self: &Arc<Self>) {
        if self.open_table.pending_closes() >= CLOSE_BATCH || self.pending_returns() >= CLOSE_BATCH
        {
            // On failure they stay in the queue, for the service thread or the next call.
            let _ = self.flush_closes().await;
        }
    }
}

impl<D: Driver> OpenFile<D> {
    /// Closes the file. The metadata server learns of it a little later. The result reports whether
    /// writes that were never synced are lost, or may be (I6).
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once. [`Status::StaleHandle`], once, for a file open for
    /// writing that a restarted metadata server could not reclaim.
    pub async fn close(&self) -> Result<()> {
        if !self.engine().is_ours() {
            // A child after `fork` closes its copy of the handle; the file belongs to its parent.
            return Ok(());
        }
        // Flushing needs the open handle.
        self.check_verifiers().await;
        if self.handle.mark_closed() {
            self.engine().open_table.close(&self.handle);
            if self.rights().allow(Rights::WRITE) {
                self.handle.check().map_err(|error| error.during("close", self.path()))?;
            }
            if self.handle.deny().is_none() {
                self.engine().flush_closes_when_due().await;
            } else {
                // The denials must end with the open. On failure the close stays in the queue.
                let _ = self.engine().flush_closes().await;
            }
        }
        self.report_loss()
    }

    /// Reports whether writes that were never synced are known to be lost (I6). Sends nothing,
    /// unless a daemon is known to have lost something, possibly through another file of this
    /// client.
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once.
    pub async fn check_loss(&self) -> Result<()> {
        self.check_verifiers().await;
        self.report_loss()
    }

    fn report_loss(&self) -> Result<()> {
        match self.unflushed.take_lost() {
            Some(server) => Err(unsynced_data_lost(&server).during("close", self.path())),
            None => Ok(()),
        }
    }
}

pub(crate) fn unsynced_data_lost(server: &str) -> Error {
    Error::new(Status::UnsyncedDataLost, Status::UnsyncedDataLost.text()).at(server)
}
