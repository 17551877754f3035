//! Where the frames of one call's reply go.

use std::io::IoSlice;

use braid_types::{Failure, Status};
use braid_wire::{Wire, encode_failure, encode_success};

use crate::payload::Payload;

/// Takes the frames of one call's reply, in order: any number of data frames, then the final one.
pub trait FrameSink {
    /// Whether pieces of objects are worth to be in the address space.
    fn sends_mapped(&self) -> bool {
        false
    }

    /// A data frame.
    ///
    /// # Errors
    /// [`SinkError::Disk`] when the payload could not be read: the frame, if any of it was sent, was filled up with zeros.
    fn data(&mut self, payload: &Payload<'_>) -> Result<(), SinkError>;

    /// The final frame, with the last payload. It is read before anything is sent, so that the status in `body`
    /// is still true.
    ///
    /// # Errors
    /// [`SinkError::Disk`] when the payload could not be read: then nothing was sent.
    fn finish(&mut self, body: &[u8], payload: &Payload<'_>) -> Result<(), SinkError>;

    /// A data frame of bytes that are in memory, gathered.
    ///
    /// # Errors
    /// [`SinkError::Closed`].
    fn memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError>;

    /// The final frame, with a last payload that is in memory.
    ///
    /// # Errors
    /// [`SinkError::Closed`].
    fn finish_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError>;
}

/// Why a frame was not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkError {
    /// Its payload could not be read. The call goes on to end with this failure.
    Disk(Failure),
    /// The connection is gone, and the call with it.
    Closed,
}

/// The end of a call that carries no payload: status and body of the final frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status in `body`, for counters.
    pub status: Status,
    /// Body of the final frame.
    pub body: Vec<u8>,
}

impl Answer {
    /// The answer with this outcome.
    pub fn from_outcome<R: Wire>(outcome: Result<R, Failure>) -> Self {
        match outcome {
            Ok(reply) => Self { status: Status::Ok, body: encode_success(&reply) },
            Err(failure) => Self::failure(&failure),
        }
    }

    /// A refusal.
    pub fn failure(failure: &Failure) -> Self {
        Self { status: failure.status, body: encode_failure(failure) }
    }
}

/// Gathers the frames of a reply in memory, for simulated networks and tests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gathered {
    /// Payload of all frames.
    pub payload: Vec<u8>,
    /// Payload bytes of each data frame.
    pub data_frames: Vec<usize>,
    /// Body of the final frame, once it came.
    pub body: Option<Vec<u8>>,
}

impl FrameSink for Gathered {
    fn data(&mut self, payload: &Payload<'_>) -> Result<(), SinkError> {
        self.data_frames.push(payload.bytes());
        payload.read_into(&mut self.payload).map_err(SinkError::Disk)
    }

    fn finish(&mut self, body: &[u8], payload: &Payload<'_>) -> Result<(), SinkError> {
        let sent = self.payload.len();
        if let Err(failure) = payload.read_into(&mut self.payload) {
            self.payload.truncate(sent);
            return Err(SinkError::Disk(failure));
        }
        self.body = Some(body.to_vec());
        Ok(())
    }

    fn memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        let before = self.payload.len();
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        self.data_frames.push(self.payload.len() - before);
        Ok(())
    }

    fn finish_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        self.body = Some(body.to_vec());
        Ok(())
    }
}
