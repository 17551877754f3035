//! What a session's opens of a file deny, counted by mode.

use super::RecordError;
use crate::codec::{Decoder, Encoder};
use crate::lease::modes::{Deny, ModeCounts, OpenMode};
use crate::opens::Access;

const VERSION: u8 = 1;

pub(crate) fn encode_modes(modes: &ModeCounts) -> Vec<u8> {
    let mut out = Encoder::new(VERSION);
    for (mode, count) in modes.iter() {
        let access = u8::from(mode.access.read) | u8::from(mode.access.write) << 1;
        out.u8(access).u8(mode.deny.bits()).u32(count);
    }
    out.finish()
}

pub(crate) fn decode_modes(bytes: &[u8]) -> Result<ModeCounts, RecordError> {
    let mut from = Decoder::new("open modes", VERSION, bytes)?;
    let mut modes = ModeCounts::default();
    while !from.is_empty() {
        let access = match from.u8()? {
            1 => Access::READ,
            2 => Access::WRITE,
            3 => Access::BOTH,
            _ => return Err(from.broken()),
        };
        let deny = Deny::from_bits(from.u8()?)
            .filter(|deny| !deny.is_none())
            .ok_or_else(|| from.broken())?;
        let (mode, count) = (OpenMode { access, deny }, from.u32()?);
        // Each mode occurs once, with a count above 0.
        if count == 0 || modes.of(mode) != 0 {
            return Err(from.broken());
        }
        modes.set(mode, count);
    }
    if modes.is_empty() { Err(from.broken()) } else { Ok(modes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_back_and_invalid_ones_are_refused() {
        let mut modes = ModeCounts::default();
        let mode = OpenMode { access: Access::READ, deny: Deny { write: true, ..Deny::NONE } };
        modes.set(mode, 7);
        modes.set(
            OpenMode { access: Access::BOTH, deny: Deny { read: true, write: true, delete: true } },
            1,
        );
        let bytes = encode_modes(&modes);
        assert_eq!(decode_modes(&bytes), Ok(modes));
        // `docs/format-meta.md` promises these bytes.
        assert_eq!(bytes, [1, 1, 2, 7, 0, 0, 0, 3, 7, 1, 0, 0, 0]);
        for (at, bad) in [(0, 2), (1, 0), (1, 4), (2, 0), (2, 8), (3, 0)] {
            let mut bytes = bytes.clone();
            bytes[at] = bad;
            assert!(decode_modes(&bytes).is_err(), "byte {at} is {bad}");
        }
        assert!(decode_modes(&bytes[..9]).is_err() && decode_modes(&[1]).is_err());
    }
}
