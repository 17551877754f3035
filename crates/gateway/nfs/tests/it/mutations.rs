//! Calls with changed bytes: the server never panics, and each answer can be decoded.

use std::sync::Arc;

use braid_nfs::connection::Connection;
use braid_nfs::rpc::{self, Answer};
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Encoder, Segment, Xdr};
use bytes::Bytes;

use crate::client::{Session, create_args, exchange_args, user, with_sequence};
use crate::server::TestServer;

/// Calls that are changed and executed.
const CALLS: usize = 10_000;

/// xorshift64*: the same calls in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }
}

fn call(ops: &[ArgOp], minor_version: u32) -> Vec<u8> {
    let mut to = Encoder::new();
    let header = CallHeader {
        xid: 1,
        program: NFS_PROGRAM,
        version: NFS_VERSION,
        procedure: PROCEDURE_COMPOUND,
        credential: user(0),
        verifier: OpaqueAuth::none(),
    };
    header.encode(&mut to);
    let (tag, op_count) = (Bytes::from_static(b"tag"), ops.len() as u32);
    CompoundHeader { tag, minor_version, op_count }.encode(&mut to);
    ops.iter().for_each(|op| op.encode(&mut to));
    to.to_vec()
}

/// Decodes all of a reply; returns the results of the compound.
fn check(reply: rpc::RpcReply) -> Vec<ResOp> {
    let mut bytes = reply.header.to_vec();
    for segment in reply.results {
        let Segment::Bytes(segment) = segment else { panic!("{segment:?}") };
        bytes.extend_from_slice(&segment);
    }
    let mut from = Decoder::new(bytes.into());
    let header = ReplyHeader::decode(&mut from).unwrap();
    let mut results = Vec::new();
    if let ReplyBody::Accepted { status: AcceptStatus::Success, .. } = header.body
        && from.remaining() > 0
    {
        let compound = CompoundReplyHeader::decode(&mut from).unwrap();
        results.extend((0..compound.op_count).map(|_| ResOp::decode(&mut from).unwrap()));
        if let Some(last) = results.last() {
            assert_eq!(last.status(), compound.status);
        }
    }
    from.finish().unwrap();
    results
}

/// One of the compounds that are sent.
fn compound(session: &mut Session, choice: usize) -> Vec<ArgOp> {
    let client_id = session.client;
    let bind = BindConnToSessionArgs {
        session_id: session.id,
        direction: ChannelDirFromClient::ForeOrBoth,
        use_rdma: false,
    };
    let control = BackchannelCtlArgs {
        callback_program: 1,
        security: create_args(client_id, 1).callback_security,
    };
    let parent = SecInfoNoNameArgs { style: SecInfoStyle::Parent };
    let put = PutFhArgs { handle: FileHandle(Bytes::from_static(&[1; 34])) };
    let in_session = vec![
        ArgOp::PutRootFh,
        ArgOp::GetFh,
        ArgOp::SaveFh,
        ArgOp::BackchannelCtl(control),
        ArgOp::RestoreFh,
        ArgOp::SecInfoNoName(parent),
        ArgOp::PutRootFh,
        ArgOp::SecInfo(SecInfoArgs { name: Bytes::from_static(b"name") }),
        ArgOp::PutFh(put),
    ];
    let sequence = SequenceArgs { cache_this: choice == 4, ..session.next_on(0) };
    match choice {
        0 => vec![ArgOp::ExchangeId(exchange_args("a", 1))],
        1 => vec![ArgOp::CreateSession(create_args(client_id, 2))],
        2 => vec![ArgOp::BindConnToSession(bind)],
        _ => with_sequence(sequence, in_session),
    }
}

#[tokio::test]
async fn changed_calls_are_answered_or_refused() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let peer = server.address;
    let connection = Arc::new(Connection::new(1, peer, tokio::io::sink()));
    let mut random = Random(0x5eed);
    let (mut executed, mut refused) = (0, 0);
    let mut session = client.session("0").await;
    for number in 0..CALLS {
        let mut ops = compound(&mut session, random.below(8));
        if random.below(2) == 0 {
            let last = ops.len() - 1;
            ops.swap(last, random.below(last + 1).max(last.min(1)));
        }
        let mut record = call(&ops, 1 + number as u32 % 2);
        for _ in 0..random.below(4) {
            let at = random.below(record.len());
            record[at] = match random.below(3) {
                0 => 0xff,
                1 => record[at] ^ 1 << random.below(8),
                _ => random.below(80) as u8,
            };
        }
        if random.below(8) == 0 {
            record.truncate(random.below(record.len()));
        }
        let results = match rpc::execute(&server.server, &connection, record.into()).await {
            Answer::Reply(reply) => check(reply),
            _ => {
                refused += 1;
                Vec::new()
            }
        };
        match results.first() {
            Some(ResOp::Sequence(Ok(_))) => executed += results.len() - 1,
            // The number was not used, so the next one would be out of order.
            _ => session = client.session(&number.to_string()).await,
        }
    }
    assert!(executed > CALLS && refused > CALLS / 100, "{executed} {refused}");
    assert_eq!(client.status(&[]).await, NfsStatus::Ok);
}
