//! Replay records: the result of a namespace operation, stored so that a retry gets it and nothing
//! runs twice (I7).

use std::ops::Range;
use std::sync::Arc;

use braid_types::FileIndex;

use super::{Inode, RecordError};
use crate::codec::{Decoder, Encoder};

/// Version 1 had no digest of the request, version 2 no changes of directories.
const VERSION: u8 = 3;
/// A rename changes two directories.
const DIRECTORIES_MAX: u8 = 2;

/// The change counter of a directory before and after an operation, read in the transaction of the
/// operation: nothing else changed the directory between the two. They are equal if the operation
/// did not change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryChange {
    /// The counter before.
    pub before: u64,
    /// The counter after.
    pub after: u64,
}

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
    /// The changes of the directories that it names, in the order in which it names them; none in a
    /// record of version 1 or 2.
    pub directories: Vec<DirectoryChange>,
}

impl ReplayRecord {
    /// `encoded`: where the record of the result's inode was written already.
    pub(crate) fn write(&self, out: &mut Encoder, encoded: Option<Range<usize>>) {
        match self.request {
            Some(request) => out.u8(VERSION).u64(self.sequence).u8(self.op).u64(request),
            None => out.u8(1).u64(self.sequence).u8(self.op),
        };
        if self.request.is_some() {
            out.u8(self.directories.len() as u8);
            for change in &self.directories {
                out.u64(change.before).u64(change.after);
            }
        }
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
        let version = bytes.first().copied().filter(|version| (1..VERSION).contains(version));
        let version = version.unwrap_or(VERSION);
        let mut from = Decoder::new("replay", version, bytes)?;
        let (sequence, op) = (from.u64()?, from.u8()?);
        let request = if version == 1 { None } else { Some(from.u64()?) };
        let count = if version < 3 { 0 } else { from.u8()? };
        if count > DIRECTORIES_MAX {
            return Err(from.broken());
        }
        let mut directories = Vec::with_capacity(count.into());
        for _ in 0..count {
            directories.push(DirectoryChange { before: from.u64()?, after: from.u64()? });
        }
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
        Ok(Self { sequence, op, request, outcome, directories })
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
