//! The memory that requests and responses may take, by connection and in all.
//!
//! ```text
//!   frame ──> own: frame, request bytes ──> shared request bytes, of a long frame
//!         ──> response bytes for what its requests may ask for: own, then shared ──> run
//!         ──> request bytes are released, response bytes shrink to the response
//!         ──> own queue to the socket: while it is full, no frame is read ──> sent
//! ```
//!
//! Invariants:
//! 1. What waits for a budget of its own connection, or for its socket, holds no request bytes that
//!    connections share: a peer that does not read its responses holds response bytes only, until
//!    it is disconnected ([`super::writer`]).
//! 2. A WRITE, and a request whose response is short, wait for no response bytes: a client is still
//!    served while its READs wait for a disk.
//! 3. A connection without a session takes nothing of what those with a session share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    FRAME_BYTES_RUNNING_MAX, FRAMES_BEFORE_LOGON, FRAMES_MAX, RESPONSE_BYTES_MAX,
    RESPONSE_BYTES_UNSENT, SERVER_FRAME_BYTES_BEFORE_LOGON, SERVER_FRAME_BYTES_MAX,
    SERVER_RESPONSE_BYTES_MAX,
};
use crate::request::LONG_RESPONSE_BYTES_MAX;

/// Most bytes of a frame that takes nothing of what connections share. Frames of requests without
/// data are shorter.
const SHORT_FRAME_BYTES: usize = 4096;

/// Most bytes of the responses of a frame for which no bytes of the connection's are reserved: the
/// number of frames bounds them. One credit pays for them, as for those that describe a file.
const UNRESERVED_BYTES: usize = 64 << 10;

// A frame must get what it may need.
const _: () = assert!(LONG_RESPONSE_BYTES_MAX <= RESPONSE_BYTES_MAX);
const _: () = assert!(RESPONSE_BYTES_MAX <= SERVER_RESPONSE_BYTES_MAX);

/// What all connections share.
#[derive(Debug)]
pub struct SharedBudget {
    request_bytes: Arc<Semaphore>,
    request_bytes_before_logon: Arc<Semaphore>,
    response_bytes: Arc<Semaphore>,
}

impl Default for SharedBudget {
    fn default() -> Self {
        Self {
            request_bytes: semaphore(SERVER_FRAME_BYTES_MAX),
            request_bytes_before_logon: semaphore(SERVER_FRAME_BYTES_BEFORE_LOGON),
            response_bytes: semaphore(SERVER_RESPONSE_BYTES_MAX),
        }
    }
}

/// That of one connection.
#[derive(Debug)]
pub struct Budget {
    frames: Arc<Semaphore>,
    frames_before_logon: Arc<Semaphore>,
    request_bytes: Arc<Semaphore>,
    response_bytes: Arc<Semaphore>,
    unsent_bytes: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            frames: semaphore(FRAMES_MAX),
            frames_before_logon: semaphore(FRAMES_BEFORE_LOGON),
            request_bytes: semaphore(FRAME_BYTES_RUNNING_MAX),
            response_bytes: semaphore(RESPONSE_BYTES_MAX),
            unsent_bytes: semaphore(RESPONSE_BYTES_UNSENT),
        }
    }
}

/// The right of a frame to be in memory.
#[derive(Debug)]
pub struct Permits {
    /// Released when the response was sent.
    pub frame: OwnedSemaphorePermit,
    /// Released when the requests have run.
    pub request: RequestRoom,
    /// Released when the response was sent.
    pub response: ResponseRoom,
}

impl Budget {
    /// Waits until a frame of `bytes` may be in memory. Cancelling loses nothing.
    pub async fn admit(&self, shared: &SharedBudget, has_session: bool, bytes: usize) -> Permits {
        let bytes = bytes.max(1);
        // Responses that wait for their turn come first.
        drop(permits(&self.unsent_bytes, 1).await);
        if !has_session {
            // Its responses are short, so that the number of frames bounds them.
            let frame = permits(&self.frames_before_logon, 1).await;
            let own = permits(&self.request_bytes, bytes).await;
            let shared = permits(&shared.request_bytes_before_logon, bytes).await;
            let request = RequestRoom { _own: own, _shared: Some(shared) };
            return Permits { frame, request, response: ResponseRoom::default() };
        }
        let frame = permits(&self.frames, 1).await;
        let own = permits(&self.request_bytes, bytes).await;
        let budgets = [Arc::clone(&self.response_bytes), Arc::clone(&shared.response_bytes)];
        let shared = match bytes > SHORT_FRAME_BYTES {
            true => Some(permits(&shared.request_bytes, bytes).await),
            false => None,
        };
        let response = ResponseRoom {
            budgets: Some(budgets),
            may_wait: shared.is_none(),
            permits: Vec::new(),
        };
        let request = RequestRoom { _own: own, _shared: shared };
        Permits { frame, request, response }
    }

    /// Bytes that long responses have.
    #[cfg(test)]
    pub fn response_bytes_reserved(&self) -> usize {
        RESPONSE_BYTES_MAX - self.response_bytes.available_permits()
    }

    /// Waits until a response may be written to the socket.
    pub async fn queue(&self, bytes: usize) -> OwnedSemaphorePermit {
        permits(&self.unsent_bytes, bytes.min(RESPONSE_BYTES_UNSENT)).await
    }
}

/// The right of requests to be in memory.
#[derive(Debug)]
pub struct RequestRoom {
    _own: OwnedSemaphorePermit,
    _shared: Option<OwnedSemaphorePermit>,
}

/// The right of responses to be in memory, besides short ones: that of the connection, and of all.
#[derive(Debug, Default)]
pub struct ResponseRoom {
    /// None for a peer without a session.
    budgets: Option<[Arc<Semaphore>; 2]>,
    /// Not with shared request bytes (invariant 1).
    may_wait: bool,
    permits: Vec<OwnedSemaphorePermit>,
}

impl ResponseRoom {
    /// Waits for the bytes of long responses, before their requests run. `false` if a frame with
    /// long requests would have to wait, or if the peer has no session: then they may have none.
    pub async fn reserve(&mut self, bytes: usize) -> bool {
        let bytes = bytes.min(LONG_RESPONSE_BYTES_MAX);
        let Some([own, shared]) = &self.budgets else { return false };
        let own = (bytes > UNRESERVED_BYTES).then_some(own);
        let shared = (bytes > 0).then_some(shared);
        for budget in own.into_iter().chain(shared) {
            let permit = match self.may_wait {
                true => permits(budget, bytes).await,
                false => match Arc::clone(budget).try_acquire_many_owned(bytes as u32) {
                    Ok(permit) => permit,
                    Err(_) => return false,
                },
            };
            self.permits.push(permit);
        }
        true
    }

    /// Releases what is over `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in &mut self.permits {
            drop(permit.split(permit.num_permits().saturating_sub(bytes)));
        }
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

async fn permits(of: &Arc<Semaphore>, number: usize) -> OwnedSemaphorePermit {
    let number = u32::try_from(number).expect("the limits are below 4 GiB");
    let permits = Arc::clone(of).acquire_many_owned(number).await;
    permits.expect("the semaphores are never closed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LONG: usize = LONG_RESPONSE_BYTES_MAX;
    const SOON: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn only_reads_wait_for_reads_of_the_same_connection() {
        let (budget, shared) = (Budget::default(), SharedBudget::default());
        let mut reads = Vec::new();
        for _ in 0..RESPONSE_BYTES_MAX / LONG {
            let mut read = budget.admit(&shared, true, 113).await;
            assert!(read.response.reserve(LONG).await);
            reads.push(read);
        }
        let mut read = budget.admit(&shared, true, 113).await;
        assert!(timeout(SOON, read.response.reserve(LONG)).await.is_err());
        // An ECHO, a WRITE, and a QUERY_INFO.
        for (request, response) in [(68, 0), (8 << 20, 0), (120, 64 << 10)] {
            let admitted = timeout(SOON, budget.admit(&shared, true, request)).await;
            let reserved = admitted.unwrap().response.reserve(response).await;
            assert!(reserved, "{request} {response}");
        }
        // Another connection, and a READ behind a WRITE in one frame, which does not wait.
        let other = Budget::default();
        for (budget, served) in [(&other, true), (&budget, false)] {
            let mut both = budget.admit(&shared, true, 8 << 20).await;
            assert_eq!(both.response.reserve(LONG).await, served);
        }
        drop(reads);
        assert!(timeout(SOON, read.response.reserve(LONG)).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_not_admitted_while_responses_wait_for_the_peer() {
        let (budget, shared) = (Budget::default(), SharedBudget::default());
        let queued = budget.queue(RESPONSE_BYTES_UNSENT + 1).await;
        assert!(timeout(SOON, budget.admit(&shared, true, 68)).await.is_err());
        drop(queued);
        assert!(timeout(SOON, budget.admit(&shared, true, 68)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_have_two_frames_and_no_long_responses() {
        let (budget, shared) = (Budget::default(), SharedBudget::default());
        let mut one = budget.admit(&shared, false, 100).await;
        assert!(!one.response.reserve(LONG).await);
        let _other = budget.admit(&shared, false, 100).await;
        assert!(timeout(SOON, budget.admit(&shared, false, 100)).await.is_err());
        drop(one);
        assert!(timeout(SOON, budget.admit(&shared, false, 100)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_holds_its_own_bytes_only() {
        let (budget, shared) = (Budget::default(), SharedBudget::default());
        let mut read = budget.admit(&shared, true, 113).await;
        assert!(read.response.reserve(LONG).await);
        read.response.shrink_to(1000);
        assert_eq!(budget.response_bytes.available_permits(), RESPONSE_BYTES_MAX - 1000);
        assert_eq!(shared.response_bytes.available_permits(), SERVER_RESPONSE_BYTES_MAX - 1000);
        drop(read);
        assert_eq!(shared.response_bytes.available_permits(), SERVER_RESPONSE_BYTES_MAX);
    }
}
