//! One TCP connection: compounds out, replies in. The data of READ goes from the socket to the
//! caller's buffer, and that of WRITE from the caller's memory to the socket.

use std::{
    io::{IoSlice, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use braid_nfs_wire::{
    nfs4::{
        ArgOp, CompoundHeader, CompoundReplyHeader, NFS_PROGRAM, NFS_VERSION, NfsStatus, OpNumber,
        PROCEDURE_COMPOUND, ResOp,
    },
    rpc::{
        auth::OpaqueAuth,
        auth_sys::AuthSys,
        message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader},
        record::record_header,
    },
    xdr::{Decoder, Encoder, Segment, Xdr},
};
use bytes::Bytes;

/// Longest reply that is accepted: a READ of 1 MiB, and the rest of its compound.
const REPLY_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Longest wait for a reply. A server that restarts takes less.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(120);
/// Most results of a reply: more than any compound here has operations.
const RESULTS_MAX: u32 = 64;
/// Bytes of a reply in front of a READ's data: headers, SEQUENCE, PUTFH, and READ without its data.
/// RFC 5531 9 (24, without a verifier), RFC 8881 16.2 (12, without a tag), 18.46 (44), 18.19 (8),
/// 18.22 (16).
const READ_HEAD_BYTES: usize = 24 + 12 + 44 + 8 + 16;
/// The bit of a record's header that marks its last fragment. RFC 5531 11.
const LAST_FRAGMENT: u32 = 1 << 31;

/// A connection whose calls are made in the name of user 0.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    credential: OpaqueAuth,
}

/// The start of a reply to SEQUENCE, PUTFH, READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadHead {
    /// The transaction.
    pub xid: u32,
    /// Whether the data ends at the end of the file.
    pub eof: bool,
    /// Bytes of data.
    pub count: usize,
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(server).with_context(|| format!("connect to {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
        let user = AuthSys {
            stamp: 0,
            machine_name: Bytes::from_static(b"bench"),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        };
        Ok(Self { stream, credential: user.to_credential() })
    }

    /// Sends a compound of minor version 1.
    ///
    /// # Errors
    /// Of the connection.
    pub fn send(&mut self, xid: u32, ops: &[ArgOp]) -> Result<()> {
        let mut to = Encoder::new();
        let header = CallHeader {
            xid,
            program: NFS_PROGRAM,
            version: NFS_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: self.credential.clone(),
            verifier: OpaqueAuth::none(),
        };
        header.encode(&mut to);
        let op_count = u32::try_from(ops.len())?;
        CompoundHeader { tag: Bytes::new(), minor_version: 1, op_count }.encode(&mut to);
        ops.iter().for_each(|op| op.encode(&mut to));
        let mark = record_header(to.len());
        let segments = to.into_segments();
        let mut slices = vec![IoSlice::new(&mark)];
        for segment in &segments {
            let Segment::Bytes(bytes) = segment else { bail!("a request has its data in memory") };
            slices.push(IoSlice::new(bytes));
        }
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let sent = self.stream.write_vectored(rest).context("send a request")?;
            ensure!(sent > 0, "the server closed the connection");
            IoSlice::advance_slices(&mut rest, sent);
        }
        Ok(())
    }

    /// The next reply: its transaction and results, of which the last one may be a failure.
    ///
    /// # Errors
    /// Of the connection; a reply that is malformed or denies the call.
    pub fn receive(&mut self) -> Result<(u32, Vec<ResOp>)> {
        let mut record = vec![0; self.record_bytes()?];
        self.stream.read_exact(&mut record).context("receive a reply")?;
        decode_reply(record.into())
    }

    /// The next reply, which is that of a READ that [`ReadHead`] describes. Its data is stored at
    /// the start of `buffer`.
    ///
    /// # Errors
    /// As [`Connection::receive`]; a failed READ; more data than `buffer` has space for.
    pub fn receive_read(&mut self, buffer: &mut [u8]) -> Result<ReadHead> {
        let length = self.record_bytes()?;
        let mut start = [0; READ_HEAD_BYTES];
        let head = &mut start[..length.min(READ_HEAD_BYTES)];
        self.stream.read_exact(head).context("receive the reply to a READ")?;
        let head = decode_read_head(&start[..length.min(READ_HEAD_BYTES)])?;
        let padded = head.count.next_multiple_of(4);
        ensure!(length == READ_HEAD_BYTES + padded, "a reply to READ has {length} bytes");
        ensure!(head.count <= buffer.len(), "a READ returned {} bytes", head.count);
        self.stream.read_exact(&mut buffer[..head.count]).context("receive data")?;
        self.stream.read_exact(&mut [0; 3][..padded - head.count]).context("receive padding")?;
        Ok(head)
    }

    /// Bytes of the next record, which must have one fragment.
    fn record_bytes(&mut self) -> Result<usize> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).context("wait for a reply")?;
        fragment_bytes(mark)
    }
}

/// Length of a record from its header.
fn fragment_bytes(mark: [u8; 4]) -> Result<usize> {
    let mark = u32::from_be_bytes(mark);
    ensure!(mark & LAST_FRAGMENT != 0, "a reply in several fragments");
    let length = (mark & !LAST_FRAGMENT) as usize;
    ensure!(length <= REPLY_BYTES_MAX, "a reply of {length} bytes");
    Ok(length)
}

/// The transaction and the results of a reply; `from` continues after its header.
fn decode_header(from: &mut Decoder) -> Result<(u32, CompoundReplyHeader)> {
    let ReplyHeader { xid, body } = ReplyHeader::decode(from)?;
    match body {
        ReplyBody::Accepted { status: AcceptStatus::Success, .. } => {
            Ok((xid, CompoundReplyHeader::decode(from)?))
        }
        other => bail!("the server did not execute a call: {other:?}"),
    }
}

fn decode_reply(record: Bytes) -> Result<(u32, Vec<ResOp>)> {
    let mut from = Decoder::new(record);
    let (xid, header) = decode_header(&mut from)?;
    ensure!(header.op_count <= RESULTS_MAX, "a reply with {} results", header.op_count);
    let results = (0..header.op_count).map(|_| ResOp::decode(&mut from));
    let results = results.collect::<Result<Vec<_>, _>>().context("decode a reply")?;
    from.finish()?;
    ensure!(!results.is_empty() || header.status != NfsStatus::Ok, "a reply without results");
    if results.is_empty() {
        bail!("a compound failed: {:?}", header.status);
    }
    Ok((xid, results))
}

fn decode_read_head(head: &[u8]) -> Result<ReadHead> {
    let mut from = Decoder::new(Bytes::copy_from_slice(head));
    let (xid, header) = decode_header(&mut from)?;
    ensure!(header.status == NfsStatus::Ok, "a READ failed: {:?}", header.status);
    for _ in 0..2 {
        ResOp::decode(&mut from)?;
    }
    let (number, status) = (OpNumber::decode(&mut from)?, NfsStatus::decode(&mut from)?);
    ensure!((number, status) == (OpNumber::Read, NfsStatus::Ok), "not the result of a READ");
    Ok(ReadHead { xid, eof: from.bool()?, count: from.u32()? as usize })
}

#[cfg(test)]
mod tests;
