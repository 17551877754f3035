//! A connection: RPC calls, one at a time.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use braid_nfs_wire::{
    nfs4::{
        ArgOp, CompoundHeader, CompoundReplyHeader, NFS_PROGRAM, NFS_VERSION, NfsStatus,
        PROCEDURE_COMPOUND, ResOp,
    },
    rpc::{
        auth::OpaqueAuth,
        auth_sys::AuthSys,
        message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader},
        record::{RecordReader, record_header},
    },
    xdr::{Decoder, Encoder, Xdr},
};
use bytes::Bytes;

/// Longer than a server takes to answer on a busy machine. A server that never answers fails the
/// test by this.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// Longest reply: a READ of 1 MiB and what is around it.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The credential AUTH_SYS of a user whose group has the same number.
pub fn user(uid: u32) -> OpaqueAuth {
    let machine_name = Bytes::from_static(b"testbed");
    AuthSys { stamp: 0, machine_name, uid, gid: uid, gids: Vec::new() }.to_credential()
}

/// A connection to an NFS server.
#[derive(Debug)]
pub struct RpcConnection {
    socket: TcpStream,
    reader: RecordReader,
    xid: u32,
    /// The credential of all calls.
    pub credential: OpaqueAuth,
    /// The minor version of all compounds.
    pub minor_version: u32,
}

impl RpcConnection {
    /// Connects as user 0 with minor version 2.
    ///
    /// # Errors
    /// Those of connect(2).
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, ANSWER_WAIT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_WAIT))?;
        let reader = RecordReader::with_limit(REPLY_BYTES_MAX);
        Ok(Self { socket, reader, xid: 0, credential: user(0), minor_version: 2 })
    }

    /// The socket, for what no client sends.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends a call of a program, version and procedure, without waiting for the reply.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        arguments: impl FnOnce(&mut Encoder),
    ) -> io::Result<()> {
        self.xid += 1;
        let (xid, credential) = (self.xid, self.credential.clone());
        let verifier = OpaqueAuth::none();
        let mut to = Encoder::new();
        CallHeader { xid, program, version, procedure, credential, verifier }.encode(&mut to);
        arguments(&mut to);
        self.send_record(&to.to_vec())
    }

    /// The reply to the last call, and what follows its header.
    ///
    /// # Errors
    /// The connection has ended, or the reply is none to that call.
    pub fn receive(&mut self) -> io::Result<(ReplyBody, Decoder)> {
        let mut from = Decoder::new(self.receive_record()?);
        let header = ReplyHeader::decode(&mut from).map_err(io::Error::other)?;
        if header.xid != self.xid {
            return Err(io::Error::other("a reply to another call"));
        }
        Ok((header.body, from))
    }

    /// The next message of the server.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn receive_record(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(record) = self.reader.next_record().map_err(io::Error::other)? {
                return Ok(record);
            }
            let read = self.socket.read(self.reader.space())?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.reader.advance(read);
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn send_record(&mut self, record: &[u8]) -> io::Result<()> {
        self.socket.write_all(&[&record_header(record.len())[..], record].concat())
    }

    /// Sends operations as they are, and waits for their results.
    ///
    /// # Errors
    /// The connection has ended, the call was refused, or the results cannot be decoded.
    pub fn compound(&mut self, ops: &[ArgOp]) -> io::Result<(NfsStatus, Vec<ResOp>)> {
        let (minor_version, op_count) = (self.minor_version, ops.len() as u32);
        self.send((NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND), |to| {
            CompoundHeader { tag: Bytes::new(), minor_version, op_count }.encode(to);
            ops.iter().for_each(|op| op.encode(to));
        })?;
        let (body, mut from) = self.receive()?;
        if !matches!(body, ReplyBody::Accepted { status: AcceptStatus::Success, .. }) {
            return Err(io::Error::other(format!("the call was refused: {body:?}")));
        }
        let reply = CompoundReplyHeader::decode(&mut from).map_err(io::Error::other)?;
        let results = (0..reply.op_count).map(|_| ResOp::decode(&mut from));
        Ok((reply.status, results.collect::<Result<_, _>>().map_err(io::Error::other)?))
    }
}
