//! Any bytes written to a named pipe: an error or answers, never a panic, and bounded memory.
#![no_main]

use arbitrary::Arbitrary;
use braid_smb_wire::rpc::ndr::NdrReader;
use braid_smb_wire::rpc::pdu::{Bind, Body, Context, NDR, Packet, Request};
use braid_smb_wire::rpc::srvsvc::{self, ServerResult, ShareEnum, ShareList, ShareResult};
use braid_smb_wire::rpc::wkssvc::{self, WorkstationResult};
use braid_smb_wire::rpc::{Pipe, PipeKind, ServerInfo, ShareInfo};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// What a client writes: any bytes, or a call of a form that gets further.
#[derive(Arbitrary, Debug)]
enum Written {
    Bytes(Vec<u8>),
    Bind { context: u8, max_receive: u16, alter: bool },
    Request { flags: u8, context: u8, operation: u8, stub: Vec<u8> },
    List { level: u16, resume: Option<u32> },
}

impl Written {
    fn bytes(self, interface: braid_smb_wire::rpc::pdu::Syntax) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Bind { context, max_receive, alter } => {
                let context =
                    Context { id: u16::from(context % 32), interface, transfer: vec![NDR] };
                let contexts = vec![context];
                let bind = Bind { max_transmit: 5840, max_receive, group: 0, contexts };
                let body = if alter { Body::AlterContext(bind) } else { Body::Bind(bind) };
                Packet::whole(1, body).encode()
            }
            Self::Request { flags, context, operation, stub } => {
                let packet = request(context, operation, stub);
                Packet { flags: flags % 4, ..packet }.encode()
            }
            Self::List { level, resume } => {
                let (level, preferred_length) = (u32::from(level % 600), u32::MAX);
                let list = ShareEnum { server: None, level, preferred_length, resume };
                request(0, 15, list.encode()).encode()
            }
        }
    }
}

fn request(context: u8, operation: u8, stub: Vec<u8>) -> Packet {
    let (context, operation) = (u16::from(context % 32), u16::from(operation % 40));
    let body = Request { alloc_hint: 0, context, operation, stub: stub.into() };
    Packet::whole(1, Body::Request(body))
}

fn info() -> ServerInfo {
    let text = || "text".to_owned();
    let share = ShareInfo { name: text(), kind: 0, remark: text(), path: text() };
    ServerInfo { name: text(), workgroup: text(), comment: text(), shares: vec![share; 3] }
}

/// What a client decodes.
fn check_client(bytes: Bytes) {
    if let Ok(packet) = Packet::decode(bytes.clone()) {
        let _ = Packet::decode(packet.encode().into()).expect("an encoded packet");
    }
    let _ = NdrReader::new(bytes.clone()).optional_string();
    if let Ok(list) = ShareList::decode(bytes.clone()) {
        assert_eq!(ShareList::decode(list.encode().into()), Ok(list));
    }
    let _ = ShareResult::decode(bytes.clone());
    let _ = ServerResult::decode(bytes.clone());
    let _ = WorkstationResult::decode(bytes);
}

fuzz_target!(|input: (bool, u16, Vec<Written>)| {
    let (workstation, max, written) = input;
    let (kind, interface) = match workstation {
        true => (PipeKind::Wkssvc, wkssvc::SYNTAX),
        false => (PipeKind::Srvsvc, srvsvc::SYNTAX),
    };
    let mut pipe = Pipe::new(kind, info());
    for written in written {
        let bytes = written.bytes(interface);
        check_client(Bytes::copy_from_slice(&bytes));
        let _ = pipe.write(&bytes);
        if max % 2 == 0 {
            let _ = pipe.transact(&bytes, usize::from(max));
        }
    }
    let mut unread = 0;
    while let Some((part, more)) = pipe.read(usize::from(max) + 1) {
        unread += part.len();
        assert!(!more || part.len() == usize::from(max) + 1);
    }
    assert!(unread < 68 << 10, "{unread} bytes were not read");
});
