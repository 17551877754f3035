//! Replay records: the result of a namespace operation, stored so that a retry gets it and nothing
//! runs twice (I7).

use std::ops::Range;
use std::sync::Arc;

use braid_types::FileIndex;

use super::{Inode, RecordError};
use crate::codec::{Decoder, Encoder};

/// Version 1 had no digest of the request.
const VERSION: u8 = 2;

/// The result of an operation that changed something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Done, with nothing to return.
    Done,
    /// The file found or changed, as the operation left it.
    File(Arc<Inode>),
    /// The file created.
    Created(Arc<Inode>),
}

/// The last operation of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayRecord {
    /// The slot's sequence of the operation.
    pub sequence: u64,
    /// The operation: a retry must be the same one.
    pub op: u8,
    /// [`crate::Replay::request`] of it; `None` in a record of version 1.
    pub request: Option<u64>,
    /// Its result.
    pub outcome: Outcome,
}

impl ReplayRecord {
    /// `encoded`: where the record of the result's inode was written already.
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
            Some(bytes) => out.repeat(bytes),
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
    /// Whether the operation returns this very inode.
    pub(crate) fn returns(&self, inode: &Arc<Inode>) -> bool {
        matches!(self, Self::File(own) | Self::Created(own) if Arc::ptr_eq(own, inode))
    }

    /// The file that the operation returns, if it returns one.
    pub(crate) fn inode(self) -> Option<Arc<Inode>> {
        match self {
            Self::Done => None,
            Self::File(inode) | Self::Created(inode) => Some(inode),
        }
    }
}
