use proptest::prelude::*;

use super::super::srvsvc::{
    self, GetInfo, ServerResult, ShareEnum, ShareGetInfo, ShareList, ShareResult,
};
use super::super::wkssvc::{self, WorkstationResult};
use super::super::{STYPE_DISKTREE, STYPE_IPC, STYPE_SPECIAL, ShareInfo};
use super::*;

// The requests were written by an independent client, whose padding is not 0, and the answers
// were decoded by it.
const BIND: &str = "
    05000b0310000000a000000001000000 b810b81000000000 03000000
    00000100c84f324b7016d30112785a47bf6ee18803000000 045d888aeb1cc9119fe808002b10486002000000
    01000100c84f324b7016d30112785a47bf6ee18803000000 33057171babe37498319b5dbef9ccc3601000000
    02000100c84f324b7016d30112785a47bf6ee18803000000 2c1cb76c12984045030000000000000001000000";
const BIND_ACK: &str = "
    05000c03100000007400000001000000 b810b810f0530000 0d005c504950455c73727673766300 00 03000000
    00000000 045d888aeb1cc9119fe808002b10486002000000
    02000200 0000000000000000000000000000000000000000
    02000200 0000000000000000000000000000000000000000";
const SHARE_ENUM: &str = "
    05000003100000005c00000002000000 4400000000000f00
    662200000800000000000000080000005c005c00620072006100690064000000
    010000000100000062cd000000000000f2d8000000000000ffffffffb891000000000000";
const SHARE_ENUM_RESULT: &str = "
    0500020310000000b800000002000000 a000000000000000
    01000000010000000000020002000000040002000200000008000200000000000c00020010000200
    03000080140002000500000000000000050000006400610074006100000000000900000000000000
    0900000061006c006c00200064006100740061000000000005000000000000000500000049005000
    43002400000000000100000000000000010000000000000002000000180002000000000000000000";
const WORKSTATION_BIND: &str = "
    05000b03100000004800000001000000 b810b81000000000 01000000
    0000010098d0ff6b12a11036983346c3f87e345a01000000 045d888aeb1cc9119fe808002b10486002000000";
const WORKSTATION_GET_INFO: &str = "
    05000003100000003c00000002000000 2400000000000000
    d57e00000800000000000000080000005c005c0062007200610069006400000064000000";
const WORKSTATION_RESULT: &str = "
    05000203100000006800000002000000 5000000000000000
    6400000000000200f401000004000200080002000600000001000000060000000000000006000000
    420052004100490044000000060000000000000006000000470052004f0055005000000000000000";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn assert_bytes(found: &[u8], wanted: &str) {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(text(found), text(&hex(wanted)));
}

fn share(name: &str, kind: u32, remark: &str, path: &str) -> ShareInfo {
    let [name, remark, path] = [name, remark, path].map(str::to_owned);
    ShareInfo { name, kind, remark, path }
}

fn info() -> ServerInfo {
    ServerInfo {
        name: "BRAID".to_owned(),
        workgroup: "GROUP".to_owned(),
        comment: "files".to_owned(),
        shares: vec![
            share("data", STYPE_DISKTREE, "all data", "C:\\data"),
            share("IPC$", STYPE_IPC | STYPE_SPECIAL, "", ""),
        ],
    }
}

fn bound(kind: PipeKind, info: ServerInfo) -> Pipe {
    let mut pipe = Pipe::new(kind, info);
    let bind = if kind == PipeKind::Srvsvc { BIND } else { WORKSTATION_BIND };
    pipe.transact(&hex(bind), 4096).unwrap();
    pipe
}

fn request(operation: u16, stub: Vec<u8>) -> Packet {
    let body = Request { alloc_hint: 0, context: 0, operation, stub: stub.into() };
    Packet::whole(7, Body::Request(body))
}

fn read(pipe: &mut Pipe) -> Packet {
    let (bytes, more) = pipe.read(usize::MAX).expect("an answer");
    assert!(!more);
    Packet::decode(bytes).unwrap()
}

fn call(pipe: &mut Pipe, operation: u16, stub: Vec<u8>) -> Bytes {
    pipe.write(&request(operation, stub).encode()).unwrap();
    let mut results = Vec::new();
    loop {
        let packet = read(pipe);
        let Body::Response(response) = packet.body else { panic!("{packet:?}") };
        results.extend_from_slice(&response.stub);
        if packet.flags & FLAG_LAST != 0 {
            return results.into();
        }
    }
}

fn fault(pipe: &mut Pipe, bytes: &[u8]) -> u32 {
    pipe.write(bytes).unwrap();
    match read(pipe).body {
        Body::Fault(fault) => fault.status,
        body => panic!("{body:?}"),
    }
}

fn listing(level: u32) -> ShareEnum {
    ShareEnum { server: None, level, preferred_length: u32::MAX, resume: None }
}

#[test]
fn a_bind_accepts_ndr_and_refuses_ndr64_and_features() {
    let mut pipe = Pipe::new(PipeKind::Srvsvc, info());
    let (ack, more) = pipe.transact(&hex(BIND), 4096).unwrap();
    assert_bytes(&ack, BIND_ACK);
    assert!(!more);
    for golden in [BIND, BIND_ACK] {
        assert_bytes(&Packet::decode(hex(golden).into()).unwrap().encode(), golden);
    }
}

#[test]
fn a_list_of_shares_is_as_an_independent_client_decodes_it() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let (answer, _) = pipe.transact(&hex(SHARE_ENUM), 4096).unwrap();
    assert_bytes(&answer, SHARE_ENUM_RESULT);
    let Body::Response(response) = Packet::decode(answer).unwrap().body else { panic!() };
    let list = ShareList::decode(response.stub).unwrap();
    assert_eq!((list.total, list.resume, list.status), (2, Some(0), 0));
    let without_path = |share| ShareInfo { path: String::new(), ..share };
    let wanted: Vec<_> = info().shares.into_iter().map(without_path).collect();
    assert_eq!(list.shares, Some(wanted));
}

#[test]
fn a_workstation_is_as_an_independent_client_decodes_it() {
    let mut pipe = bound(PipeKind::Wkssvc, info());
    let (answer, _) = pipe.transact(&hex(WORKSTATION_GET_INFO), 4096).unwrap();
    assert_bytes(&answer, WORKSTATION_RESULT);
    let stub = GetInfo { server: None, level: 100 }.encode();
    let result = WorkstationResult::decode(call(&mut pipe, 0, stub)).unwrap();
    assert_eq!(result.workstation, Some(("BRAID".to_owned(), "GROUP".to_owned())));
    let stub = GetInfo { server: None, level: 102 }.encode();
    let result = WorkstationResult::decode(call(&mut pipe, 0, stub)).unwrap();
    assert_eq!((result.workstation, result.status), (None, 124));
    assert_eq!(wkssvc::WORKSTATION_GET_INFO, 0);
}

#[test]
fn levels_of_a_list_have_their_fields_and_others_are_refused() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    for operation in [srvsvc::SHARE_ENUM, srvsvc::SHARE_ENUM_STICKY] {
        let names = ShareList::decode(call(&mut pipe, operation, listing(0).encode())).unwrap();
        assert_eq!(names.shares.unwrap()[0], share("data", 0, "", ""));
        let full = ShareList::decode(call(&mut pipe, operation, listing(2).encode())).unwrap();
        assert_eq!(full.shares, Some(info().shares));
        let none = ShareList::decode(call(&mut pipe, operation, listing(502).encode())).unwrap();
        assert_eq!((none.shares, none.status), (None, 124));
    }
    let rest = ShareEnum { resume: Some(1), ..listing(2) };
    let rest = ShareList::decode(call(&mut pipe, srvsvc::SHARE_ENUM, rest.encode())).unwrap();
    assert_eq!(rest.shares.as_deref(), Some(&info().shares[1..]));
    assert_eq!((rest.total, rest.resume), (1, Some(0)));
}

#[test]
fn a_share_is_found_by_its_name_in_any_case() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let mut get = |name: &str, level| {
        let stub = ShareGetInfo { server: Some("x".to_owned()), name: name.to_owned(), level };
        ShareResult::decode(call(&mut pipe, srvsvc::SHARE_GET_INFO, stub.encode())).unwrap()
    };
    assert_eq!(get("DATA", 2).share, Some(info().shares[0].clone()));
    assert_eq!(get("data", 1).share, Some(share("data", 0, "all data", "")));
    assert_eq!(get("ipc$", 0).share, Some(share("IPC$", 0, "", "")));
    assert_eq!(get("data", 1005).share, Some(ShareInfo::default()));
    assert_eq!((get("data", 502).share, get("data", 502).status), (None, 124));
    assert_eq!((get("other", 1).share, get("other", 1).status), (None, 2310));
}

#[test]
fn a_server_describes_itself() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let mut get = |level| {
        let stub = GetInfo { server: None, level }.encode();
        ServerResult::decode(call(&mut pipe, srvsvc::SERVER_GET_INFO, stub)).unwrap()
    };
    assert_eq!(get(101).server, Some(("BRAID".to_owned(), "files".to_owned())));
    assert_eq!(get(100).server, Some(("BRAID".to_owned(), String::new())));
    assert_eq!((get(102).server, get(102).status), (None, 124));
}

#[test]
fn calls_that_cannot_be_executed_fault() {
    let listing = || listing(1).encode();
    let mut new = Pipe::new(PipeKind::Srvsvc, info());
    assert_eq!(fault(&mut new, &request(15, listing()).encode()), 0x1c01_000b);
    let mut pipe = bound(PipeKind::Srvsvc, info());
    assert_eq!(fault(&mut pipe, &request(99, listing()).encode()), 0x1c01_0002);
    assert_eq!(fault(&mut pipe, &request(15, vec![1, 2, 3]).encode()), 1783);
    let mut other = request(15, listing());
    let Body::Request(body) = &mut other.body else { panic!() };
    body.context = 1;
    assert_eq!(fault(&mut pipe, &other.encode()), 0x1c01_0003, "refused by the bind");
    call(&mut pipe, 15, listing());
}

#[test]
fn long_results_come_in_fragments_that_may_be_read_in_parts() {
    let shares = (0..500).map(|n| share(&format!("share{n}"), 0, "of many", "C:\\")).collect();
    let info = ServerInfo { shares, ..info() };
    let mut pipe = bound(PipeKind::Srvsvc, info.clone());
    let request = request(15, listing(2).encode()).encode();
    let (begin, more) = pipe.transact(&request, 100).unwrap();
    assert!(more && begin.len() == 100);
    assert_eq!(pipe.transact(&request, 100), Err(PipeError::Busy));
    let (end, more) = pipe.read(usize::MAX).unwrap();
    // 4280 is the limit of the client's bind.
    assert!(!more && end.len() == 4280 - 100, "{}", end.len());
    let first = Packet::decode([begin, end].concat().into()).unwrap();
    assert_eq!(first.flags, FLAG_FIRST);
    let Body::Response(Response { stub, alloc_hint, .. }) = first.body else { panic!() };
    let mut results = stub.to_vec();
    while let Some((bytes, false)) = pipe.read(usize::MAX) {
        let packet = Packet::decode(bytes).unwrap();
        let Body::Response(response) = packet.body else { panic!() };
        results.extend_from_slice(&response.stub);
        assert_eq!(packet.flags == FLAG_LAST, results.len() == alloc_hint as usize);
    }
    assert_eq!(ShareList::decode(results.into()).unwrap().shares, Some(info.shares));
    assert_eq!(pipe.unread, 0);
}

#[test]
fn a_call_may_come_in_fragments_and_bytes() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let stub = listing(2).encode();
    let mut bytes = Vec::new();
    for (part, flags) in stub.chunks(8).zip([FLAG_FIRST, 0, 0, FLAG_LAST]) {
        bytes.extend(Packet { flags, ..request(15, part.to_vec()) }.encode());
    }
    let (last, before) = bytes.split_last().unwrap();
    for byte in before {
        assert_eq!(pipe.transact(&[*byte], 9), Err(PipeError::NoAnswer));
    }
    assert!(pipe.transact(&[*last], 4096).is_ok());
}

#[test]
fn written_bytes_are_bounded() {
    let first = Packet { flags: FLAG_FIRST, ..request(15, vec![0; 32 << 10]) }.encode();
    let middle = Packet { flags: 0, ..request(15, vec![0; 32 << 10]) }.encode();
    let mut pipe = bound(PipeKind::Srvsvc, info());
    assert_eq!(pipe.write(&first), Ok(()));
    assert_eq!(pipe.write(&middle), Ok(()));
    assert_eq!(pipe.write(&middle), Err(PipeError::TooLong));
    assert_eq!(pipe.write(&middle), Err(PipeError::Disconnected));
    let mut pipe = bound(PipeKind::Srvsvc, info());
    assert_eq!(pipe.write(&vec![5; MAX_WRITTEN + 1]), Err(PipeError::TooLong));
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let call = request(15, listing(2).encode()).encode();
    let calls = (0..1000).take_while(|_| pipe.write(&call).is_ok()).count();
    assert!(calls < 1000 && pipe.unread < MAX_UNREAD + 1024, "{calls}");
    assert_eq!(pipe.write(&call), Err(PipeError::Busy));
    while pipe.read(4096).is_some() {}
    assert_eq!(pipe.write(&call), Ok(()));
}

#[test]
fn binds_with_security_and_second_binds_are_refused() {
    let mut pipe = Pipe::new(PipeKind::Srvsvc, info());
    let mut secure = hex(BIND);
    secure.extend([10, 2, 0, 0, 1, 0, 0, 0, b'N', b'T', b'L', b'M']);
    let length = u8::try_from(secure.len()).unwrap();
    (secure[8], secure[10]) = (length, 4);
    pipe.write(&secure).unwrap();
    assert_eq!(read(&mut pipe).body, Body::BindNak(8));
    let mut pipe = bound(PipeKind::Srvsvc, info());
    pipe.write(&hex(BIND)).unwrap();
    assert_eq!(read(&mut pipe).body, Body::BindNak(0));
}

#[test]
fn a_context_can_be_added_to_a_bound_pipe_up_to_a_limit() {
    let mut pipe = bound(PipeKind::Srvsvc, info());
    let context = |id| Context { id, interface: srvsvc::SYNTAX, transfer: vec![NDR] };
    let mut alter = |ids: std::ops::Range<u16>| {
        let contexts = ids.map(context).collect();
        let bind = Bind { max_transmit: 4280, max_receive: 4280, group: 1, contexts };
        pipe.write(&Packet::whole(3, Body::AlterContext(bind)).encode()).unwrap();
        let Body::AlterContextResponse(ack) = read(&mut pipe).body else { panic!() };
        assert_eq!((ack.address.as_str(), ack.group), ("", 1));
        ack.results.into_iter().map(|result| (result.result, result.reason)).collect::<Vec<_>>()
    };
    assert_eq!(alter(1..2), [(0, 0)]);
    assert_eq!(alter(1..17).last(), Some(&(2, 3)), "the first context is of the bind");
    let mut other = Pipe::new(PipeKind::Wkssvc, info());
    other.write(&hex(BIND)).unwrap();
    let Body::BindAck(ack) = read(&mut other).body else { panic!() };
    assert!(ack.results.iter().all(|result| (result.result, result.reason) == (2, 1)));
}

#[test]
fn pipes_have_names_in_any_case() {
    for name in ["srvsvc", "SrvSvc", "\\srvsvc", "\\PIPE\\srvsvc", "pipe\\SRVSVC"] {
        assert_eq!(PipeKind::by_name(name), Some(PipeKind::Srvsvc), "{name}");
    }
    assert_eq!(PipeKind::by_name("wkssvc"), Some(PipeKind::Wkssvc));
    for name in ["", "\\", "lsarpc", "\\\\srvsvc", "srvsvc\\", "\\PIPE\\"] {
        assert_eq!(PipeKind::by_name(name), None, "{name}");
    }
}

#[test]
fn packets_that_end_early_are_refused() {
    for golden in [BIND, BIND_ACK, SHARE_ENUM, SHARE_ENUM_RESULT] {
        let whole = hex(golden);
        for length in 0..whole.len() {
            let mut part = whole[..length].to_vec();
            assert!(Packet::decode(part.clone().into()).is_err(), "{length}");
            if length >= 16 {
                part[8..10].copy_from_slice(&u16::try_from(length).unwrap().to_le_bytes());
                let refused = Packet::decode(part.into()).is_err();
                assert_eq!(refused, length < 24 || golden == BIND || golden == BIND_ACK);
            }
        }
    }
}

#[test]
fn arguments_and_results_that_end_early_are_refused() {
    let request = hex(SHARE_ENUM).split_off(24);
    let result = hex(SHARE_ENUM_RESULT).split_off(24);
    let workstation = hex(WORKSTATION_RESULT).split_off(24);
    for length in 0..request.len() {
        assert!(ShareEnum::decode(Bytes::copy_from_slice(&request[..length])).is_err());
    }
    for length in 0..result.len() {
        assert!(ShareList::decode(Bytes::copy_from_slice(&result[..length])).is_err());
    }
    for length in 0..workstation.len() {
        let part = Bytes::copy_from_slice(&workstation[..length]);
        assert!(WorkstationResult::decode(part).is_err());
    }
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z$ äß\u{1f600}]{0,20}"
}

proptest! {
    #[test]
    fn lists_are_decoded_as_they_were_encoded(
        texts in proptest::collection::vec((text(), text(), text(), any::<u32>()), 0..20),
        server in proptest::option::of(text()),
        resume in proptest::option::of(any::<u32>()),
        status in any::<u32>(),
    ) {
        let shares = texts.iter();
        let shares = shares.map(|(name, remark, path, kind)| share(name, *kind, remark, path));
        let shares = shares.collect();
        let total = status;
        let list = ShareList { level: 2, shares: Some(shares), total, resume, status };
        prop_assert_eq!(ShareList::decode(list.encode().into()), Ok(list));
        let request = ShareEnum { server, level: status, preferred_length: total, resume };
        prop_assert_eq!(ShareEnum::decode(request.encode().into()), Ok(request));
    }

    #[test]
    fn no_bytes_cause_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        operation in proptest::sample::select(vec![0_u16, 15, 16, 21, 36]),
        kind in 0_u8..20,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..9),
    ) {
        for pipe_kind in [PipeKind::Srvsvc, PipeKind::Wkssvc] {
            let mut pipe = bound(pipe_kind, info());
            let _ = pipe.write(&request(operation, bytes.clone()).encode());
            let mut packet = request(operation, bytes.clone()).encode();
            packet[2] = kind;
            let _ = pipe.write(&packet);
            let mut changed = [hex(SHARE_ENUM), hex(BIND)].concat();
            for (at, byte) in &changes {
                *at.get_mut(&mut changed) = *byte;
            }
            let _ = pipe.write(&changed);
            let mut read = 0;
            while let Some((part, _)) = pipe.read(100) {
                read += part.len();
            }
            prop_assert!(read < MAX_UNREAD + 1024);
            prop_assert_eq!(pipe.unread, 0);
            let _ = Pipe::new(pipe_kind, info()).write(&bytes);
        }
        let bytes = Bytes::from(bytes);
        let _ = (ShareList::decode(bytes.clone()), ShareResult::decode(bytes.clone()));
        let _ = (ServerResult::decode(bytes.clone()), WorkstationResult::decode(bytes));
    }
}
