//! Bytes that are no messages, and messages that end too early.

use crate::bodies;
use crate::captured;
use braid_smb_wire::smb2::create::{CreateContext, context};
use braid_smb_wire::smb2::negotiate::NegotiateRequest;
use braid_smb_wire::smb2::{Body, Command, HEADER_BYTES, lock};
use braid_smb_wire::{frame, smb1};
use bytes::Bytes;
use proptest::prelude::*;

#[test]
fn a_message_cut_at_any_byte_has_the_same_meaning_or_none() {
    for (header, message) in captured::messages() {
        let decode = bodies::of(&header);
        let whole = decode(message.clone()).unwrap();
        for length in 0..message.len() {
            // Padding, and the one byte of an empty buffer, may be missing.
            if let Ok(bytes) = decode(message.slice(..length)) {
                assert_eq!(bytes, whole, "{header:?} {length}");
                assert!(length + 8 > HEADER_BYTES + whole.len(), "{header:?} {length}");
            }
        }
    }
}

#[test]
fn counts_over_what_is_left_are_refused_before_memory_is_taken() {
    let mut request = [vec![0; HEADER_BYTES], NegotiateRequest::default().to_bytes()].concat();
    request[66..68].copy_from_slice(&u16::MAX.to_le_bytes());
    assert!(bodies::decode::<NegotiateRequest>(request.into()).is_err());
    let file_id = crate::golden::FILE_ID;
    let locks = lock::LockRequest { sequence: 0, file_id, locks: Vec::new() };
    let mut request = bodies::message(&locks).to_vec();
    request[66] = 1;
    assert!(bodies::decode::<lock::LockRequest>(request.into()).is_err());
}

/// A list of contexts without data, whose `Next` is given.
fn contexts(count: usize, next: u32) -> Bytes {
    let mut one = next.to_le_bytes().to_vec();
    one.extend([16, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    one.extend(b"MxAc\0\0\0\0");
    let mut list = one.repeat(count);
    let last = list.len() - one.len();
    list[last..last + 4].fill(0);
    list.into()
}

#[test]
fn lists_of_create_contexts_advance_and_end() {
    let decode = |count, next| context::decode_list(contexts(count, next));
    let wanted = CreateContext::new(context::MAXIMAL_ACCESS, Bytes::new());
    assert_eq!(decode(2, 24).unwrap(), [wanted.clone(), wanted]);
    assert_eq!(decode(context::MAX_CREATE_CONTEXTS, 24).unwrap().len(), 64);
    assert!(decode(context::MAX_CREATE_CONTEXTS + 1, 24).is_err());
    for next in [4, 8, 20, 48, u32::MAX] {
        assert!(decode(2, next).is_err(), "{next}");
    }
    // A name or data that reach into the next context.
    for (at, value) in [(4, 21), (6, 9), (12, 25)] {
        let mut list = contexts(2, 24).to_vec();
        list[at] = value;
        assert!(context::decode_list(list.into()).is_err(), "{at}");
    }
}

/// Reads bytes as everything.
fn read_all(bytes: &Bytes) {
    let _ = smb1::smb1_dialects(bytes);
    let _ = frame::FrameKind::of(bytes);
    for message in frame::messages(bytes.clone()).unwrap_or_default() {
        for command in Command::ALL {
            let _ = bodies::of_request(command)(message.clone());
            let _ = bodies::of_response(command)(message.clone());
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes.into());
    }

    #[test]
    fn no_changed_frame_causes_a_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = which.get(&captured::frames()).to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        read_all(&bytes.into());
    }
}
