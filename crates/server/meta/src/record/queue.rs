//! Work that survives a crash: objects to delete, truncates to finish.

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::{FileIndex, SizeGeneration};

use super::{Inode, Parts, RecordError, layout};
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// The objects of a file that has neither a name nor an open left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deletion {
    /// The file.
    pub file: FileIndex,
    /// Where its objects are.
    pub layout: Arc<Layout>,
    /// Parts known to exist; others may exist if `parts_certain` is false.
    pub parts: Parts,
    /// Whether `parts` is complete: the file had neither the size mark (I5) nor an intent when it
    /// was removed.
    pub parts_certain: bool,
}

impl Deletion {
    /// What remains to be deleted of a file; `None` if it never had objects. `intent`: whether it
    /// has an intent, for which daemons may have created objects.
    pub(crate) fn of(inode: &Inode, intent: bool) -> Option<Self> {
        let layout = inode.layout.clone()?;
        let parts_certain = !inode.size_in_objects && !intent;
        if inode.parts.is_empty() && parts_certain {
            return None;
        }
        Some(Self { file: inode.file, layout, parts: inode.parts.clone(), parts_certain })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.u8(u8::from(self.parts_certain))
            .u16(self.parts.as_bytes().len() as u16)
            .raw(self.parts.as_bytes());
        layout::encode(&mut out, &self.layout);
        out.finish()
    }

    pub(crate) fn decode(file: FileIndex, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("deletion", VERSION, bytes)?;
        let parts_certain = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(from.broken()),
        };
        let count = usize::from(from.u16()?);
        let parts = Parts::from_bytes(from.raw(count)?);
        let layout = Arc::new(layout::decode(&mut from)?);
        from.finish()?;
        Ok(Self { file, layout, parts, parts_certain })
    }
}

/// What an intent does to the objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntentKind {
    /// The file gets this length, in bytes.
    Truncate {
        /// The new size.
        size: u64,
    },
    /// These bytes become zeros; the size stays.
    Punch {
        /// The first byte.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}

/// A truncate or punch that has begun: the I/O daemons get the new generation, then it is finished
/// (I5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Intent {
    /// The file.
    pub file: FileIndex,
    /// What is done.
    pub kind: IntentKind,
    /// The new generation.
    pub generation: SizeGeneration,
}

impl Intent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        match self.kind {
            IntentKind::Truncate { size } => out.u8(1).u64(self.generation.0).u64(size),
            IntentKind::Punch { offset, bytes } => {
                out.u8(2).u64(self.generation.0).u64(offset).u64(bytes)
            }
        };
        out.finish()
    }

    pub(crate) fn decode(file: FileIndex, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("intent", VERSION, bytes)?;
        let tag = from.u8()?;
        let generation = SizeGeneration(from.u64()?);
        let kind = match tag {
            1 => IntentKind::Truncate { size: from.u64()? },
            2 => IntentKind::Punch { offset: from.u64()?, bytes: from.u64()? },
            _ => return Err(from.broken()),
        };
        from.finish()?;
        Ok(Self { file, kind, generation })
    }
}
