use super::*;
use braid_nfs_wire::nfs4::{
    CompoundReply, Payload, SequenceId, SequenceStatus, SessionId, SlotId,
    results::{ReadResult, SequenceResult},
};

/// A reply to SEQUENCE, PUTFH, READ.
fn read_reply(xid: u32, read: ResOp) -> Vec<u8> {
    let mut to = Encoder::new();
    let verifier = OpaqueAuth::none();
    let body = ReplyBody::Accepted { verifier, status: AcceptStatus::Success };
    ReplyHeader { xid, body }.encode(&mut to);
    let sequence = SequenceResult {
        session_id: SessionId([7; 16]),
        sequence_id: SequenceId(1),
        slot_id: SlotId(0),
        highest_slot_id: SlotId(3),
        target_highest_slot_id: SlotId(3),
        status_flags: SequenceStatus::empty(),
    };
    let mut reply = CompoundReply::begin(b"", &mut to);
    reply.push(&ResOp::Sequence(Ok(sequence)), &mut to);
    reply.push(&ResOp::PutFh(Ok(())), &mut to);
    reply.push(&read, &mut to);
    reply.finish(&mut to);
    to.to_vec()
}

fn data(bytes: &'static [u8]) -> ResOp {
    ResOp::Read(Ok(ReadResult { eof: true, data: Payload::Bytes(Bytes::from_static(bytes)) }))
}

#[test]
fn head_of_a_read_ends_where_its_data_begins() {
    let reply = read_reply(9, data(b"12345678"));
    assert_eq!(reply.len(), READ_HEAD_BYTES + 8);
    let head = decode_read_head(&reply[..READ_HEAD_BYTES]).unwrap();
    assert_eq!(head, ReadHead { xid: 9, eof: true, count: 8 });
    assert_eq!(&reply[READ_HEAD_BYTES..], b"12345678");
}

#[test]
fn failed_read_and_short_reply_are_errors() {
    let failed = read_reply(9, ResOp::Read(Err(NfsStatus::Stale)));
    let error = decode_read_head(&failed).unwrap_err().to_string();
    assert!(error.contains("Stale"), "{error}");
    let reply = read_reply(9, data(b""));
    for length in 0..READ_HEAD_BYTES {
        assert!(decode_read_head(&reply[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn data_of_a_read_arrives_in_the_buffer_without_its_padding() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Connection::new(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for text in [&b"12345"[..], b"1234"] {
        let reply = read_reply(1, data(if text.len() == 5 { b"12345" } else { b"1234" }));
        server.write_all(&record_header(reply.len())).unwrap();
        server.write_all(&reply).unwrap();
        let mut buffer = [0; 8];
        let head = client.receive_read(&mut buffer).unwrap();
        assert_eq!(&buffer[..head.count], text);
    }
    let reply = read_reply(1, data(b"123456789"));
    server.write_all(&record_header(reply.len())).unwrap();
    server.write_all(&reply).unwrap();
    assert!(client.receive_read(&mut [0; 8]).is_err(), "more data than the buffer holds");
}

#[test]
fn a_whole_reply_is_decoded_and_bytes_after_it_are_refused() {
    let reply = read_reply(3, data(b"abcd"));
    let (xid, results) = decode_reply(reply.clone().into()).unwrap();
    assert_eq!((xid, results.len(), &results[2]), (3, 3, &data(b"abcd")));
    assert!(decode_reply([&reply[..], &[0; 4]].concat().into()).is_err());
    for length in 0..reply.len() {
        assert!(decode_reply(reply[..length].to_vec().into()).is_err(), "{length} bytes");
    }
}

#[test]
fn lengths_of_records_are_limited() {
    assert_eq!(fragment_bytes(record_header(12)).unwrap(), 12);
    assert!(fragment_bytes(12_u32.to_be_bytes()).is_err(), "not the last fragment");
    assert!(fragment_bytes(record_header(REPLY_BYTES_MAX + 1)).is_err());
}
