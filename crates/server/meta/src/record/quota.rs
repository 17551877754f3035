//! Usage of an owner in one shard, and an owner's limits.

use braid_types::{FileIndex, Timestamp};

use super::RecordError;
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// The owner that inodes are counted for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuotaOwner {
    /// A user, by its POSIX id.
    User(u64),
    /// A group, by its POSIX id.
    Group(u64),
    /// A directory that has, or had, a quota for everything below it.
    Directory(FileIndex),
}

impl QuotaOwner {
    /// Kind and number, as in keys. The kinds are part of the format.
    pub(crate) fn parts(self) -> (u8, u64) {
        match self {
            Self::User(id) => (1, id),
            Self::Group(id) => (2, id),
            Self::Directory(directory) => (3, directory.0),
        }
    }

    pub(crate) fn from_parts(kind: u8, number: u64) -> Option<Self> {
        match kind {
            1 => Some(Self::User(number)),
            2 => Some(Self::Group(number)),
            3 => Some(Self::Directory(FileIndex(number))),
            _ => None,
        }
    }
}

/// An owner's usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Sizes of its files; wide enough for any number of the largest.
    pub bytes: u128,
    /// Its inodes.
    pub inodes: u64,
}

impl Usage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.raw(&self.bytes.to_le_bytes()).u64(self.inodes);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("usage", VERSION, bytes)?;
        let sum = from.raw(16)?.try_into().map_err(|_| from.broken())?;
        let usage = Self { bytes: u128::from_le_bytes(sum), inodes: from.u64()? };
        from.finish()?;
        Ok(usage)
    }
}

/// The limits of one measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaLimit {
    /// Never exceeded.
    pub hard: Option<u64>,
    /// Exceeded for at most the grace time.
    pub soft: Option<u64>,
    /// Since when the recorded usage is above the soft limit.
    pub over_since: Option<Timestamp>,
}

/// An owner's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Of bytes.
    pub bytes: QuotaLimit,
    /// Of inodes.
    pub inodes: QuotaLimit,
    /// How long usage may be above a soft limit.
    pub grace_seconds: u64,
    /// Whether everything below the directory is counted already; true for users and groups.
    pub complete: bool,
}

impl Quota {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.u8(u8::from(self.complete)).u64(self.grace_seconds);
        for bound in [&self.bytes, &self.inodes] {
            let mark = |is: bool, mark: u8| if is { mark } else { 0 };
            out.u8(mark(bound.hard.is_some(), 1)
                | mark(bound.soft.is_some(), 2)
                | mark(bound.over_since.is_some(), 4));
            out.u64(bound.hard.unwrap_or(0))
                .u64(bound.soft.unwrap_or(0))
                .time(bound.over_since.unwrap_or_default());
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("quota", VERSION, bytes)?;
        let complete = from.u8()?;
        if complete > 1 {
            return Err(from.broken());
        }
        let grace_seconds = from.u64()?;
        let quota = Self {
            bytes: bound(&mut from)?,
            inodes: bound(&mut from)?,
            grace_seconds,
            complete: complete == 1,
        };
        from.finish()?;
        Ok(quota)
    }
}

fn bound(from: &mut Decoder<'_>) -> Result<QuotaLimit, RecordError> {
    let marks = from.u8()?;
    if marks > 7 {
        return Err(from.broken());
    }
    let (hard, soft, since) = (from.u64()?, from.u64()?, from.time()?);
    let option = |mark: u8, value: u64| (marks & mark != 0).then_some(value);
    Ok(QuotaLimit {
        hard: option(1, hard),
        soft: option(2, soft),
        over_since: (marks & 4 != 0).then_some(since),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/format-meta.md` promises these bytes.
    #[test]
    fn records_are_the_documented_bytes() {
        let usage = Usage { bytes: 0x0102, inodes: 3 };
        let mut bytes = vec![1, 2, 1];
        bytes.extend([0; 14]);
        bytes.extend([3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(usage.encode(), bytes);
        assert_eq!(Usage::decode(&bytes), Ok(usage));

        let over_since = Some(Timestamp { seconds: 9, nanos: 8 });
        let inodes = QuotaLimit { hard: Some(5), soft: Some(4), over_since };
        let quota =
            Quota { bytes: QuotaLimit::default(), inodes, grace_seconds: 7, complete: true };
        let mut bytes = vec![1, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0; 29]);
        bytes.extend([
            7, 5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0,
        ]);
        assert_eq!(quota.encode(), bytes);
        assert_eq!(Quota::decode(&bytes), Ok(quota));
        bytes[39] = 8;
        assert!(Quota::decode(&bytes).is_err(), "a mark that is not understood (I10)");
    }
}
