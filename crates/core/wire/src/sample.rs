//! Random valid values of every message, for the codec's tests: golden vectors and round trips.

use braid_layout::{
    ChecksumKind, Component, Distribution, Extent, Layout, PartPlacement, Pattern, Redundancy,
    Request, Strip, View,
};
use braid_types::{
    ByteCount, ClusterUuid, ConnectionId, FileIndex, FileOffset, IodId, KeyId, LayoutVersion,
    MapEpoch, MdsEpoch, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SessionId, ShardId,
    SizeGeneration, Status, Timestamp, WriteVerifier,
};

use crate::{Deny, Rights, handshake::Credential};

/// A small random generator (SplitMix64), so that golden vectors depend only on this file.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) trait Sample: Sized {
    fn sample(rng: &mut Rng) -> Self;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Sample for $int {
            fn sample(rng: &mut Rng) -> Self {
                rng.next() as $int
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i64);

macro_rules! newtypes {
    ($($name:ident),*) => {$(
        impl Sample for $name {
            fn sample(rng: &mut Rng) -> Self {
                Self(Sample::sample(rng))
            }
        }
    )*};
}
newtypes!(
    FileIndex,
    FileOffset,
    ObjectOffset,
    ByteCount,
    SessionId,
    MdsEpoch,
    MapEpoch,
    KeyId,
    SizeGeneration,
    WriteVerifier,
    IodId,
    ObjectGeneration,
    LayoutVersion,
    PartIndex,
    ShardId,
    ClusterUuid,
    ConnectionId
);

macro_rules! structs {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Sample for $name {
            fn sample(rng: &mut Rng) -> Self { Self { $($field: Sample::sample(rng)),* } }
        }
    )*};
}
structs! {
    ObjectId { file, part, generation }
    Layout { version, components, redundancy, checksum }
    Component { start, end, distribution, first_part, parts }
    PartPlacement { generation, iods }
    Strip { part, bytes }
    Extent { offset, bytes }
    View { displacement, extent, pattern }
    Request { view, start, bytes }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(rng: &mut Rng) -> Self {
        std::array::from_fn(|_| rng.next() as u8)
    }
}

impl Sample for bool {
    fn sample(rng: &mut Rng) -> Self {
        rng.below(2) == 1
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(rng: &mut Rng) -> Self {
        (0..rng.below(3)).map(|_| T::sample(rng)).collect()
    }
}

impl Sample for String {
    fn sample(rng: &mut Rng) -> Self {
        ["", "node3:7001", "rack=b", "schlüssel"][rng.below(4) as usize].into()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(rng: &mut Rng) -> Self {
        (rng.below(2) == 1).then(|| T::sample(rng))
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(rng: &mut Rng) -> Self {
        (A::sample(rng), B::sample(rng))
    }
}

impl Sample for () {
    fn sample(_: &mut Rng) -> Self {}
}

impl Sample for Timestamp {
    fn sample(rng: &mut Rng) -> Self {
        Self { seconds: rng.next() as i64, nanos: rng.below(1_000_000_000) as u32 }
    }
}

impl Sample for Status {
    fn sample(rng: &mut Rng) -> Self {
        Status::ALL[rng.below(Status::ALL.len() as u64) as usize]
    }
}

impl Sample for Rights {
    fn sample(rng: &mut Rng) -> Self {
        Self(1 + rng.below(3) as u8)
    }
}

impl Sample for Deny {
    fn sample(rng: &mut Rng) -> Self {
        Self(rng.below(8) as u8)
    }
}

impl Sample for Redundancy {
    fn sample(_: &mut Rng) -> Self {
        Self::None
    }
}

impl Sample for ChecksumKind {
    fn sample(_: &mut Rng) -> Self {
        Self::None
    }
}

impl Sample for Distribution {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::SimpleStripe { stripe_size: rng.next() },
            1 => Self::Single,
            2 => Self::VarStrip { strips: Sample::sample(rng) },
            _ => Self::Grouped {
                stripe_size: rng.next(),
                group_width: rng.next() as u16,
                group_depth: rng.next() as u32,
            },
        }
    }
}

impl Sample for Pattern {
    fn sample(rng: &mut Rng) -> Self {
        pattern(rng, 4)
    }
}

fn pattern(rng: &mut Rng, depth_left: u32) -> Pattern {
    match rng.below(if depth_left == 0 { 2 } else { 4 }) {
        0 => Pattern::Bytes(rng.next()),
        1 => Pattern::Extents(Sample::sample(rng)),
        2 => Pattern::Vector {
            count: rng.next(),
            stride: rng.next(),
            child: Box::new(pattern(rng, depth_left - 1)),
        },
        _ => Pattern::Struct(
            (0..rng.below(3)).map(|_| (rng.next(), pattern(rng, depth_left - 1))).collect(),
        ),
    }
}

impl Sample for Credential {
    fn sample(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::Server,
            1 => Self::Client(Sample::sample(rng)),
            2 => Self::Ticket(Sample::sample(rng)),
            _ => {
                let (session, key) = (Sample::sample(rng), Sample::sample(rng));
                Self::Session {
                    session,
                    key,
                    user: Sample::sample(rng),
                    epoch: Sample::sample(rng),
                }
            }
        }
    }
}
