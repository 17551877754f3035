//! Ids, offsets, byte counts, limits and status codes that all parts of BraidFS share.
//!
//! This crate does no I/O and depends on no other crate of the project. Conversions between a
//! [`FileOffset`] and an [`ObjectOffset`] are in `braid-layout` only.
#![forbid(unsafe_code)]

pub mod dos_attributes;
mod fold;
mod id;
mod id_hash;
pub mod limits;
pub mod nfs4_acl;
mod offset;
mod poison;
mod random;
mod range_map;
mod status;
mod time;

pub use fold::fold;
pub use id::{
    ClusterUuid, ConnectionId, FileIndex, IodId, KeyId, LayoutVersion, MapEpoch, MdsEpoch,
    ObjectGeneration, ObjectId, PartIndex, SessionId, ShardId, SizeGeneration, WriteVerifier,
};
pub use id_hash::{IdHashBuilder, IdHasher};
pub use offset::{ByteCount, FileOffset, ObjectOffset};
pub use poison::{EndProcessOnPanic, poisoned};
pub use random::Random;
pub use range_map::RangeMap;
pub use status::{Failure, Status};
pub use time::Timestamp;
