//! The position of a task in its own request.

use braid_layout::{Access, Unfold, Unfolded};
use braid_types::{FileOffset, ObjectOffset};

use super::chunk::ChunkPlan;
use crate::verified_capability::VerifiedCapability;

/// The accesses that the task has not had yet.
#[derive(Debug)]
pub(super) struct Cursor {
    unfold: Unfold,
    access: Option<Access>,
    /// The file offset where the request ends.
    end: u64,
    is_over: bool,
    /// Extent of the chunk that was found last.
    hint: usize,
}

/// The task's next bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextPiece {
    /// Bytes of the chunk: position in its memory, and length.
    Piece(usize, u64),
    /// The next byte is in a later chunk.
    Past,
    /// There is no further byte.
    Over,
    /// The steps were used up first.
    Paused,
}

impl Cursor {
    pub(super) fn new(unfold: Unfold, end: u64) -> Self {
        Self { unfold: unfold.by_file(), access: None, end, is_over: false, hint: 0 }
    }

    /// The next piece of the chunk, of at most `bytes_max` bytes; [`Cursor::take`] it.
    pub(super) fn peek(
        &mut self,
        plan: &ChunkPlan,
        capability: &VerifiedCapability,
        bytes_max: u64,
        steps: &mut usize,
    ) -> NextPiece {
        let access = match self.look(steps) {
            Ok(Some(access)) => access,
            Ok(None) => return NextPiece::Over,
            Err(Paused) => return NextPiece::Paused,
        };
        let left = plan.end.saturating_sub(access.file_offset.0);
        let Some(slot) = capability.local_index(access.part).filter(|_| left > 0) else {
            return NextPiece::Past;
        };
        let at = plan.locate(slot as u16, &access, &mut self.hint);
        NextPiece::Piece(at, access.bytes.min(left).min(bytes_max))
    }

    /// Whether there is no further byte; `None` when the steps were used up first.
    pub(super) fn is_over(&mut self, steps: &mut usize) -> Option<bool> {
        self.look(steps).ok().map(|access| access.is_none())
    }

    /// The bytes are transferred.
    pub(super) fn take(&mut self, bytes: u64) {
        let Some(access) = &mut self.access else { return };
        access.object_offset = ObjectOffset(access.object_offset.0 + bytes);
        access.file_offset = FileOffset(access.file_offset.0 + bytes);
        access.bytes -= bytes;
        if access.bytes == 0 {
            self.access = None;
        }
    }

    fn look(&mut self, steps: &mut usize) -> Result<Option<Access>, Paused> {
        if self.access.is_none() && !self.is_over {
            match self.unfold.next_within(steps) {
                Unfolded::Paused => return Err(Paused),
                Unfolded::End => self.is_over = true,
                Unfolded::Access(access) => self.access = Some(access),
            }
        }
        if let Some(access) = &mut self.access {
            access.bytes = access.bytes.min(self.end.saturating_sub(access.file_offset.0));
            if access.bytes == 0 {
                (self.access, self.is_over) = (None, true);
            }
        }
        Ok(self.access)
    }
}

struct Paused;
