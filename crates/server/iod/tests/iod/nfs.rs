//! The NFS data server over sockets, with a client that speaks the wire crate's messages.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use braid_iod::NFS_CONNECTIONS_PER_ADDRESS_MAX;
use braid_nfs_wire::{
    nfs4::{
        ArgOp, ClientOwner, CompoundHeader, CompoundReplyHeader, CreateSessionFlags,
        ExchangeIdFlags, FileHandle, NFS_PROGRAM, NFS_VERSION, NfsStatus, PROCEDURE_COMPOUND,
        Payload, ResOp, SequenceId, SessionId as NfsSessionId, SlotId, StableHow, StateId,
        Verifier,
        args::{
            ChannelAttributes, CommitArgs, CreateSessionArgs, ExchangeIdArgs, PutFhArgs, ReadArgs,
            SequenceArgs, StateProtectArgs, WriteArgs,
        },
        results::{ReadResult, WriteResult},
    },
    rpc::{
        auth::OpaqueAuth,
        message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader},
        record::{RecordReader, record_header},
    },
    xdr::{Decoder, Encoder, Xdr},
};
use braid_types::{
    FileIndex, MdsEpoch, ObjectGeneration, PartIndex, SessionId, SizeGeneration,
    limits::FILE_BYTES_MAX,
};
use braid_wire::{DataServerHandle, NFS_ADDRESS_LABEL, Rights};
use bytes::Bytes;

use super::{
    cluster::{Cluster, LONG},
    harness::{EPOCH, SESSION, server_key},
};

const MIB: u64 = 1 << 20;
const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_size: 0,
    max_request_size: 2 << 20,
    max_response_size: 2 << 20,
    max_response_size_cached: 4096,
    max_operations: 8,
    max_requests: 16,
    rdma_ird: None,
};

/// A client with a session.
struct NfsClient {
    socket: TcpStream,
    reader: RecordReader,
    session: NfsSessionId,
    sequence: u32,
    xid: u32,
}

impl NfsClient {
    fn connect(cluster: &Cluster) -> Self {
        let socket = TcpStream::connect(cluster.iod.nfs_addresses()[0]).unwrap();
        Self::over(socket)
    }

    fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(LONG)).unwrap();
        let (reader, session) = (RecordReader::with_limit(4 << 20), NfsSessionId([0; 16]));
        let mut client = Self { socket, reader, session, sequence: 0, xid: 0 };
        let exchange = ArgOp::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner {
                verifier: Verifier([1; 8]),
                owner_id: Bytes::from_static(b"a client"),
            },
            flags: ExchangeIdFlags::USE_PNFS_DS,
            state_protect: StateProtectArgs::None,
            implementation: None,
        });
        let (_, results) = client.compound(vec![exchange]);
        let [ResOp::ExchangeId(Ok(known))] = &results[..] else { panic!("{results:?}") };
        assert_eq!(known.flags & ExchangeIdFlags::USE_PNFS_DS, ExchangeIdFlags::USE_PNFS_DS);
        let create = ArgOp::CreateSession(CreateSessionArgs {
            client_id: known.client_id,
            sequence: known.sequence_id,
            flags: CreateSessionFlags::default(),
            fore_channel: CHANNEL,
            back_channel: CHANNEL,
            callback_program: 0,
            callback_security: Vec::new(),
        });
        let (_, results) = client.compound(vec![create]);
        let [ResOp::CreateSession(Ok(created))] = &results[..] else { panic!("{results:?}") };
        client.session = created.session_id;
        client
    }

    fn send(&mut self, ops: &[ArgOp]) {
        self.xid += 1;
        let mut to = Encoder::new();
        CallHeader {
            xid: self.xid,
            program: NFS_PROGRAM,
            version: NFS_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: OpaqueAuth::none(),
            verifier: OpaqueAuth::none(),
        }
        .encode(&mut to);
        let op_count = ops.len() as u32;
        CompoundHeader { tag: Bytes::new(), minor_version: 1, op_count }.encode(&mut to);
        ops.iter().for_each(|op| op.encode(&mut to));
        let record = to.to_vec();
        self.socket.write_all(&record_header(record.len())).unwrap();
        self.socket.write_all(&record).unwrap();
    }

    fn receive(&mut self) -> (NfsStatus, Vec<ResOp>) {
        let record = loop {
            if let Some(record) = self.reader.next_record().unwrap() {
                break record;
            }
            let read = self.socket.read(self.reader.space()).unwrap();
            assert!(read > 0, "the server disconnected");
            self.reader.advance(read);
        };
        let mut from = Decoder::new(record);
        let header = ReplyHeader::decode(&mut from).unwrap();
        assert_eq!(header.xid, self.xid);
        let success =
            ReplyBody::Accepted { verifier: OpaqueAuth::none(), status: AcceptStatus::Success };
        assert_eq!(header.body, success);
        let reply = CompoundReplyHeader::decode(&mut from).unwrap();
        let results =
            (0..reply.op_count).map(|_| ResOp::decode(&mut from).unwrap()).collect::<Vec<_>>();
        from.finish().unwrap();
        (reply.status, results)
    }

    fn compound(&mut self, ops: Vec<ArgOp>) -> (NfsStatus, Vec<ResOp>) {
        self.send(&ops);
        self.receive()
    }

    fn sequence(&self, sequence: u32) -> ArgOp {
        ArgOp::Sequence(SequenceArgs {
            session_id: self.session,
            sequence_id: SequenceId(sequence),
            slot_id: SlotId(0),
            highest_slot_id: SlotId(0),
            cache_this: false,
        })
    }

    /// An operation on a file handle: the last result.
    fn on(&mut self, handle: &[u8], op: ArgOp) -> ResOp {
        self.sequence += 1;
        let put = PutFhArgs { handle: FileHandle(Bytes::copy_from_slice(handle)) };
        let ops = vec![self.sequence(self.sequence), ArgOp::PutFh(put), op];
        self.compound(ops).1.pop().unwrap()
    }

    fn write(&mut self, handle: &[u8], offset: u64, data: &[u8]) -> Result<WriteResult, NfsStatus> {
        match self.on(handle, write(offset, data)) {
            ResOp::Write(result) => result,
            other => Err(other.status()),
        }
    }

    fn read(&mut self, handle: &[u8], offset: u64, count: u32) -> Result<(Bytes, bool), NfsStatus> {
        let read = ArgOp::Read(ReadArgs { state_id: StateId::ANONYMOUS, offset, count });
        match self.on(handle, read) {
            ResOp::Read(Ok(ReadResult { eof, data: Payload::Bytes(data) })) => Ok((data, eof)),
            other => Err(other.status()),
        }
    }
}

fn write(offset: u64, data: &[u8]) -> ArgOp {
    ArgOp::Write(WriteArgs {
        state_id: StateId::ANONYMOUS,
        offset,
        stable: StableHow::Unstable,
        data: Bytes::copy_from_slice(data),
    })
}

/// A handle of part 1 of two, in stripes of 1 MiB.
fn handle() -> DataServerHandle {
    DataServerHandle {
        file: FileIndex(77),
        part: PartIndex(1),
        parts: 2,
        first_part: 0,
        stripe_units: 1,
        generation: ObjectGeneration(1),
        size_generation: SizeGeneration(1),
        rights: Rights::READ_WRITE,
        recorded: false,
        session: SESSION,
        epoch: EPOCH,
        owner: (1000, 1000),
        write_end: u64::MAX,
    }
}

fn signed(handle: &DataServerHandle) -> Vec<u8> {
    handle.sign(&server_key())
}

fn cluster() -> Cluster {
    Cluster::start_with(|config| config.nfs_listen = vec!["127.0.0.1:0".to_owned()])
}

fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn a_daemon_that_serves_nfs_announces_the_address() {
    let cluster = cluster();
    let address = cluster.iod.nfs_addresses()[0];
    cluster
        .mds
        .wait_until(|mds| mds.registered[0].labels == [format!("{NFS_ADDRESS_LABEL}={address}")]);
}

#[test]
fn bytes_are_written_and_read_at_offsets_of_the_file() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let handle = signed(&handle());
    // The second stripe of the file is the first of part 1; the fourth its second.
    let data = pattern(MIB);
    for offset in [MIB, 3 * MIB] {
        let written = client.write(&handle, offset, &data).unwrap();
        assert_eq!((written.count, written.committed), (1 << 20, StableHow::Unstable));
        let committed = client.on(&handle, ArgOp::Commit(CommitArgs { offset: 0, count: 0 }));
        let ResOp::Commit(Ok(committed)) = committed else { panic!("{committed:?}") };
        assert_eq!(committed.verifier, written.verifier);
        // Long and short replies: from the file, and copied.
        let (read, eof) = client.read(&handle, offset, 1 << 20).unwrap();
        assert!(read == data && !eof);
        let (read, _) = client.read(&handle, offset + 1000, 5000).unwrap();
        assert!(read == data[1000..6000]);
    }
}

#[test]
fn a_hole_is_zeros_and_only_the_end_of_the_file_is_the_end() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let handle = signed(&handle());
    let data = pattern(1000);
    client.write(&handle, MIB, &data).unwrap();
    // Another part has more: the rest of the stripe is a hole.
    cluster.mds.change(|mds| mds.file_size = 10 * MIB);
    let (read, eof) = client.read(&handle, MIB, 1 << 20).unwrap();
    assert_eq!((read.len() as u64, eof), (MIB, false));
    assert!(read[..1000] == data && read[1000..].iter().all(|byte| *byte == 0));
    let (read, eof) = client.read(&handle, 3 * MIB + 10, 100).unwrap();
    assert!(read == [0; 100][..] && !eof, "the object is shorter");
    // The file ends in the hole.
    cluster.mds.change(|mds| mds.file_size = MIB + 1500);
    let (read, eof) = client.read(&handle, MIB, 1 << 20).unwrap();
    assert_eq!((read.len(), eof), (1500, true));
    let (read, eof) = client.read(&handle, MIB + 1500, 10).unwrap();
    assert_eq!((read.len(), eof), (0, true));
    // What the object has needs no question.
    let mut queries = 0;
    cluster.mds.change(|mds| queries = mds.size_queries);
    client.read(&handle, MIB, 1000).unwrap();
    cluster.mds.change(|mds| assert_eq!(mds.size_queries, queries));
}

#[test]
fn a_handle_allows_its_part_its_rights_and_its_quota_only() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let good = signed(&handle());
    client.write(&good, MIB, b"data").unwrap();
    assert_eq!(client.write(&good, 0, b"data"), Err(NfsStatus::Access), "part 0");
    assert_eq!(client.read(&good, 2 * MIB, 10).err(), Some(NfsStatus::Access), "part 0");
    let across = client.write(&good, 2 * MIB - 2, b"data");
    assert_eq!(across, Err(NfsStatus::Access), "beyond the stripe");
    let reader = signed(&DataServerHandle { rights: Rights::READ, ..handle() });
    assert_eq!(client.write(&reader, MIB, b"data"), Err(NfsStatus::Access));
    let limited = signed(&DataServerHandle { write_end: MIB + 3, ..handle() });
    assert_eq!(client.write(&limited, MIB, b"data"), Err(NfsStatus::Stale));
    assert!(client.write(&limited, MIB, b"dat").is_ok());
    let mut forged = good.clone();
    forged[5] ^= 1;
    assert_eq!(client.write(&forged, MIB, b"data"), Err(NfsStatus::BadHandle));
    assert_eq!(client.write(&[7; 128], MIB, b"data"), Err(NfsStatus::BadHandle));
    let huge = client.write(&good, u64::MAX - 1, b"data");
    assert!(
        matches!(huge, Err(NfsStatus::Inval | NfsStatus::FBig | NfsStatus::Access)),
        "{huge:?}"
    );
    let (read, _) = client.read(&good, MIB, 4).unwrap();
    assert_eq!(&read[..], b"data", "the refused writes changed nothing");
}

#[test]
fn a_fenced_session_and_old_handles_are_refused() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let good = signed(&handle());
    client.write(&good, MIB, b"data").unwrap();
    let old = signed(&DataServerHandle { epoch: MdsEpoch(EPOCH.0 - 1), ..handle() });
    assert_eq!(client.write(&old, MIB, b"late"), Err(NfsStatus::Stale));
    let newer = signed(&DataServerHandle { size_generation: SizeGeneration(2), ..handle() });
    assert!(client.read(&newer, MIB, 4).is_ok());
    let other = signed(&DataServerHandle { session: SessionId(SESSION.0 + 1), ..handle() });
    cluster.mds.change(|mds| (mds.fenced, mds.fence) = (vec![SESSION], 1));
    cluster.mds.wait_until(|mds| mds.fence_applied == 1);
    assert_eq!(client.write(&good, MIB, b"late"), Err(NfsStatus::Stale));
    assert_eq!(client.read(&good, MIB, 4).err(), Some(NfsStatus::Stale));
    assert_eq!(&client.read(&other, MIB, 4).unwrap().0[..], b"data", "others go on");
}

#[test]
fn a_write_that_is_sent_again_is_not_done_again() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let handle = signed(&handle());
    let put = ArgOp::PutFh(PutFhArgs { handle: FileHandle(handle.clone().into()) });
    let first = vec![client.sequence(1), put, write(MIB, b"first")];
    let (status, results) = client.compound(first.clone());
    assert_eq!(status, NfsStatus::Ok);
    // Another client overwrites it, then the first one's retry arrives.
    let mut other = NfsClient::connect(&cluster);
    other.session = client.session;
    assert_eq!(client.compound(first).1, results, "answered from the cache");
    client.sequence = 1;
    client.write(&handle, MIB, b"newer").unwrap();
    let (status, _) = other.compound(vec![other.sequence(1)]);
    assert_eq!(status, NfsStatus::SeqMisordered);
    assert_eq!(&client.read(&handle, MIB, 5).unwrap().0[..], b"newer");
}

#[test]
fn operations_need_a_session_and_others_are_not_supported() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    assert_eq!(client.compound(vec![ArgOp::PutRootFh]).0, NfsStatus::OpNotInSession);
    let ops = vec![client.sequence(1), ArgOp::PutRootFh, ArgOp::LookupParent];
    assert_eq!(client.compound(ops).0, NfsStatus::NotSupp);
    let ops = vec![client.sequence(2), client.sequence(3)];
    assert_eq!(client.compound(ops).0, NfsStatus::SequencePos);
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let mut hostile = TcpStream::connect(cluster.iod.nfs_addresses()[0]).unwrap();
    hostile.set_read_timeout(Some(LONG)).unwrap();
    // A record of 2 GiB.
    hostile.write_all(&[0xff; 64]).unwrap();
    assert_eq!(hostile.read(&mut [0; 16]).unwrap(), 0, "disconnected");
    client.write(&signed(&handle()), MIB, b"data").unwrap();
}

#[test]
fn one_address_does_not_take_all_connections() {
    let cluster = cluster();
    let address = cluster.iod.nfs_addresses()[0];
    let mut all: Vec<_> = (0..NFS_CONNECTIONS_PER_ADDRESS_MAX)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut refused = TcpStream::connect(address).unwrap();
    refused.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    // The daemon admits another one as soon as it has seen the end of some.
    all.clear();
    let mut client = loop {
        let mut socket = TcpStream::connect(address).unwrap();
        // The end of a connection that is refused arrives at once; else there is nothing to read.
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        match socket.read(&mut [0]) {
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break NfsClient::over(socket);
            }
            _ => {}
        }
    };
    client.write(&signed(&handle()), MIB, b"data").unwrap();
}

#[test]
fn offsets_near_the_largest_numbers_are_answered() {
    let cluster = cluster();
    let mut client = NfsClient::connect(&cluster);
    let good = signed(&handle());
    client.write(&good, MIB, b"data").unwrap();
    for offset in [FILE_BYTES_MAX - 1, FILE_BYTES_MAX, 1 << 63, u64::MAX - 1, u64::MAX] {
        let written = client.write(&good, offset, b"xy");
        assert!(written.is_err(), "{offset}: past the largest file");
        if let Ok((read, _)) = client.read(&good, offset, 10) {
            assert!(read.is_empty(), "{offset}: behind the end");
        }
    }
    assert_eq!(&client.read(&good, MIB, 4).unwrap().0[..], b"data", "it still serves");
}
