//! What a namespace operation came to, kept so that a retry is answered and not done twice (I7).

use std::ops::Range;
use std::sync::Arc;

use braid_types::FileIndex;

use super::{Inode, RecordError};
use crate::codec::{Decoder, Encoder};

/// 1 had no digest of the request.
const VERSION: u8 = 2;

/// The result of an operation that changed something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done, with nothing to tell.
    Done,
    /// The file found or changed, as the operation left it.
    File(Arc<Inode>),
    /// The file made.
    Created(Arc<Inode>),
}

/// The last operation of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The slot's sequence of the operation.
    pub sequence: u64,
    /// Which operation: a retry must be the same one.
    pub op: u8,
    /// [`crate::Replay::request`] of it; `None` in a record of version 1.
    pub request: Option<u64>,
    /// What it came to.
    pub outcome: Outcome,
}

impl Recorded {
    /// `encoded`: where the record of the outcome's inode was written before.
    pub(crate) fn write(&self, out: &mut Encoder, encoded: Option<Range<usize>>) {
        match self.request {
            Some(request) => out.u8(VERSION).u64(self.sequence).u8(self.op).u64(request),
            None => out.u8(1).u64(self.sequence).u8(self.op),
        };
        let inode = match &self.outcome {
            Outcome::Done => None,
            Outcome::File(inode) => Some((1, inode)),
            Outcome::Created(inode) => Some((2, inode)),
        };
        let Some((tag, inode)) = inode else {
            out.u8(0);
            return;
        };
        out.u8(tag).u64(inode.file.0);
        match encoded {
            Some(bytes) => out.again(bytes),
            None => inode.write(out),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let old = bytes.first() == Some(&1);
        let mut from = Decoder::new("replay", if old { 1 } else { VERSION }, bytes)?;
        let (sequence, op) = (from.u64()?, from.u8()?);
        let request = if old { None } else { Some(from.u64()?) };
        let tag = from.u8()?;
        let outcome = match tag {
            0 => Outcome::Done,
            1 | 2 => {
                let file = FileIndex(from.u64()?);
                let inode = Arc::new(Inode::decode(file, from.tail())?);
                if tag == 1 { Outcome::File(inode) } else { Outcome::Created(inode) }
            }
            _ => return Err(from.broken()),
        };
        from.finish()?;
        Ok(Self { sequence, op, request, outcome })
    }
}

impl Outcome {
    /// Whether this very inode is what the operation tells.
    pub(crate) fn tells(&self, inode: &Arc<Inode>) -> bool {
        matches!(self, Self::File(told) | Self::Created(told) if Arc::ptr_eq(told, inode))
    }

    /// The file of an operation that tells one.
    pub(crate) fn inode(self) -> Option<Arc<Inode>> {
        match self {
            Self::Done => None,
            Self::File(inode) | Self::Created(inode) => Some(inode),
        }
    }
}
