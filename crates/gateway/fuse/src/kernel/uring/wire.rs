//! The layout of the memory that a ring entry shares with the kernel, as in Linux's
//! `include/uapi/linux/fuse.h` (7.42 and newer). No I/O.
//!
//! ```text
//!   header, 288 bytes:  0   fuse_in_header (40), and fuse_out_header (16) of the answer
//!                     128   the fixed arguments of the request
//!                     256   u64 flags | u64 commit id | u32 payload bytes | u32 | u64
//!   payload:            0   names, data and extensions of the request; all of the answer
//! ```

use crate::kernel::ParseError;
use crate::kernel::abi::{IN_HEADER_BYTES, OUT_HEADER_BYTES};

/// `fuse_uring_req_header`.
pub(super) const HEADER_BYTES: usize = 288;
const FIXED_AT: usize = 128;
const FIXED_BYTES_MAX: usize = 128;
const COMMIT_ID_AT: usize = 264;
const PAYLOAD_BYTES_AT: usize = 272;

/// Registers memory for a queue and waits for a request in it.
pub(super) const REGISTER: u32 = 1;
/// Replies to the request in an entry's memory and waits for the next one there.
pub(super) const COMMIT_AND_FETCH: u32 = 2;
/// The space for a command after its submission entry (`IORING_SETUP_SQE128`).
pub(super) const COMMAND_BYTES: usize = 80;

/// `fuse_uring_cmd_req`, for a queue; a registration has no commit id.
pub(super) fn command(queue: u16, commit_id: u64) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// A request in an entry's header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrived<'h> {
    pub(super) header: &'h [u8],
    pub(super) fixed: &'h [u8],
    pub(super) commit_id: u64,
    pub(super) payload_bytes: usize,
}

/// Parses the header; the payload has at most `payload_bytes_max` bytes.
pub(super) fn arrived(
    bytes: &[u8; HEADER_BYTES],
    payload_bytes_max: usize,
) -> Result<Arrived<'_>, ParseError> {
    let u32_at = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    let commit_id =
        u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| bytes[COMMIT_ID_AT + byte]));
    let (said, have) = (u32_at(0), u32_at(PAYLOAD_BYTES_AT) as usize);
    let wrong = ParseError::Length { said, have: have + IN_HEADER_BYTES };
    let fixed = (said as usize).checked_sub(IN_HEADER_BYTES + have);
    match fixed {
        Some(fixed) if fixed <= FIXED_BYTES_MAX && have <= payload_bytes_max => Ok(Arrived {
            header: &bytes[..IN_HEADER_BYTES],
            fixed: &bytes[FIXED_AT..FIXED_AT + fixed],
            commit_id,
            payload_bytes: have,
        }),
        _ => Err(wrong),
    }
}

/// Overwrites the request's header with the reply's: the kernel reads `fuse_out_header` and the
/// payload's length.
pub(super) fn put_answer(
    bytes: &mut [u8; HEADER_BYTES],
    header: &[u8; OUT_HEADER_BYTES],
    payload_bytes: u32,
) {
    bytes[..OUT_HEADER_BYTES].copy_from_slice(header);
    bytes[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&payload_bytes.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::abi::opcode;
    use crate::kernel::{Operation, ProtocolOptions, Request};

    /// A request in an entry's header, with `fixed` arguments and `payload_bytes` of payload.
    fn request(code: u32, fixed: &[u8], payload_bytes: usize) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let len = IN_HEADER_BYTES + fixed.len() + payload_bytes;
        bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        bytes[8..16].copy_from_slice(&6u64.to_ne_bytes());
        bytes[FIXED_AT..FIXED_AT + fixed.len()].copy_from_slice(fixed);
        bytes[COMMIT_ID_AT..COMMIT_ID_AT + 8].copy_from_slice(&6u64.to_ne_bytes());
        bytes[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4]
            .copy_from_slice(&(payload_bytes as u32).to_ne_bytes());
        bytes
    }

    #[test]
    fn a_name_is_in_the_payload_and_numbers_are_in_the_header() {
        let look_up = request(opcode::LOOKUP, &[], 5);
        let Arrived { header, fixed, commit_id, payload_bytes } = arrived(&look_up, 4096).unwrap();
        assert_eq!((fixed.len(), commit_id, payload_bytes), (0, 6, 5));
        let parsed =
            Request::parse_pieces([header, fixed, b"name\0"], ProtocolOptions::default()).unwrap();
        assert_eq!(parsed.operation, Operation::Lookup { name: b"name" });

        let mut numbers = [0; 8];
        numbers[..4].copy_from_slice(&0o100_644u32.to_ne_bytes());
        let make = request(opcode::MKDIR, &numbers, 2);
        let Arrived { header, fixed, .. } = arrived(&make, 4096).unwrap();
        let parsed =
            Request::parse_pieces([header, fixed, b"d\0"], ProtocolOptions::default()).unwrap();
        assert_eq!(
            parsed.operation,
            Operation::MakeDirectory { name: b"d", mode: 0o100_644, umask: 0 }
        );
    }

    #[test]
    fn the_bytes_of_a_write_are_not_copied() {
        let mut fixed = [0; 40];
        fixed[16..20].copy_from_slice(&3u32.to_ne_bytes());
        let write = request(opcode::WRITE, &fixed, 3);
        let Arrived { header, fixed, .. } = arrived(&write, 4096).unwrap();
        let payload = *b"abc";
        let parsed =
            Request::parse_pieces([header, fixed, &payload], ProtocolOptions::default()).unwrap();
        let Operation::Write { data, .. } = parsed.operation else { panic!("{parsed:?}") };
        assert_eq!(data.as_ptr(), payload.as_ptr());
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        assert!(arrived(&request(opcode::WRITE, &[0; 40], 4096), 4096).is_ok());
        assert!(
            arrived(&request(opcode::WRITE, &[0; 40], 4097), 4096).is_err(),
            "more than the memory has"
        );
        let mut short = request(opcode::LOOKUP, &[], 5);
        short[..4].copy_from_slice(&44u32.to_ne_bytes());
        assert!(arrived(&short, 4096).is_err(), "less in total than payload and header");
        let mut long = request(opcode::LOOKUP, &[], 5);
        long[..4].copy_from_slice(&(40 + 129 + 5u32).to_ne_bytes());
        assert!(arrived(&long, 4096).is_err(), "more arguments than fit");
    }

    #[test]
    fn a_command_names_its_queue_and_its_request() {
        let bytes = command(0x1234, 0x0102_0304_0506_0708);
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[8..16], 0x0102_0304_0506_0708u64.to_ne_bytes());
        assert_eq!(bytes[16..18], 0x1234u16.to_ne_bytes());
        assert_eq!(bytes[18..], [0; 62]);
    }

    #[test]
    fn a_reply_overwrites_the_header_and_keeps_the_commit_id() {
        let mut bytes = request(opcode::READ, &[0; 40], 0);
        put_answer(&mut bytes, &[9; OUT_HEADER_BYTES], 77);
        assert_eq!(bytes[..OUT_HEADER_BYTES], [9; OUT_HEADER_BYTES]);
        assert_eq!(bytes[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4], 77u32.to_ne_bytes());
        assert_eq!(bytes[COMMIT_ID_AT..COMMIT_ID_AT + 8], 6u64.to_ne_bytes());
    }
}
