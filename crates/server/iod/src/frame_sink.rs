//! Takes the frames of one call's reply.

use std::io::IoSlice;

use braid_types::{Failure, Status};
use braid_wire::{Wire, encode_failure, encode_success};

use crate::payload::Payload;

/// Takes the frames of one call's reply, in order: any number of data frames, then the final one.
pub trait FrameSink {
    /// Whether the sink sends faster from objects that are mapped into memory.
    fn wants_mappings(&self) -> bool {
        false
    }

    /// A data frame.
    ///
    /// # Errors
    /// [`SinkError::Disk`] when the payload cannot be read: the sent part of the frame was then
    /// filled up with zeros.
    fn data(&mut self, payload: &Payload<'_>) -> Result<(), SinkError>;

    /// The final frame, with the last payload. The payload is read before anything is sent, so
    /// that the status in `body` still holds.
    ///
    /// # Errors
    /// [`SinkError::Disk`] when the payload cannot be read: nothing was sent.
    fn finish(&mut self, body: &[u8], payload: &Payload<'_>) -> Result<(), SinkError>;

    /// A data frame of bytes in memory.
    ///
    /// # Errors
    /// [`SinkError::Closed`].
    fn data_from_memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError>;

    /// The final frame, with a last payload in memory.
    ///
    /// # Errors
    /// [`SinkError::Closed`].
    fn finish_from_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError>;
}

/// Why a frame was not sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkError {
    /// The payload cannot be read. The call ends with this failure.
    Disk(Failure),
    /// The connection is closed.
    Closed,
}

/// The reply of a call without payload: status and body of the final frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The status in `body`, for the counters.
    pub status: Status,
    /// Body of the final frame.
    pub body: Vec<u8>,
}

impl Answer {
    /// The reply with this outcome.
    pub fn from_outcome<R: Wire>(outcome: Result<R, Failure>) -> Self {
        match outcome {
            Ok(reply) => Self { status: Status::Ok, body: encode_success(&reply) },
            Err(failure) => Self::failure(&failure),
        }
    }

    /// The reply of a failed call.
    pub fn failure(failure: &Failure) -> Self {
        Self { status: failure.status, body: encode_failure(failure) }
    }
}

/// Collects the frames of a reply in memory, for simulated networks and tests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemorySink {
    /// Payload of all frames.
    pub payload: Vec<u8>,
    /// Payload bytes of each data frame.
    pub data_frames: Vec<usize>,
    /// Body of the final frame, once received.
    pub body: Option<Vec<u8>>,
}

impl FrameSink for MemorySink {
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

    fn data_from_memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        let before = self.payload.len();
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        self.data_frames.push(self.payload.len() - before);
        Ok(())
    }

    fn finish_from_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        pieces.iter().for_each(|piece| self.payload.extend_from_slice(piece));
        self.body = Some(body.to_vec());
        Ok(())
    }
}
