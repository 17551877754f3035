//! Closing: many files in one message, late. A close that never arrives is made up for by the end of the
//! session; until then an orphan keeps its space, so the queue is short.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use braid_net::Driver;
use braid_types::Status;
use braid_wire::message::mds::Close;

use super::{Engine, OpenFile, gate::lock, mds_call::Kind};
use crate::error::{Error, Result};

/// So many files are closed at most by one message; the call that makes the queue this long sends it.
const BATCH: usize = 64;
/// Of a server that is away so many closes are remembered; the end of the session covers the rest (I9).
const QUEUE_MAX: usize = 65_536;

#[derive(Debug)]
pub(crate) struct CloseQueue(Mutex<Vec<u64>>);

impl CloseQueue {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn push(&self, open_id: u64) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() < QUEUE_MAX {
            queue.push(open_id);
        }
    }

    fn is_due(&self) -> bool {
        lock(&self.0).len() >= BATCH
    }
}

impl<D: Driver> Engine<D> {
    /// Sends the closes that wait.
    pub async fn flush_closes(self: &Arc<Self>) -> Result<()> {
        self.flush_closes_until(self.deadline()).await
    }

    pub(crate) async fn flush_closes_until(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        loop {
            let open_ids = {
                let mut queue = lock(&self.closes.0);
                let rest = queue.len().saturating_sub(BATCH);
                queue.split_off(rest)
            };
            if open_ids.is_empty() {
                return Ok(());
            }
            let call = Close { open_ids };
            if let Err(error) = self.call(0, &call, Kind::Free, deadline).await {
                call.open_ids.iter().for_each(|open_id| self.closes.push(*open_id));
                return Err(error.during("close", "files"));
            }
        }
    }

    /// Sends the closes that wait when there are many.
    pub(crate) async fn flush_closes_when_due(self: &Arc<Self>) {
        if self.closes.is_due() {
            // What fails stays in the queue, for the service or the next call.
            let _ = self.flush_closes().await;
        }
    }
}

impl<D: Driver> OpenFile<D> {
    /// Closes the file. The metadata server learns it a little later; what is reported here is whether
    /// writes that were never synced are known to be lost (I6).
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once.
    pub async fn close(&self) -> Result<()> {
        if !self.engine().is_ours() {
            return Ok(()); // a child after `fork` closes its copy of the handle; the file is its parent's
        }
        if self.mark_closed() {
            self.engine().closes.push(self.open_id());
            self.engine().flush_closes_when_due().await;
        }
        match self.unsynced.take_lost() {
            Some(server) => Err(lost(&server).during("close", self.path())),
            None => Ok(()),
        }
    }
}

pub(crate) fn lost(server: &str) -> Error {
    Error::new(Status::UnsyncedDataLost, Status::UnsyncedDataLost.text()).at(server)
}
