//! The task of a connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use braid_share::Share;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

use super::budget::{Permits, SharedBudget};
use super::{Connection, FRAME_BYTES_BEFORE_LOGON, FRAME_BYTES_MAX, LOGON_MAX, STALL_MAX};
use crate::request;
use crate::server::SmbServer;

/// Bytes of the length in front of a frame. MS-SMB2 2.1.
const PREFIX_BYTES: usize = 4;
/// Most bytes that are made room for before a part of a frame has arrived.
const RESERVE_BYTES: usize = 1 << 20;

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error("closed by the client")]
    Closed,
    #[error("closed by the server")]
    ClosedHere,
    #[error("no logon for {0:?}")]
    NoLogon(Duration),
    #[error("a frame was not completed in {STALL_MAX:?}")]
    Stalled,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a frame of {0} bytes, or no SMB at all")]
    Length(u32),
}

/// Serves a connection until it ends, and ends its sessions; their durable opens are kept.
/// `stream` is its receiving half.
pub async fn serve<S: Share>(
    server: Arc<SmbServer<S>>,
    connection: Arc<Connection>,
    stream: impl AsyncRead + Send + Unpin,
) {
    let mut reader = FrameReader::new(&connection, stream, server.budget());
    let reason = run(&server, &connection, &mut reader).await;
    tracing::debug!(peer = %connection.peer(), %reason, "connection ends");
    connection.close();
    connection.writer.shut_down().await;
    // A logon that ends now sees that the connection is closed, and adds no session.
    for id in connection.take_sessions() {
        server.disconnect_session(id).await;
    }
}

/// Reads frames and runs them. When reading ends, the frame that runs here is still completed.
async fn run<S: Share>(
    server: &Arc<SmbServer<S>>,
    connection: &Arc<Connection>,
    reader: &mut FrameReader<'_, impl AsyncRead + Unpin>,
) -> ReadEnd {
    loop {
        let frame = match reader.next().await {
            Ok(frame) => frame,
            Err(end) => return end,
        };
        // This one runs here; while it waits, further ones are read and run in tasks.
        let mut here = pin!(execute(Arc::clone(server), Arc::clone(connection), frame));
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                () = &mut here => break,
                next = reader.next(), if end.is_none() => match next {
                    Ok(frame) => {
                        let (server, connection) = (Arc::clone(server), Arc::clone(connection));
                        tokio::spawn(execute(server, connection, frame));
                    }
                    Err(reason) => end = Some(reason),
                },
            }
        }
        if let Some(end) = end {
            return end;
        }
    }
}

/// Runs one frame and sends the response.
async fn execute<S: Share>(server: Arc<SmbServer<S>>, connection: Arc<Connection>, frame: Frame) {
    let Frame { bytes, permits: Permits { frame: running, request, mut response } } = frame;
    let result = request::execute(&server, &connection, bytes, &mut response).await;
    // Invariant 1 of `budget`: the bytes of the requests are no longer needed.
    drop(request);
    match result {
        Ok(answer) if answer.frame.is_empty() => {}
        Ok(answer) => {
            response.shrink_to(answer.frame.iter().map(Bytes::len).sum());
            connection.send(&answer.frame).await;
            // Requests that wait may be answered from here on.
            drop(answer.sent);
        }
        Err(reason) => {
            if connection.is_first_mistake() {
                tracing::info!(peer = %connection.peer(), %reason, "a client is disconnected");
            }
            connection.close();
        }
    }
    drop((running, response));
}

/// A frame that was received, with the permits that limit how many are in memory.
struct Frame {
    bytes: Bytes,
    permits: Permits,
}

/// Reads frames from a stream.
struct FrameReader<'a, R> {
    connection: &'a Connection,
    stream: R,
    /// What has arrived and is not a whole frame yet.
    buffer: BytesMut,
    shared: &'a SharedBudget,
    /// A frame that waits for permits.
    waiting: Option<Bytes>,
    /// When the peer must have sent the rest of the frame that it began.
    stalled: Option<Instant>,
    /// When the peer must have logged on.
    logged_on: Instant,
}

impl<'a, R: AsyncRead + Unpin> FrameReader<'a, R> {
    fn new(connection: &'a Connection, stream: R, shared: &'a SharedBudget) -> Self {
        Self {
            connection,
            stream,
            buffer: BytesMut::new(),
            shared,
            waiting: None,
            stalled: None,
            logged_on: Instant::now() + LOGON_MAX,
        }
    }

    /// The next frame. Cancelling loses nothing.
    async fn next(&mut self) -> Result<Frame, ReadEnd> {
        loop {
            if self.connection.is_closed() {
                return Err(ReadEnd::ClosedHere);
            }
            if let Some(frame) = &self.waiting {
                // Invariant 1. The frame itself is in memory already; its length is limited.
                let has_session = self.connection.session_count() > 0;
                let budget = &self.connection.budget;
                let admitted = budget.admit(self.shared, has_session, frame.len());
                let permits = tokio::select! {
                    permits = admitted => permits,
                    () = self.connection.close.notified() => return Err(ReadEnd::ClosedHere),
                };
                let bytes = self.waiting.take().expect("checked above");
                return Ok(Frame { bytes, permits });
            }
            if let Some(frame) = self.split()? {
                self.stalled = None;
                self.waiting = Some(frame);
                continue;
            }
            if !self.buffer.is_empty() && self.stalled.is_none() {
                self.stalled = Some(Instant::now() + STALL_MAX);
            }
            self.read().await?;
        }
    }

    /// Reads what has arrived, at least a byte.
    async fn read(&mut self) -> Result<(), ReadEnd> {
        let has_session = self.connection.session_count() > 0;
        let deadline = match self.stalled {
            Some(stalled) => Some(stalled),
            None if has_session => None,
            None => Some(self.logged_on),
        };
        let far = Instant::now() + Duration::from_secs(86_400);
        let arrives = self.stream.read_buf(&mut self.buffer);
        let read = tokio::select! {
            read = timeout_at(deadline.unwrap_or(far), arrives) => read,
            () = self.connection.close.notified() => return Err(ReadEnd::ClosedHere),
        };
        match read {
            Ok(Ok(0)) => Err(ReadEnd::Closed),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) if deadline.is_none() => Ok(()),
            // It has logged on meanwhile.
            Err(_) if self.stalled.is_none() && self.connection.session_count() > 0 => Ok(()),
            Err(_) if self.stalled.is_some() => Err(ReadEnd::Stalled),
            Err(_) => Err(ReadEnd::NoLogon(LOGON_MAX)),
        }
    }

    /// The first frame in the buffer, if it is whole; else makes room for more of it.
    fn split(&mut self) -> Result<Option<Bytes>, ReadEnd> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else {
            self.buffer.reserve(64 << 10);
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix);
        // The first byte is 0, 2.1; in a session of NetBIOS it would be a type.
        let most = match self.connection.session_count() {
            0 => FRAME_BYTES_BEFORE_LOGON,
            _ => FRAME_BYTES_MAX,
        };
        if length as usize > most {
            return Err(ReadEnd::Length(length));
        }
        let whole = PREFIX_BYTES + length as usize;
        if self.buffer.len() < whole {
            let missing = whole - self.buffer.len();
            self.buffer.reserve(missing.min(RESERVE_BYTES));
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(whole).freeze();
        Ok(Some(frame.split_off(PREFIX_BYTES)))
    }
}
