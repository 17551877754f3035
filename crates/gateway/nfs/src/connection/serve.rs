//! The task of a connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::rpc::message::MessageType;
use braid_nfs_wire::rpc::record::RecordReader;
use braid_share::Share;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{Connection, FIRST_REQUEST_MAX, IDLE_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, STALL_MAX};
use crate::rpc::{self, Answer};
use crate::server::NfsServer;

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
enum ReadEnd {
    #[error("closed by the client")]
    Closed,
    #[error("closed by the server")]
    ClosedHere,
    #[error("no request for {0:?}")]
    Idle(Duration),
    #[error("a record was not completed in {STALL_MAX:?}")]
    Stalled,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Record(#[from] braid_nfs_wire::rpc::record::RecordError),
    #[error("a message that is neither call nor reply: {0}")]
    Message(#[from] braid_nfs_wire::xdr::XdrError),
}

/// Serves a connection until it ends. `stream` is its receiving half.
pub async fn serve<S: Share>(
    server: Arc<NfsServer<S>>,
    connection: Arc<Connection>,
    stream: impl AsyncRead + Send + Unpin,
) {
    let of_server = Arc::clone(server.request_bytes());
    let mut reader = CallReader::new(&connection, stream, of_server);
    let reason = run(&server, &connection, &mut reader).await;
    tracing::debug!(peer = %connection.peer(), %reason, "connection ends");
    connection.close();
    connection.writer.shut_down().await;
}

/// Reads calls and runs them. When reading ends, the call that runs here is still completed: what
/// it does may not be done twice, so its reply must get into the replay cache.
async fn run<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    reader: &mut CallReader<'_, impl AsyncRead + Unpin>,
) -> ReadEnd {
    loop {
        let call = match reader.next().await {
            Ok(call) => call,
            Err(end) => return end,
        };
        // This one runs here; while it waits, further ones are read and run in tasks.
        let mut here = pin!(execute(Arc::clone(server), Arc::clone(connection), call));
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                () = &mut here => break,
                next = reader.next(), if end.is_none() => match next {
                    Ok(call) => {
                        let (server, connection) = (Arc::clone(server), Arc::clone(connection));
                        tokio::spawn(execute(server, connection, call));
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

/// Runs one call and sends the reply.
async fn execute<S: Share>(server: Arc<NfsServer<S>>, connection: Arc<Connection>, call: Call) {
    match rpc::execute(&server, &connection, call.record).await {
        Answer::Reply(reply) => connection.send_reply(reply).await,
        Answer::Nothing => {}
        Answer::Close => connection.close(),
    }
    drop(call.permits);
}

/// A call that was received, with the permits that limit how many are in memory.
struct Call {
    record: Bytes,
    permits: [OwnedSemaphorePermit; 3],
}

/// Reads calls from a stream. Replies to callbacks are delivered as they
/// arrive.
struct CallReader<'a, R> {
    connection: &'a Connection,
    stream: R,
    records: RecordReader,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    server_bytes: Arc<Semaphore>,
    /// A record that waits for permits.
    waiting: Option<Bytes>,
    /// When the peer must have sent the next whole record.
    deadline: Instant,
    /// The time from the last record to `deadline`.
    patience: Duration,
    /// Whether the peer has begun a record.
    begun: bool,
}

impl<'a, R: AsyncRead + Unpin> CallReader<'a, R> {
    fn new(connection: &'a Connection, stream: R, server_bytes: Arc<Semaphore>) -> Self {
        Self {
            connection,
            stream,
            records: RecordReader::new(),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(REQUEST_BYTES_MAX)),
            server_bytes,
            waiting: None,
            deadline: Instant::now() + FIRST_REQUEST_MAX,
            patience: FIRST_REQUEST_MAX,
            begun: false,
        }
    }

    /// The next call. Cancelling loses nothing.
    async fn next(&mut self) -> Result<Call, ReadEnd> {
        loop {
            if let Some(record) = &self.waiting {
                // Invariant 1. The record itself is in memory already; it is limited by the reader.
                let cost = u32::try_from(record.len()).unwrap_or(u32::MAX).max(1);
                let permits = [
                    permits(&self.requests, 1).await,
                    permits(&self.bytes, cost).await,
                    permits(&self.server_bytes, cost).await,
                ];
                let record = self.waiting.take().expect("checked above");
                self.expect_record(IDLE_MAX, false);
                return Ok(Call { record, permits });
            }
            if let Some(record) = self.records.next_record()? {
                let (xid, kind) = MessageType::peek(&record)?;
                match kind {
                    MessageType::Call => self.waiting = Some(record),
                    _ => {
                        self.connection.deliver(xid, record);
                        self.expect_record(IDLE_MAX, false);
                    }
                }
                continue;
            }
            if !self.begun && !self.records.is_between_records() {
                self.expect_record(STALL_MAX, true);
            }
            if self.connection.is_closed() {
                return Err(ReadEnd::ClosedHere);
            }
            let mut space = self.records.unfilled();
            let read = tokio::select! {
                read = timeout_at(self.deadline, self.stream.read_buf(&mut space)) => read,
                () = self.connection.close.notified() => return Err(ReadEnd::ClosedHere),
            };
            match read {
                Ok(Ok(0)) => return Err(ReadEnd::Closed),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if self.begun => return Err(ReadEnd::Stalled),
                Err(_) => return Err(ReadEnd::Idle(self.patience)),
            }
        }
    }

    fn expect_record(&mut self, patience: Duration, begun: bool) {
        self.patience = patience;
        self.deadline = Instant::now() + patience;
        self.begun = begun;
    }
}

async fn permits(of: &Arc<Semaphore>, number: u32) -> OwnedSemaphorePermit {
    let permits = Arc::clone(of).acquire_many_owned(number).await;
    permits.expect("the semaphores are never closed")
}
