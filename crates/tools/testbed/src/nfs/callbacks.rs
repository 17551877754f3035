//! The callbacks of a client: a connection of its session on which the server calls it.
//!
//! A thread answers each callback with success and keeps its operation for the test, so that a test
//! may be in a call of its own when the server calls.

use std::{
    io,
    net::Shutdown,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::Duration,
};

use braid_nfs_wire::{
    nfs4::{
        ArgOp, CompoundReplyHeader, NfsStatus,
        args::{BindConnToSessionArgs, ChannelDirFromClient},
        callback::{CallbackArgOp, CallbackHeader, CallbackResOp, CallbackSequenceResult},
    },
    rpc::{
        auth::OpaqueAuth,
        message::{AcceptStatus, CallHeader},
    },
    xdr::{Decoder, Encoder, Xdr},
};
use bytes::Bytes;

use super::{mount::NfsMount, rpc::RpcConnection, session::NfsError};

/// Program number of callbacks. RFC 8881 18.36.3: any number that the client chooses.
pub(super) const CALLBACK_PROGRAM: u32 = 0x4000_0007;
/// Longer than a server takes to call a client on a busy machine.
const CALLBACK_WAIT: Duration = Duration::from_secs(60);

/// The callbacks of a client. Its connection ends when it is dropped.
#[derive(Debug)]
pub struct NfsCallbacks {
    received: Receiver<CallbackArgOp>,
    socket: std::net::TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl NfsCallbacks {
    /// Opens a connection for the callbacks of the client's session.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn of(mount: &NfsMount) -> Result<Self, NfsError> {
        let mut rpc = RpcConnection::connect(mount.session.address)?;
        let direction = ChannelDirFromClient::Back;
        let session_id = mount.session.id;
        let bind = BindConnToSessionArgs { session_id, direction, use_rdma: false };
        match rpc.compound(&[ArgOp::BindConnToSession(bind)])?.0 {
            NfsStatus::Ok => {}
            status => return Err(status.into()),
        }
        let socket = rpc.socket().try_clone()?;
        socket.set_read_timeout(None)?;
        let (sender, received) = channel();
        // It ends with an error when the connection does.
        let thread = std::thread::spawn(move || while answer(&mut rpc, &sender).is_ok() {});
        Ok(Self { received, socket, thread: Some(thread) })
    }

    /// Waits for the next callback, which was answered with success.
    ///
    /// # Errors
    /// There is none in a minute, or the connection has ended.
    pub fn next(&self) -> io::Result<CallbackArgOp> {
        self.received.recv_timeout(CALLBACK_WAIT).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::other("no callback in a minute"),
            RecvTimeoutError::Disconnected => io::Error::other("no connection for callbacks"),
        })
    }

    /// A callback that has arrived, if any.
    pub fn received(&self) -> Option<CallbackArgOp> {
        self.received.try_recv().ok()
    }
}

impl Drop for NfsCallbacks {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Receives a callback, keeps its operation, and answers it.
fn answer(rpc: &mut RpcConnection, received: &Sender<CallbackArgOp>) -> io::Result<()> {
    let mut from = Decoder::new(rpc.receive_record()?);
    let call = CallHeader::decode(&mut from).map_err(io::Error::other)?;
    let header = CallbackHeader::decode(&mut from).map_err(io::Error::other)?;
    let mut op = || CallbackArgOp::decode(&mut from, header.minor_version);
    let (first, second) = (op(), op());
    let Ok(CallbackArgOp::Sequence(sequence)) = first else {
        return Err(io::Error::other(format!("a callback without CB_SEQUENCE: {first:?}")));
    };
    let op = second.map_err(|error| io::Error::other(format!("{error:?}")))?;
    let result = match &op {
        CallbackArgOp::Recall(_) => CallbackResOp::Recall(Ok(())),
        CallbackArgOp::LayoutRecall(_) => CallbackResOp::LayoutRecall(Ok(())),
        CallbackArgOp::NotifyLock(_) => CallbackResOp::NotifyLock(Ok(())),
        CallbackArgOp::RecallAny(_) => CallbackResOp::RecallAny(Ok(())),
        other => return Err(io::Error::other(format!("an unexpected callback: {other:?}"))),
    };
    // Before the answer: the server may act on it immediately.
    received.send(op).map_err(io::Error::other)?;
    let mut to = Encoder::new();
    call.accepted(OpaqueAuth::none(), AcceptStatus::Success).encode(&mut to);
    let (status, tag) = (NfsStatus::Ok, Bytes::new());
    CompoundReplyHeader { status, tag, op_count: 2 }.encode(&mut to);
    CallbackResOp::Sequence(Ok(CallbackSequenceResult {
        session_id: sequence.session_id,
        sequence_id: sequence.sequence_id,
        slot_id: sequence.slot_id,
        highest_slot_id: sequence.highest_slot_id,
        target_highest_slot_id: sequence.highest_slot_id,
    }))
    .encode(&mut to);
    result.encode(&mut to);
    rpc.send_record(&to.to_vec())
}
