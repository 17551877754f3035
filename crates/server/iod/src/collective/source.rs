//! The payload of a task's write, as the thread that receives for all tasks sees it.

use std::{
    fmt::Debug,
    io::IoSliceMut,
    sync::{Arc, Mutex},
};

/// The payload of one call.
pub trait PayloadSource: Debug + Send + Sync {
    /// Payload bytes that are not received yet.
    fn left(&self) -> usize;

    /// Receives the next bytes into `pieces` in order. They take at least one byte, and no more
    /// than are left. Returns how many came. 0 means none in a while, which is short enough to
    /// check other things in between.
    ///
    /// # Errors
    /// [`ConnectionLost`].
    fn receive(&self, pieces: &mut [IoSliceMut<'_>]) -> Result<usize, ConnectionLost>;
}

/// The connection ended before the payload did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLost;

/// A payload in memory, for simulated networks and tests.
#[derive(Debug)]
pub struct MemorySource {
    /// The payload, and how much of it was received.
    state: Mutex<(Vec<u8>, usize)>,
    bytes_max: usize,
}

impl MemorySource {
    /// The whole payload; each call receives at most `bytes_max`.
    pub fn new(payload: &[u8], bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((payload.to_vec(), 0)), bytes_max })
    }
}

impl PayloadSource for MemorySource {
    fn left(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(braid_types::poisoned);
        state.0.len() - state.1
    }

    fn receive(&self, pieces: &mut [IoSliceMut<'_>]) -> Result<usize, ConnectionLost> {
        let mut state = self.state.lock().unwrap_or_else(braid_types::poisoned);
        let (payload, at) = &mut *state;
        let before = *at;
        for piece in pieces {
            let bytes = piece.len().min(payload.len() - *at).min(self.bytes_max + before - *at);
            piece[..bytes].copy_from_slice(&payload[*at..*at + bytes]);
            *at += bytes;
        }
        Ok(*at - before)
    }
}
