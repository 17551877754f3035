//! Ids, offsets, byte counts, limits and status codes: the words that every part of BraidFS shares.
//!
//! Nothing here does I/O and nothing here knows another crate. Conversions between a
//! [`FileOffset`] and an [`ObjectOffset`] live in `braid-layout` alone.
#![forbid(unsafe_code)]

mod id;
mod id_hash;
pub mod limits;
mod offset;
mod poison;
mod random;
mod range_map;
mod status;
mod time;

pub use id::{
    ClusterUuid, ConnectionId, FileIndex, IodId, KeyId, LayoutVersion, MapEpoch, MdsEpoch,
    ObjectGeneration, ObjectId, PartIndex, SessionId, ShardId, SizeGeneration, WriteVerifier,
};
pub use id_hash::{IdHasher, IdState};
pub use offset::{ByteCount, FileOffset, ObjectOffset};
pub use poison::poisoned;
pub use random::Random;
pub use range_map::RangeMap;
pub use status::{Failure, Status};
pub use time::Timestamp;
