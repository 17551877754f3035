//! Refused calls (I4, I5, I10).

use braid_iod::{CAPABILITY_MEMORY_BYTES_MAX, MemorySink};
use braid_types::{
    ByteCount, FileIndex, FileOffset, KeyId, MdsEpoch, SessionId, SizeGeneration, Status,
};
use braid_wire::{
    Call, Capability, Credential, Rights, Role, Secret, decode_outcome,
    message::{
        DaemonStatus, Ping,
        collective::CollectiveKind,
        iod::{
            Allocate, BeginCollective, CopyRange, Delete, DiskSpace, Fence, Flush, FlushAll,
            JoinRead, JoinWrite, MeasureDisk, ObjectLength, ObjectSizes, Read, Release,
            ReservationAccount, ReturnReservation, Seek, SeekWhat, Truncate, Write,
            WriteWithReservation,
        },
    },
};

use super::harness::*;

fn read_refusal(client: &mut Client<'_>, present: Vec<u8>) -> Status {
    refusal(client.call(&Read { handle: 1, present, request: contiguous(0, 1) }))
}

#[test]
fn a_forged_capability_is_refused() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let capability = capability(striped([1]));
    let own_key = capability.sign(&Secret::from_bytes([8; 32]));
    assert_eq!(read_refusal(&mut client, own_key), Status::BadCapability);
    let good = capability.sign(&server_key());
    for at in 0..good.len() {
        let mut bent = good.clone();
        bent[at] ^= 1;
        assert_eq!(read_refusal(&mut client, bent), Status::BadCapability, "byte {at}");
    }
    assert!(client.read(&capability, contiguous(0, 1)).is_ok());
}

#[test]
fn a_refused_capability_leaves_no_handle() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    assert_eq!(read_refusal(&mut client, vec![1; 100]), Status::BadCapability);
    assert_eq!(read_refusal(&mut client, Vec::new()), Status::UnknownHandle);
    assert_eq!(client.state.handles(), 0);
}

#[test]
fn a_capability_for_another_file_gives_nothing_of_this_one() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability(striped([1])), contiguous(0, 6), b"secret").unwrap();
    let mut other = capability(striped([1]));
    other.file = FileIndex(78);
    assert_eq!(
        client.read(&other, contiguous(0, 6)).unwrap().payload,
        b"",
        "the other file is empty"
    );
}

#[test]
fn a_capability_of_another_session_is_refused() {
    let core = daemon(1);
    let mut thief = Client::of_session(&core, SessionId(6));
    assert_eq!(
        refusal(thief.read(&capability(striped([1])), contiguous(0, 1))),
        Status::BadCapability
    );
}

#[test]
fn a_capability_whose_parts_are_elsewhere_is_refused() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    assert_eq!(
        refusal(client.read(&capability(striped([2, 3])), contiguous(0, 1))),
        Status::BadCapability
    );
}

#[test]
fn rights_are_kept_apart() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let mut capability = capability(striped([1]));
    capability.rights = Rights::READ;
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::BadCapability);
    let (handle, present) = client.present(&capability);
    assert_eq!(refusal(client.call(&Flush { handle, present })), Status::BadCapability);
    capability.rights = Rights::WRITE;
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1))), Status::BadCapability);
    client.write(&capability, contiguous(0, 1), b"x").unwrap();
}

#[test]
fn an_old_epoch_is_refused() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let mut capability = capability(striped([1]));
    client.write(&capability, contiguous(0, 1), b"x").unwrap();
    let epoch_min = MdsEpoch(EPOCH.0 + 1);
    Client::mds(&core).call(&Fence { sessions: Vec::new(), fence: 1, epoch_min }).unwrap();
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1))), Status::StaleEpoch);
    capability.epoch = epoch_min;
    assert!(client.read(&capability, contiguous(0, 1)).is_ok());
}

#[test]
fn an_old_size_generation_is_refused_for_reading_and_writing() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let mut capability = capability(striped([1]));
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    let objects = vec![ObjectLength { object: object(0), bytes: braid_types::ByteCount(1) }];
    let signed = capability.sign(&server_key());
    let truncate = Truncate {
        objects,
        size_generation: SizeGeneration(2),
        capability: signed,
        make_absent: false,
    };
    Client::mds(&core).call(&truncate).unwrap();
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1))), Status::StaleGeneration);
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::StaleGeneration);
    capability.size_generation = SizeGeneration(2);
    assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"a");
}

#[test]
fn a_fenced_client_that_goes_on_writing_changes_nothing() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    Client::mds(&core)
        .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
        .unwrap();
    assert_eq!(refusal(client.write(&capability, contiguous(0, 3), b"xyz")), Status::Fenced);
    let mut other = capability.clone();
    other.session = SessionId(6);
    let read = Client::of_session(&core, SessionId(6)).read(&other, contiguous(0, 3)).unwrap();
    assert_eq!(read.payload, b"abc");
}

#[test]
fn a_fenced_session_may_not_even_write_nothing() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 0), b"").unwrap();
    Client::mds(&core)
        .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
        .unwrap();
    assert_eq!(refusal(client.write(&capability, contiguous(0, 0), b"")), Status::Fenced);
}

/// Every call of a client, as an attacker would make them who kept everything that a session ever
/// had.
fn every_call_of_a_client(capability: &Capability) -> Vec<(u16, Vec<u8>, &'static [u8])> {
    let (handle, present, request) = (1, capability.sign(&server_key()), contiguous(0, 1));
    let again = || (present.clone(), request.clone());
    let account = ReservationAccount { term: 0, released: ByteCount(0) };
    let (offset, bytes) = (FileOffset(0), ByteCount(1));
    let collective = [1; 16];
    fn call<C: Call>(call: C) -> (u16, Vec<u8>) {
        (C::OP, call.to_bytes())
    }
    let write = |(present, request)| call(Write { handle, present, request });
    let with_reservation = |(present, request)| {
        call(WriteWithReservation {
            handle,
            present,
            request,
            account: account.clone(),
            wanted: bytes,
            reserved_bytes: ByteCount(0),
            modified: None,
        })
    };
    let join_write = {
        let (present, skip) = (present.clone(), ByteCount(0));
        call(JoinWrite { handle, present, collective, rank: 0, skip, wait_ms: 1 })
    };
    let with_payload = [write(again()), with_reservation(again()), join_write];
    let plain = [
        call(Read { handle, present: present.clone(), request: request.clone() }),
        call(Flush { handle, present: present.clone() }),
        call(ObjectSizes { handle, present: present.clone() }),
        call(Allocate { handle, present: present.clone(), offset, bytes, keep_size: true }),
        call(Seek { handle, present: present.clone(), offset, what: SeekWhat::Data }),
        call(CopyRange {
            handle,
            present: present.clone(),
            source: present.clone(),
            from: offset,
            to: offset,
            bytes,
        }),
        call(BeginCollective {
            handle,
            present: present.clone(),
            collective,
            kind: CollectiveKind::Read,
            tasks: Vec::new(),
            sessions: vec![(capability.session, 1)],
        }),
        call(JoinRead {
            handle,
            present: present.clone(),
            collective,
            rank: 0,
            skip: ByteCount(0),
            bytes,
            wait_ms: 1,
        }),
        call(FlushAll {}),
        call(MeasureDisk { bytes: ByteCount(1 << 20), part_ms: 1, threads: 1 }),
    ];
    let with_payload = with_payload.into_iter().map(|(op, body)| (op, body, &b"x"[..]));
    with_payload.chain(plain.into_iter().map(|(op, body)| (op, body, &b""[..]))).collect()
}

#[test]
fn a_fenced_session_may_only_give_up_what_is_its_own() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    Client::mds(&core)
        .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
        .unwrap();
    for (op, body, payload) in every_call_of_a_client(&capability) {
        let mut out = MemorySink::default();
        core.handle(&mut client.state, NOW, op, &body, payload, &mut out).unwrap();
        let refused = decode_outcome::<()>(&out.body.unwrap()).expect("a refusal").unwrap_err();
        assert_eq!(refused.status, Status::Fenced, "message {op:#06x}");
    }
    client
        .call(&ReturnReservation {
            account: ReservationAccount { term: 0, released: ByteCount(0) },
        })
        .unwrap();
    client.call(&Release { handles: vec![1] }).unwrap();
}

#[test]
fn a_daemon_that_lost_the_metadata_server_serves_no_data() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 1), b"x").unwrap();
    client.now = NOW + SERVES_FOR;
    assert_eq!(refusal(client.read(&capability, contiguous(0, 1))), Status::NotServing);
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::NotServing);
    core.serve_until(Some(NOW + 2 * SERVES_FOR));
    assert_eq!(client.read(&capability, contiguous(0, 1)).unwrap().payload, b"x");
}

#[test]
fn only_the_metadata_server_manages_and_only_by_the_server_key() {
    let core = daemon(1);
    let session = Credential::Session { session: SESSION, key: KeyId(1), user: None, epoch: EPOCH };
    let impostors = [
        (Role::Client, session.clone()),
        (Role::Mds, Credential::Client(KeyId(1))),
        (Role::Mds, session),
        (Role::Admin, Credential::Server),
        (Role::Iod, Credential::Server),
    ];
    for (role, credential) in impostors {
        let mut client = Client::new(&core, role, credential);
        let delete = Delete { objects: vec![object(0)], durable: false };
        assert_eq!(refusal(client.call(&delete)), Status::WrongRole, "{role:?}");
        let fence = Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH };
        assert_eq!(refusal(client.call(&fence)), Status::WrongRole, "{role:?}");
    }
    let mut ticketless = Client::new(&core, Role::Client, Credential::Client(KeyId(1)));
    assert_eq!(
        refusal(ticketless.read(&capability(striped([1])), contiguous(0, 1))),
        Status::WrongRole
    );
    assert!(Client::new(&core, Role::Admin, Credential::Server).call(&DiskSpace {}).is_ok());
    assert!(Client::new(&core, Role::Admin, Credential::Server).call(&DaemonStatus {}).is_ok());
    assert_eq!(
        refusal(Client::of_session(&core, SESSION).call(&DaemonStatus {})),
        Status::WrongRole
    );
}

#[test]
fn what_is_not_understood_is_answered_and_not_acted_upon() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let mut raw = |op, body: &[u8], payload: &[u8]| {
        let mut out = MemorySink::default();
        core.handle(&mut client.state, NOW, op, body, payload, &mut out).unwrap();
        decode_outcome::<()>(&out.body.unwrap()).unwrap().err().map(|failure| failure.status)
    };
    assert_eq!(raw(0x02ff, b"", b""), Some(Status::UnknownMessage));
    assert_eq!(
        raw(0x0110, b"", b""),
        Some(Status::UnknownMessage),
        "a message of the metadata server"
    );
    assert_eq!(raw(Read::OP, b"\x01\x02", b""), Some(Status::Malformed));
    assert_eq!(
        raw(Ping::OP, b"", b"payload"),
        Some(Status::Malformed),
        "payload where none belongs"
    );
    assert_eq!(raw(Ping::OP, b"", b""), None);
    assert_eq!(core.counters().bytes_written.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_view_that_makes_no_sense_is_refused() {
    use braid_layout::{Pattern, Request, View};
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let capability = capability(striped([1]));
    let views = [
        View { displacement: 0, extent: 1, pattern: Pattern::Bytes(2) },
        View { displacement: u64::MAX, extent: 10, pattern: Pattern::Bytes(10) },
        View { displacement: 0, extent: 10, pattern: Pattern::Struct(Vec::new()) },
    ];
    for view in views {
        let request = Request { view, start: 0, bytes: 100 };
        assert_eq!(refusal(client.read(&capability, request.clone())), Status::Invalid);
        assert_eq!(refusal(client.write(&capability, request, &[0; 100])), Status::Invalid);
    }
    assert_eq!(
        refusal(client.read(&capability, contiguous(1 << 63, 10))),
        Status::Invalid,
        "offset 2^63"
    );
}

#[test]
fn a_connection_keeps_bounded_capabilities_and_forgets_the_oldest() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let wide = capability(striped([1; 200]));
    let present = wide.sign(&server_key());
    let write = |handle: u32| Write { handle, present: present.clone(), request: contiguous(0, 1) };
    let enough = (2 * CAPABILITY_MEMORY_BYTES_MAX / present.len()) as u32;
    for handle in 0..enough {
        client.call_with(&write(handle), b"x").unwrap();
    }
    assert!(client.state.handles() * present.len() <= CAPABILITY_MEMORY_BYTES_MAX);
    let again = |handle| Read { handle, present: Vec::new(), request: contiguous(0, 1) };
    assert_eq!(refusal(client.call(&again(0))), Status::UnknownHandle);
    assert!(client.call(&again(enough - 1)).is_ok());
}
