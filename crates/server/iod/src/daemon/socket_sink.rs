//! Sends the frames of a read: small pieces are copied behind their header and sent together, large
//! ones by `sendfile`.

use std::io::IoSlice;

use braid_net::server::{FrameSender, MappedRange, SendError};
use braid_types::{Failure, Status, limits::REPLY_DATA_BYTES_MAX};
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader};

use crate::{
    frame_sink::{FrameSink, SinkError},
    ops::COPIED_BYTES_MAX,
    payload::{Payload, Piece},
};

/// Pieces of memory that are shorter on average are copied behind their header.
const COPIED_PIECE_BYTES_MAX: usize = 1024;
/// Pieces of objects that are longer on average are sent by `sendfile`, each in its own frame
/// (`docs/adr/0025-sending-from-a-mapping.md`).
const MAPPED_PIECE_BYTES_MAX: usize = 64 * 1024;

/// The frames of one call.
#[derive(Debug)]
pub(super) struct SocketSink<'a> {
    pub(super) sender: &'a FrameSender,
    pub(super) op: u16,
    pub(super) request_id: u64,
    /// Reused from frame to frame and call to call.
    pub(super) buffer: &'a mut Vec<u8>,
}

impl SocketSink<'_> {
    fn header(&self, flags: FrameFlags, body_bytes: usize, payload_bytes: usize) -> FrameHeader {
        FrameHeader {
            op: self.op,
            flags,
            request_id: self.request_id,
            body_bytes: body_bytes as u32,
            payload_bytes: payload_bytes as u32,
        }
    }

    /// Reserves the header's bytes in the buffer, in which a frame is built.
    fn begin_frame(&mut self) {
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER_BYTES, 0);
    }

    /// Sends the frame in the buffer, after it has filled in the header.
    fn send_frame(&mut self, flags: FrameFlags, body_bytes: usize) -> Result<(), SinkError> {
        let payload_bytes = self.buffer.len() - FRAME_HEADER_BYTES - body_bytes;
        let header = self.header(flags, body_bytes, payload_bytes).to_bytes();
        self.buffer[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        self.sender.send_frames(self.buffer).map_err(|why| sink_error(&why))
    }

    /// Sends the buffered pieces, if there are any, as a data frame.
    fn send_buffered(&mut self) -> Result<(), SinkError> {
        if self.buffer.len() > FRAME_HEADER_BYTES {
            self.send_frame(FrameFlags::DATA, 0)?;
            self.begin_frame();
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), SinkError> {
        match piece {
            Piece::Data { object, offset, bytes, .. }
                if bytes > COPIED_BYTES_MAX && object.file().is_some() =>
            {
                self.send_buffered()?;
                let header = self.header(FrameFlags::DATA, 0, bytes);
                let Some(file) = object.file() else { return Ok(()) };
                self.sender
                    .send_data_from_file(&header, file, offset.0, bytes)
                    .map_err(|why| sink_error(&why))
            }
            small => small.read_into(self.buffer).map(drop).map_err(SinkError::Disk),
        }
    }
}

impl SocketSink<'_> {
    /// Sends pieces of memory. Small ones are copied together first: the kernel takes longer for
    /// each than a copy does.
    fn send_memory(
        &mut self,
        flags: FrameFlags,
        body: &[u8],
        pieces: &[IoSlice<'_>],
    ) -> Result<(), SinkError> {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        if bytes < pieces.len() * COPIED_PIECE_BYTES_MAX || bytes <= COPIED_BYTES_MAX {
            self.begin_frame();
            self.buffer.extend_from_slice(body);
            pieces.iter().for_each(|piece| self.buffer.extend_from_slice(piece));
            return self.send_frame(flags, body.len());
        }
        let header = self.header(flags, body.len(), bytes);
        self.sender.send(&header, body, pieces).map_err(|why| sink_error(&why))
    }
}

impl FrameSink for SocketSink<'_> {
    fn wants_mappings(&self) -> bool {
        self.sender.is_plain()
    }

    /// One planned data frame may become several: each large piece gets its own, so that each is
    /// one `sendfile`.
    fn data(&mut self, payload: &Payload<'_>) -> Result<(), SinkError> {
        debug_assert!(payload.bytes() <= REPLY_DATA_BYTES_MAX);
        if let Some(pieces) = mapped(payload) {
            let header = self.header(FrameFlags::DATA, 0, payload.bytes());
            return self.sender.send_data_mapped(&header, &pieces).map_err(|why| sink_error(&why));
        }
        self.begin_frame();
        for piece in payload.pieces() {
            self.piece(piece)?;
        }
        self.send_buffered()
    }

    fn finish(&mut self, body: &[u8], payload: &Payload<'_>) -> Result<(), SinkError> {
        self.begin_frame();
        self.buffer.extend_from_slice(body);
        payload.read_into(self.buffer).map_err(SinkError::Disk)?;
        self.send_frame(FrameFlags::FINAL, body.len())
    }

    fn data_from_memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        self.send_memory(FrameFlags::DATA, &[], pieces)
    }

    fn finish_from_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        self.send_memory(FrameFlags::FINAL, body, pieces)
    }
}

/// The pieces of a payload that are best sent from a mapping: several, none of them large, all of
/// them mapped.
fn mapped<'p>(payload: &Payload<'p>) -> Option<Vec<MappedRange<'p>>> {
    if payload.piece_count() < 2 || payload.bytes() > payload.piece_count() * MAPPED_PIECE_BYTES_MAX
    {
        return None;
    }
    let mut pieces = Vec::with_capacity(payload.piece_count());
    for piece in payload.pieces() {
        let Piece::Data { object, mapping, offset, bytes } = piece else { return None };
        pieces.push(MappedRange::new(mapping?.raw(), object.file()?, offset.0, bytes)?);
    }
    Some(pieces)
}

fn sink_error(why: &SendError) -> SinkError {
    match why {
        SendError::File(error) => {
            SinkError::Disk(Failure::new(Status::DiskError, error.to_string()))
        }
        SendError::Connection(_) => SinkError::Closed,
    }
}
