//! Requests that wait for something to happen: asynchronous ones. MS-SMB2 3.3.4.2, 3.3.5.16.
//!
//! ```text
//!   request ─> STATUS_PENDING with a number, as soon as it waits
//!           ─> the response with the same number, when it happens or after a CANCEL
//! ```
//!
//! Invariants:
//! 1. At most [`PENDING_MAX`] requests of a connection wait. They hold none of the frames that a
//!    connection may have at the same time.
//! 2. Each one is answered once: the response that it waits for is sent after the one with
//!    `STATUS_PENDING`.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::{Flags, Header};
use tokio::sync::{oneshot, watch};

use crate::context::OpResult;

/// Most requests of a connection that wait. Samba's limit, too.
pub const PENDING_MAX: usize = 512;

/// Ends when the request is cancelled.
pub type Cancelled = oneshot::Receiver<()>;

/// Waits for the result of a request. If it is cancelled meanwhile the result is `CANCELLED`,
/// unless the request has had an effect already.
pub type Wait = Box<dyn FnOnce(Cancelled) -> Pin<Box<dyn Future<Output = OpResult> + Send>> + Send>;

/// What became of a request.
pub enum Outcome {
    /// It has been done, or failed.
    Done(OpResult),
    /// It is answered later.
    Waits(Wait),
}

#[cfg(test)]
impl Outcome {
    /// The result of a request that does not wait.
    pub fn done(self) -> OpResult {
        match self {
            Self::Done(result) => result,
            Self::Waits(_) => panic!("the request waits"),
        }
    }
}

/// What a request waits with, in the middle of its work.
#[derive(Debug)]
pub struct Waiter {
    /// Sent when it begins to wait.
    begun: watch::Sender<bool>,
    cancelled: watch::Receiver<bool>,
}

impl Waiter {
    /// Waits for `happens`. Meanwhile the request may be cancelled, so that nothing of it may be
    /// half done.
    ///
    /// # Errors
    /// `CANCELLED`.
    pub async fn wait(&self, happens: impl Future<Output = ()>) -> Result<(), NtStatus> {
        self.begun.send_replace(true);
        let mut cancelled = self.cancelled.clone();
        tokio::select! {
            () = happens => Ok(()),
            Ok(_) = cancelled.wait_for(|cancelled| *cancelled) => Err(NtStatus::CANCELLED),
        }
    }
}

/// Runs a request that may have to wait. It is answered later if it does, unless others of its
/// frame stand behind it (`is_last` is false).
pub async fn run<F>(is_last: bool, request: impl FnOnce(Waiter) -> F) -> Outcome
where
    F: Future<Output = OpResult> + Send + 'static,
{
    let (begun, mut begins) = watch::channel(false);
    let (cancel, cancelled) = watch::channel(false);
    let mut running = Box::pin(request(Waiter { begun, cancelled }));
    if !is_last {
        return Outcome::Done(running.await);
    }
    tokio::select! {
        biased;
        result = &mut running => return Outcome::Done(result),
        Ok(_) = begins.wait_for(|begun| *begun) => {}
    }
    Outcome::Waits(Box::new(move |cancelled| {
        Box::pin(async move {
            tokio::select! {
                result = &mut running => return result,
                _ = cancelled => drop(cancel.send_replace(true)),
            }
            running.await
        })
    }))
}

/// A request that waits.
#[derive(Debug)]
struct PendingRequest {
    message_id: u64,
    session_id: u64,
    /// Dropped or used: the request is cancelled.
    cancel: oneshot::Sender<()>,
}

/// The requests of a connection that wait.
#[derive(Debug, Default)]
pub struct PendingRequests {
    requests: Mutex<HashMap<u64, PendingRequest>>,
    last: AtomicU64,
}

impl PendingRequests {
    /// Adds a request: its number, and what ends with its CANCEL. `None` if there are too many.
    pub fn add(&self, request: &Header) -> Option<(u64, Cancelled)> {
        let mut requests = self.requests();
        if requests.len() >= PENDING_MAX {
            return None;
        }
        // 3.3.4.2: not 0, and unique on the connection.
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (cancel, cancelled) = oneshot::channel();
        let (message_id, session_id) = (request.message_id, request.session_id);
        requests.insert(id, PendingRequest { message_id, session_id, cancel });
        Some((id, cancelled))
    }

    /// Removes a request that is answered now.
    pub fn remove(&self, id: u64) {
        self.requests().remove(&id);
    }

    /// Cancels the request that a CANCEL names, if it still waits. 3.3.5.16.
    pub fn cancel(&self, cancel: &Header) {
        let mut requests = self.requests();
        let id = match cancel.flags.has(Flags::ASYNC) {
            true => Some(cancel.async_id),
            false => {
                let mut all = requests.iter();
                all.find(|(_, one)| one.message_id == cancel.message_id).map(|(id, _)| *id)
            }
        };
        let Some(id) = id else { return };
        // A session cancels requests of its own only.
        if requests.get(&id).is_some_and(|one| one.session_id == cancel.session_id)
            && let Some(request) = requests.remove(&id)
        {
            let _ = request.cancel.send(());
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<u64, PendingRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use braid_smb_wire::smb2::Command;

    use super::*;

    fn header(message_id: u64, session_id: u64) -> Header {
        Header { session_id, ..Header::request(Command::ChangeNotify, message_id) }
    }

    #[test]
    fn a_cancel_names_a_request_by_either_number_and_of_its_session() {
        let pending = PendingRequests::default();
        let (first, mut first_cancelled) = pending.add(&header(7, 1)).unwrap();
        let (second, mut second_cancelled) = pending.add(&header(8, 1)).unwrap();
        assert_ne!(first, second);
        pending.cancel(&header(7, 2));
        pending.cancel(&header(9, 1));
        assert!(first_cancelled.try_recv().is_err() && second_cancelled.try_recv().is_err());
        pending.cancel(&header(7, 1));
        assert_eq!(first_cancelled.try_recv(), Ok(()));
        pending.cancel(&Header { flags: Flags::ASYNC, async_id: second, ..header(0, 1) });
        assert_eq!(second_cancelled.try_recv(), Ok(()));
        assert!(pending.requests().is_empty());
    }

    #[test]
    fn the_number_of_waiting_requests_is_limited() {
        let pending = PendingRequests::default();
        let all: Vec<_> = (0..PENDING_MAX as u64).map(|id| pending.add(&header(id, 1))).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(pending.add(&header(9999, 1)).is_none());
        pending.remove(1);
        assert!(pending.add(&header(9999, 1)).is_some());
    }
}
