//! What a task sends to all others before a collective call.

use braid_layout::Request;
use braid_types::FileIndex;
use braid_wire::{Decoder, Wire, WireError};

use super::{
    CollectiveMode, CollectiveOptions, Overlap,
    outcome::{Outcome, other_step},
};
use crate::error::Result;

/// The first bytes of each message, so that a message of another version is not misread.
const VERSION: u32 = 0x4252_4302;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskRequest {
    /// The reason why the task cannot take part; otherwise the length of its pieces.
    pub(super) readiness: Outcome,
    /// The identifier of the collective request, if this task is its leader.
    pub(super) id: [u8; 16],
    pub(super) file: FileIndex,
    pub(super) session: u64,
    pub(super) is_write: bool,
    /// Whether its connections are unencrypted.
    pub(super) is_plain: bool,
    pub(super) options: CollectiveOptions,
    pub(super) request: Request,
}

impl TaskRequest {
    /// The average length of its pieces, in bytes.
    pub(super) fn pieces(&self) -> u64 {
        self.readiness.bytes()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        VERSION.encode(&mut out);
        self.readiness.encode(&mut out);
        self.id.encode(&mut out);
        self.file.encode(&mut out);
        self.session.encode(&mut out);
        self.is_write.encode(&mut out);
        self.is_plain.encode(&mut out);
        (self.options.mode as u8).encode(&mut out);
        (self.options.overlap as u8).encode(&mut out);
        self.request.encode(&mut out);
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Decoder::new(bytes);
        let decoded =
            Self::decode(&mut from).and_then(|announced| from.finish().map(|()| announced));
        decoded.map_err(|error| other_step("its part of a collective call", error))
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, WireError> {
        if u32::decode(from)? != VERSION {
            return Err(WireError::Unknown);
        }
        Ok(Self {
            readiness: Outcome::decode(from)?,
            id: Wire::decode(from)?,
            file: Wire::decode(from)?,
            session: Wire::decode(from)?,
            is_write: Wire::decode(from)?,
            is_plain: Wire::decode(from)?,
            options: CollectiveOptions {
                mode: mode(u8::decode(from)?)?,
                overlap: overlap(u8::decode(from)?)?,
            },
            request: Wire::decode(from)?,
        })
    }
}

fn mode(code: u8) -> Result<CollectiveMode, WireError> {
    use CollectiveMode as M;
    [M::Auto, M::Server, M::Independent]
        .into_iter()
        .find(|mode| *mode as u8 == code)
        .ok_or(WireError::Unknown)
}

fn overlap(code: u8) -> Result<Overlap, WireError> {
    use Overlap as O;
    [O::HighestRank, O::Refuse]
        .into_iter()
        .find(|overlap| *overlap as u8 == code)
        .ok_or(WireError::Unknown)
}

#[cfg(test)]
mod tests {
    use braid_layout::View;

    use super::*;

    #[test]
    fn an_announcement_survives_its_way_and_does_not_grow_with_the_blocks() {
        let of = |blocks: u64| TaskRequest {
            readiness: Outcome::done(4096),
            id: [7; 16],
            file: FileIndex(9),
            session: 3,
            is_write: true,
            is_plain: false,
            options: CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::Refuse },
            request: Request {
                view: View::strided(0, 4096, 16384),
                start: 0,
                bytes: 4096 * blocks,
            },
        };
        assert_eq!(TaskRequest::from_bytes(&of(5).to_bytes()).unwrap(), of(5));
        assert_eq!(of(1).to_bytes().len(), of(1 << 30).to_bytes().len());
        let mut other = of(1).to_bytes();
        other[0] ^= 1;
        assert!(TaskRequest::from_bytes(&other).is_err(), "of another version");
    }
}
