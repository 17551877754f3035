//! The payload of one frame of a reply: pieces of objects and zeros, not read yet.
//!
//! The core plans it. The sender decides whether to copy it, or to let the kernel send it from the
//! file.

use std::sync::Arc;

use braid_store::{Mapping, Object};
use braid_types::{
    Failure, ObjectOffset, Status,
    limits::{JOB_SLICE_ACCESSES_MAX, REPLY_DATA_BYTES_MAX},
};

/// Segments of a typical frame that has more than one: a data frame in pages.
const SEGMENTS_TYPICAL: usize = REPLY_DATA_BYTES_MAX / 4096;

/// A contiguous piece of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Segment {
    /// Which of the job's objects; `None` for zeros.
    slot: Option<u16>,
    offset: u64,
    bytes: u64,
}

/// The segments of one frame that is being planned. It has at most the bytes of a data frame, and
/// at most as many segments as a slice has accesses (I9).
#[derive(Debug, Default)]
pub(crate) struct FramePlan {
    segments: Vec<Segment>,
    bytes: u64,
}

/// A piece of a payload, for the sender.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes of an object. If the object has become shorter, the rest is zeros.
    Data {
        /// The object.
        object: &'a dyn Object,
        /// The object's mapping into memory, if there is one.
        mapping: Option<&'a Mapping>,
        /// First byte.
        offset: ObjectOffset,
        /// Number of bytes.
        bytes: usize,
    },
    /// A number of zeros.
    Zeros(usize),
}

/// The payload of one frame, at most [`REPLY_DATA_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    segments: &'a [Segment],
    objects: &'a [Option<Arc<dyn Object>>],
    /// As the objects, or empty.
    mappings: &'a [Option<Arc<Mapping>>],
    bytes: usize,
}

impl FramePlan {
    /// Adds as much of a piece as the frame has space for. Returns how many bytes that was.
    pub(crate) fn push(&mut self, slot: Option<u16>, offset: u64, bytes: u64) -> u64 {
        let taken = bytes.min(REPLY_DATA_BYTES_MAX as u64 - self.bytes);
        let adjacent = |last: &Segment| {
            last.slot == slot && (slot.is_none() || last.offset + last.bytes == offset)
        };
        let full = taken == 0 || self.segments.len() == JOB_SLICE_ACCESSES_MAX;
        match self.segments.last_mut() {
            Some(last) if adjacent(last) => last.bytes += taken,
            _ if full => return 0,
            _ => {
                // Most frames have one segment; the others have about this many.
                if self.segments.len() == 1 {
                    self.segments.reserve(SEGMENTS_TYPICAL);
                }
                self.segments.push(Segment { slot, offset, bytes: taken });
            }
        }
        self.bytes += taken;
        debug_assert!(self.bytes <= REPLY_DATA_BYTES_MAX as u64, "a frame has limited bytes (I9)");
        taken
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of pieces.
    pub(crate) fn piece_count(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn payload<'a>(&'a self, objects: &'a [Option<Arc<dyn Object>>]) -> Payload<'a> {
        Payload { segments: &self.segments, objects, mappings: &[], bytes: self.bytes as usize }
    }

    pub(crate) fn clear(&mut self) {
        self.segments.clear();
        self.bytes = 0;
    }
}

impl<'a> Payload<'a> {
    /// No bytes.
    pub const EMPTY: Payload<'static> =
        Payload { segments: &[], objects: &[], mappings: &[], bytes: 0 };

    /// The same payload, of objects that are mapped into memory, by slot.
    pub(crate) fn mapped(self, mappings: &'a [Option<Arc<Mapping>>]) -> Self {
        Self { mappings, ..self }
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of pieces.
    pub fn piece_count(&self) -> usize {
        self.segments.len()
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let (objects, mappings) = (self.objects, self.mappings);
        self.segments.iter().map(move |segment| {
            let (bytes, slot) =
                (segment.bytes as usize, segment.slot.map_or(usize::MAX, usize::from));
            match objects.get(slot).and_then(Option::as_deref) {
                Some(object) => {
                    let mapping = mappings.get(slot).and_then(Option::as_deref);
                    Piece::Data { object, mapping, offset: ObjectOffset(segment.offset), bytes }
                }
                None => Piece::Zeros(bytes),
            }
        })
    }

    /// Appends all of it to `out`.
    ///
    /// # Errors
    /// A disk error, or an object that was truncated since the read began: the zeros in its place
    /// were never in the file. `out` then ends in the middle.
    pub fn read_into(&self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.pieces().try_for_each(|piece| {
            if piece.read_into(out)? { Ok(()) } else { Err(truncated_while_read()) }
        })
    }
}

impl Piece<'_> {
    /// Appends it to `out`, with zeros for what the object no longer has. Returns whether the
    /// object had all of it.
    ///
    /// # Errors
    /// A disk error.
    pub fn read_into(&self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let at = out.len();
        match *self {
            Self::Zeros(bytes) => {
                out.resize(at + bytes, 0);
                Ok(true)
            }
            Self::Data { object, offset, bytes, .. } => {
                out.resize(at + bytes, 0);
                Ok(object.read_at(&mut out[at..], offset)? == bytes)
            }
        }
    }
}

/// A truncate overtook the read: the client learns the new generation and reads again.
pub(crate) fn truncated_while_read() -> Failure {
    Failure::new(Status::StaleGeneration, "the file was truncated while it was read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pieces_become_one_and_a_frame_is_never_overfull() {
        let mut plan = FramePlan::default();
        assert_eq!(plan.push(Some(0), 100, 50), 50);
        assert_eq!(plan.push(Some(0), 150, 50), 50);
        assert_eq!(plan.push(None, 0, 10), 10);
        assert_eq!(plan.push(None, 0, 10), 10);
        assert_eq!(plan.push(Some(0), 500, u64::MAX), REPLY_DATA_BYTES_MAX as u64 - 120);
        assert_eq!(plan.push(Some(1), 0, 1), 0, "it is full");
        assert_eq!((plan.segments.len(), plan.bytes()), (3, REPLY_DATA_BYTES_MAX as u64));
    }

    #[test]
    fn a_frame_has_at_most_a_slice_of_pieces() {
        let mut plan = FramePlan::default();
        let pushed: u64 =
            (0..2 * JOB_SLICE_ACCESSES_MAX as u64).map(|i| plan.push(Some(0), i * 10, 1)).sum();
        assert_eq!(pushed, JOB_SLICE_ACCESSES_MAX as u64);
    }
}
