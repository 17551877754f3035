//! Bodies of I/O daemon calls, encoded from borrowed parts. The structs of
//! `braid_wire::message::iod` own their request and capability; a read of 4 KiB should copy
//! neither.

use braid_layout::Request;
use braid_types::{ByteCount, FileOffset, SessionId, Timestamp};
use braid_wire::{
    Call, Wire,
    message::{
        collective::{CollectiveKind, StridedRequests},
        iod::{
            Allocate, BeginCollective, CopyRange, Flush, JoinRead, JoinWrite, ObjectSizes, Read,
            ReservationAccount, Seek, SeekWhat, Write, WriteWithReservation,
        },
    },
};

use super::reservation::ReservationRequest;

/// The call, without the capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body<'a> {
    Read(&'a Request),
    Write(&'a Request),
    WriteWithReservation(&'a Request, ReservationRequest, Option<Timestamp>),
    Flush,
    ObjectSizes,
    Allocate { offset: FileOffset, bytes: ByteCount, keep_size: bool },
    Seek { offset: FileOffset, what: SeekWhat },
    CopyRange { source: &'a [u8], from: FileOffset, to: FileOffset, bytes: ByteCount },
    BeginCollective(&'a CollectiveSpec),
    Join(JoinSpec),
}

/// A collective request, sent by the leader task for all tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CollectiveSpec {
    pub(crate) collective: [u8; 16],
    pub(crate) kind: CollectiveKind,
    pub(crate) tasks: Vec<StridedRequests>,
    pub(crate) sessions: Vec<(SessionId, u32)>,
}

/// One task's part in a collective request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JoinSpec {
    pub(crate) writes: bool,
    pub(crate) collective: [u8; 16],
    pub(crate) rank: u32,
    pub(crate) skip: ByteCount,
    pub(crate) bytes: ByteCount,
    pub(crate) wait_ms: u32,
}

impl Body<'_> {
    pub(crate) fn op(&self) -> u16 {
        match self {
            Self::Read(_) => Read::OP,
            Self::Write(_) => Write::OP,
            Self::WriteWithReservation(..) => WriteWithReservation::OP,
            Self::Flush => Flush::OP,
            Self::ObjectSizes => ObjectSizes::OP,
            Self::Allocate { .. } => Allocate::OP,
            Self::Seek { .. } => Seek::OP,
            Self::CopyRange { .. } => CopyRange::OP,
            Self::BeginCollective(_) => BeginCollective::OP,
            Self::Join(JoinSpec { writes: true, .. }) => JoinWrite::OP,
            Self::Join(_) => JoinRead::OP,
        }
    }

    /// Whether the call changes objects, or makes changes durable. If an abandoned write were
    /// executed late, it could overwrite a later write, or extend the file beyond the size recorded
    /// after a flush.
    pub(crate) fn changes_objects(&self) -> bool {
        let writes = matches!(
            self,
            Self::Write(_) | Self::WriteWithReservation(..) | Self::CopyRange { .. }
        );
        writes
            || matches!(
                self,
                Self::Allocate { .. } | Self::Flush | Self::Join(JoinSpec { writes: true, .. })
            )
    }

    /// Whether other tasks wait for the call, so that it must not wait for them.
    pub(crate) fn is_collective(&self) -> bool {
        matches!(self, Self::BeginCollective(_) | Self::Join(_))
    }

    /// How far the call may extend the file. For a write, the planner knows it. Space allocated
    /// past the end of the file counts as growth, since otherwise no quota would limit it.
    pub(crate) fn extends_to(&self) -> u64 {
        match self {
            Self::Allocate { offset, bytes, .. } => offset.0.saturating_add(bytes.0),
            Self::CopyRange { to, bytes, .. } => to.0.saturating_add(bytes.0),
            _ => 0,
        }
    }

    /// Whether the reply describes the state of the file.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self, Self::Read(_) | Self::ObjectSizes | Self::Seek { .. })
    }

    /// The encoded message. `present` is empty if the daemon knows the handle on this connection.
    pub(crate) fn encode(&self, handle: u32, present: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + present.len());
        handle.encode(&mut out);
        (present.len() as u32).encode(&mut out);
        out.extend_from_slice(present);
        match self {
            Self::Read(request) | Self::Write(request) => request.encode(&mut out),
            Self::WriteWithReservation(request, ask, modified) => {
                request.encode(&mut out);
                ReservationAccount { term: ask.term, released: ByteCount(ask.released) }
                    .encode(&mut out);
                ByteCount(ask.wanted).encode(&mut out);
                ByteCount(ask.uses).encode(&mut out);
                modified.encode(&mut out);
            }
            Self::Flush | Self::ObjectSizes => {}
            Self::Allocate { offset, bytes, keep_size } => {
                offset.encode(&mut out);
                bytes.encode(&mut out);
                keep_size.encode(&mut out);
            }
            Self::Seek { offset, what } => {
                offset.encode(&mut out);
                what.encode(&mut out);
            }
            Self::CopyRange { source, from, to, bytes } => {
                (source.len() as u32).encode(&mut out);
                out.extend_from_slice(source);
                from.encode(&mut out);
                to.encode(&mut out);
                bytes.encode(&mut out);
            }
            Self::BeginCollective(CollectiveSpec { collective, kind, tasks, sessions }) => {
                collective.encode(&mut out);
                kind.encode(&mut out);
                tasks.encode(&mut out);
                sessions.encode(&mut out);
            }
            Self::Join(JoinSpec { writes, collective, rank, skip, bytes, wait_ms }) => {
                collective.encode(&mut out);
                rank.encode(&mut out);
                skip.encode(&mut out);
                if !writes {
                    bytes.encode(&mut out);
                }
                wait_ms.encode(&mut out);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bodies_encode_like_the_messages() {
        let request = Request::contiguous(FileOffset(5), 7);
        let present = vec![1, 2, 3];
        let read = Read { handle: 9, present: present.clone(), request: request.clone() };
        assert_eq!(Body::Read(&request).encode(9, &present), read.to_bytes());
        let write = Write { handle: 9, present: Vec::new(), request: request.clone() };
        assert_eq!(Body::Write(&request).encode(9, &[]), write.to_bytes());
        let ask = ReservationRequest {
            term: 1,
            released: 2,
            wanted: 3,
            uses: 4,
            sent: std::time::Duration::ZERO,
        };
        let with_reservation = WriteWithReservation {
            handle: 9,
            present: Vec::new(),
            request: request.clone(),
            account: ReservationAccount { term: 1, released: ByteCount(2) },
            wanted: ByteCount(3),
            reserved_bytes: ByteCount(4),
            modified: Some(Timestamp { seconds: 5, nanos: 6 }),
        };
        let asked = Body::WriteWithReservation(&request, ask, with_reservation.modified);
        assert_eq!(asked.encode(9, &[]), with_reservation.to_bytes());
        assert_eq!(
            Body::Flush.encode(1, &present),
            Flush { handle: 1, present: present.clone() }.to_bytes()
        );
        let sizes = ObjectSizes { handle: 1, present: present.clone() };
        assert_eq!(Body::ObjectSizes.encode(1, &present), sizes.to_bytes());
        let (offset, bytes) = (FileOffset(3), ByteCount(4));
        let allocate =
            Allocate { handle: 1, present: present.clone(), offset, bytes, keep_size: true };
        assert_eq!(
            Body::Allocate { offset, bytes, keep_size: true }.encode(1, &present),
            allocate.to_bytes()
        );
        let seek = Seek { handle: 1, present: present.clone(), offset, what: SeekWhat::Hole };
        assert_eq!(
            Body::Seek { offset, what: SeekWhat::Hole }.encode(1, &present),
            seek.to_bytes()
        );
        let (source, to) = (vec![7, 8], FileOffset(9));
        let copy = CopyRange {
            handle: 1,
            present: present.clone(),
            source: source.clone(),
            from: offset,
            to,
            bytes,
        };
        assert_eq!(
            Body::CopyRange { source: &source, from: offset, to, bytes }.encode(1, &present),
            copy.to_bytes()
        );
    }
}
