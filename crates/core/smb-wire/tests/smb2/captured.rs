//! Frames of other programs: `frames.txt`.

use crate::bodies;
use braid_smb_wire::frame::{self, FrameKind};
use braid_smb_wire::smb2::create::{CreateRequest, Lease, LeaseState, context};
use braid_smb_wire::smb2::negotiate::{Cipher, NegotiateContext, NegotiateRequest};
use braid_smb_wire::smb2::{Command, Flags, HEADER_BYTES, Header, query_directory};
use braid_smb_wire::{Reader, smb1};
use bytes::Bytes;

/// A line `>` or `<` begins a frame, the lines behind it are its bytes.
pub fn frames() -> Vec<Bytes> {
    let text = include_str!("frames.txt");
    let lines: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let frames = lines.split(['<', '>']).skip(1).map(|hex| {
        let bytes = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    });
    frames.collect()
}

/// All messages of SMB 2 in the frames.
pub fn messages() -> Vec<(Header, Bytes)> {
    let frames = frames().into_iter().filter(|frame| FrameKind::of(frame) == Ok(FrameKind::Smb2));
    let messages = frames.flat_map(|frame| frame::messages(frame).unwrap());
    let with_header = messages.map(|message| {
        let header = Header::decode(&mut Reader::new(message.clone())).unwrap();
        (header, message)
    });
    with_header.collect()
}

fn request<T: braid_smb_wire::smb2::Body>(command: Command) -> impl Iterator<Item = T> {
    let is_request = move |header: &Header| {
        header.command == command as u16 && !header.flags.has(Flags::RESPONSE)
    };
    let messages = messages().into_iter().filter(move |(header, _)| is_request(header));
    messages.map(|(_, message)| bodies::decode(message).unwrap())
}

#[test]
fn what_is_decoded_is_encoded_to_the_same_bytes() {
    let (mut same, mut others) = (0, Vec::new());
    for (header, message) in messages() {
        let bytes = bodies::of(&header)(message.clone()).unwrap();
        // Some programs pad their messages.
        if message[HEADER_BYTES..].starts_with(&bytes) {
            same += 1;
        } else {
            others.push((header, message, bytes));
        }
    }
    assert!(same > 40, "{same}");
    for (header, message, bytes) in others {
        let body = &message[HEADER_BYTES..];
        let ignored = differs_in_ignored_fields(&header, body, &bytes);
        assert!(ignored, "{header:?}\n{body:02x?}\n{bytes:02x?}");
    }
}

/// Whether both bodies have the same length, and differ only in the offset of an empty buffer, in
/// READ's Padding, in the output of an IOCTL request, which is empty, or in the byte of an ERROR.
fn differs_in_ignored_fields(header: &Header, body: &[u8], bytes: &[u8]) -> bool {
    let ignored = match Command::from_number(header.command) {
        Some(Command::Ioctl) => 24..44,
        Some(Command::Read) => 2..3,
        Some(Command::QueryInfo) => 8..10,
        // smbtorture gives an empty context the offset of its end.
        Some(Command::Create) => 0..body.len(),
        // smbd fills the one byte of an empty ERROR.
        _ => 2..9,
    };
    let differ = (0..bytes.len()).filter(|at| body.get(*at) != Some(&bytes[*at]));
    differ.clone().all(|at| ignored.contains(&at)) && differ.count() <= 2
}

#[test]
fn smbclient_offers_all_dialects_and_ciphers() {
    let negotiate: NegotiateRequest = request(Command::Negotiate).next().unwrap();
    assert_eq!(negotiate.dialects, [0x0202, 0x0210, 0x0300, 0x0302, 0x0311]);
    let ciphers = negotiate.contexts.iter().find_map(|context| match context {
        NegotiateContext::Encryption(ciphers) => Some(ciphers.clone()),
        _ => None,
    });
    assert!(ciphers.unwrap().contains(&Cipher::AES_256_GCM));
}

#[test]
fn smbclient_lists_with_a_pattern_and_creates_by_name() {
    let pattern = request::<query_directory::QueryDirectoryRequest>(Command::QueryDirectory);
    assert_eq!(pattern.map(|request| request.pattern).next().unwrap(), "*");
    let names: Vec<_> =
        request::<CreateRequest>(Command::Create).map(|create| create.name).collect();
    assert!(names.contains(&"a.txt".to_owned()), "{names:?}");
}

#[test]
fn smbtorture_asks_for_leases() {
    let leases: Vec<_> = request::<CreateRequest>(Command::Create)
        .filter_map(|create| {
            let data = context::CreateContext::find(&create.contexts, context::LEASE)?.clone();
            Some(Lease::decode(&data).unwrap())
        })
        .collect();
    assert!(leases.iter().any(|lease| lease.state.has(LeaseState::READ)), "{leases:?}");
}

#[test]
fn smbclient_offers_smb_2_in_an_smb_1_negotiate() {
    let frames = frames();
    let negotiate = frames.iter().find(|frame| FrameKind::of(frame) == Ok(FrameKind::Smb1));
    let dialects = smb1::smb1_dialects(negotiate.unwrap()).unwrap();
    let wanted = [&b"NT LANMAN 1.0"[..], b"NT LM 0.12", smb1::SMB_2_002, smb1::SMB_2_WILDCARD];
    assert_eq!(dialects, wanted);
}
