//! The memory that requests and responses may take, by connection and in all.
//!
//! ```text
//!   frame ─> own: frame, request bytes, response bytes ─> shared: response bytes, request bytes
//!         ─> run: the response bytes shrink to what the requests may ask for
//!         ─> has run: request bytes are released, response bytes shrink to the response
//!         ─> sent: the rest is released
//! ```
//!
//! Invariants:
//! 1. Permits are taken in this order, before the frame runs: what waits for a budget of its own
//!    connection holds nothing of the others.
//! 2. Nobody waits for a socket with request bytes: a peer that does not read its responses holds
//!    response bytes only, and is disconnected ([`super::writer`]).
//! 3. A connection without a session takes nothing of what those with a session share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    FRAME_BYTES_RUNNING_MAX, FRAMES_BEFORE_LOGON, FRAMES_MAX, RESPONSE_BYTES_WAITING_MAX,
    SERVER_FRAME_BYTES_BEFORE_LOGON, SERVER_FRAME_BYTES_MAX, SERVER_RESPONSE_BYTES_MAX,
};
use crate::request::FRAME_RESPONSE_BYTES_MAX;

// A frame must get what it may need.
const _: () = assert!(FRAME_RESPONSE_BYTES_MAX <= RESPONSE_BYTES_WAITING_MAX);
const _: () = assert!(RESPONSE_BYTES_WAITING_MAX <= SERVER_RESPONSE_BYTES_MAX);

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
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            frames: semaphore(FRAMES_MAX),
            frames_before_logon: semaphore(FRAMES_BEFORE_LOGON),
            request_bytes: semaphore(FRAME_BYTES_RUNNING_MAX),
            response_bytes: semaphore(RESPONSE_BYTES_WAITING_MAX),
        }
    }
}

/// The right of a frame to be in memory.
#[derive(Debug)]
pub struct Permits {
    /// Released when the response was sent.
    pub frame: OwnedSemaphorePermit,
    /// Released when the requests have run.
    pub request: [OwnedSemaphorePermit; 2],
    /// Released when the response was sent.
    pub response: ResponseRoom,
}

impl Budget {
    /// Waits until a frame of `bytes` may be in memory (invariant 1). Cancelling loses nothing.
    pub async fn admit(&self, shared: &SharedBudget, has_session: bool, bytes: usize) -> Permits {
        let bytes = bytes.max(1);
        if !has_session {
            // Its responses are short, so that the number of frames bounds them.
            let frame = permits(&self.frames_before_logon, 1).await;
            let own = permits(&self.request_bytes, bytes).await;
            let request = [own, permits(&shared.request_bytes_before_logon, bytes).await];
            return Permits { frame, request, response: ResponseRoom::default() };
        }
        let frame = permits(&self.frames, 1).await;
        let own = permits(&self.request_bytes, bytes).await;
        let response = [
            permits(&self.response_bytes, FRAME_RESPONSE_BYTES_MAX).await,
            permits(&shared.response_bytes, FRAME_RESPONSE_BYTES_MAX).await,
        ];
        let request = [own, permits(&shared.request_bytes, bytes).await];
        Permits { frame, request, response: ResponseRoom(Some(response)) }
    }
}

/// The right of a response to be in memory: that of its connection, and of all.
#[derive(Debug, Default)]
pub struct ResponseRoom(Option<[OwnedSemaphorePermit; 2]>);

impl ResponseRoom {
    /// Releases what is over `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        for permit in self.0.iter_mut().flatten() {
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
