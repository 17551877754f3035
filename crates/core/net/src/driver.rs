//! The interface of the client engine to a network: connections, exchanges, time.
//!
//! The engine plans which request goes to which server; a [`Driver`] moves the frames. There are
//! three: the blocking one (the calling thread sends, and receives into the caller's buffer; its
//! futures are always ready when first polled), the tokio one, and the simulated one of the tests.

use std::{
    future::Future,
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_types::{ClusterUuid, ConnectionId, Failure};
use braid_wire::{Credential, NodeKind, Role, Secret};

use crate::pipe::Pipe;

/// A server's addresses, and how the caller authenticates.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The kind of server that must answer.
    pub node: NodeKind,
    /// Its stable I/O daemon id, 0 for the metadata server. An answer by another server is refused.
    pub node_id: u32,
    /// The cluster that it must belong to. `None` accepts any, since the key proves the rest.
    pub cluster: Option<ClusterUuid>,
    /// `host:port`, tried in order.
    pub addresses: Vec<String>,
    /// The role that the caller wants.
    pub role: Role,
    /// The key that the caller proves.
    pub credential: Credential,
    /// The secret of that key.
    pub secret: Secret,
    /// When to use TLS.
    pub tls: TlsPolicy,
}

impl Endpoint {
    /// The name of the server in errors: `metadata server at host:port`, `I/O daemon 3 at
    /// host:port`.
    pub fn name(&self) -> String {
        let at = self.addresses.first().map_or("no address", String::as_str);
        match self.node {
            NodeKind::Iod => format!("I/O daemon {} at {at}", self.node_id),
            _ => format!("metadata server at {at}"),
        }
    }
}

/// The time limit of a program's call, over all servers that it involves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallTimeLimit {
    /// When it ends, on the driver's clock.
    pub until: Duration,
    /// Its length at the beginning.
    pub time: Duration,
}

/// When a connection uses TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsPolicy {
    /// Unless the peer is on loopback.
    #[default]
    UnlessLoopback,
    /// Always.
    Always,
    /// Never. The operator must configure this explicitly.
    Never,
}

/// Why a call has no answer. A refusal by the server itself is a [`Failure`] inside the answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// No connection was established in time.
    #[error("{server} was not reached{}: {why}", tried(*waited))]
    Unreachable {
        /// The name of the server.
        server: String,
        /// How long connecting was tried.
        waited: Duration,
        /// The last reason.
        why: String,
    },
    /// The connection ended before the answer.
    #[error("the connection to {server} was lost: {why}")]
    ConnectionLost {
        /// The name of the server.
        server: String,
        /// The reason.
        why: String,
    },
    /// The answer did not arrive in time. The connection is not used again.
    #[error("{server} did not answer{}", tried(*waited))]
    TimedOut {
        /// The name of the server.
        server: String,
        /// How long the call waited for it, since the last byte that moved.
        waited: Duration,
        /// How long the call waited for a receive permit before the request was sent.
        permit_wait: Duration,
    },
    /// The call waited for a receive permit, and no server sent anything. No request was sent, and
    /// the connection stays usable.
    #[error("no request was sent to {server}: no server sent any data{}", tried(*waited))]
    NotSent {
        /// The server of the request.
        server: String,
        /// How long nothing arrived.
        waited: Duration,
    },
    /// The server's bytes violate the protocol.
    #[error("{server} broke the protocol: {what}")]
    PeerMisbehaved {
        /// The name of the server.
        server: String,
        /// The violation.
        what: String,
    },
    /// The handshake was refused.
    #[error("{server} refused the connection: {failure}")]
    Refused {
        /// The name of the server.
        server: String,
        /// Its reason.
        failure: Failure,
    },
}

/// ` in 2.9 s`; empty for an immediate failure, where a time of 14 µs would say nothing.
fn tried(waited: Duration) -> String {
    const AT_ONCE: Duration = Duration::from_millis(100);
    if waited < AT_ONCE { String::new() } else { format!(" in {:.1} s", waited.as_secs_f64()) }
}

/// The final frame of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Body of the final frame; decode it with [`braid_wire::decode_outcome`].
    pub body: Vec<u8>,
    /// Payload bytes in all frames of the call.
    pub payload_bytes: u64,
}

/// One call to one I/O daemon, with its data.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// Index of its connection in the batch's list.
    pub connection: usize,
    /// Message number.
    pub op: u16,
    /// Encoded message.
    pub body: Vec<u8>,
    /// Payload of the request, as slices.
    pub send: Vec<IoSlice<'a>>,
    /// Destination of the reply's payload, filled in order. A reply with more payload than fits is
    /// [`NetError::PeerMisbehaved`]; one with less leaves the rest unchanged.
    pub recv: Vec<IoSliceMut<'a>>,
    /// Set by the driver.
    pub outcome: Option<Result<Answer, NetError>>,
}

impl Exchange<'_> {
    /// Maximum payload bytes of the reply.
    pub(crate) fn reply_capacity(&self) -> u64 {
        self.recv.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Moves frames for the client engine.
///
/// Every `deadline` is a time on the clock of [`Driver::now`]. Every `silence_max` is the longest
/// time in which a connection may move no byte in either direction; each byte restarts it. While a
/// call waits for a receive permit, it is the longest time in which no connection of the host may
/// receive a byte.
pub trait Driver: Send + Sync + 'static {
    /// A connection that one batch uses at a time: to I/O daemons.
    type Connection: Send;
    /// A connection that many callers share: to the metadata server.
    type Shared: Send + Sync;

    /// Connects and runs the handshake.
    fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Connection, NetError>> + Send;

    /// Connects and runs the handshake.
    fn connect_shared(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Shared, NetError>> + Send;

    /// The connection's id. A later connection to the same server can abandon the connection by
    /// this id.
    fn connection_id(connection: &Self::Connection) -> ConnectionId;

    /// Runs every exchange of the batch and sets every `outcome`. Exchanges of different
    /// connections run at the same time; those of one connection are pipelined in order, as far as
    /// its credits allow.
    ///
    /// After an error on a connection its other exchanges fail with the same error, and the
    /// connection must not be used again, except after [`NetError::NotSent`]. A server that is
    /// silent for `silence_max` fails its own connection and no other.
    ///
    /// Answers may be received from one connection after another, in the order of `connections`.
    /// Meanwhile the caller's window may block a later server. Callers whose answers depend on each
    /// other must all list their connections in the same order of servers.
    fn exchange(
        &self,
        connections: &mut [Self::Connection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) -> impl Future<Output = ()> + Send;

    /// One exchange that receives payload and sends none. The payload goes into `pipe`, which was
    /// begun, without passing through user memory; it has at most as many bytes as `buffer`. If the
    /// pipe becomes full, the whole payload goes into `buffer`.
    ///
    /// `None`: this connection cannot splice, and nothing was sent. After an error, or a failure as
    /// answer, the content of the pipe is undefined.
    fn exchange_into_pipe(
        &self,
        connection: &mut Self::Connection,
        (op, body): (u16, &[u8]),
        (pipe, buffer): (&mut Pipe, &mut [u8]),
        silence_max: Duration,
    ) -> impl Future<Output = Option<Result<Answer, NetError>>> + Send {
        let _ = (connection, op, body, pipe, buffer, silence_max);
        std::future::ready(None)
    }

    /// One exchange that receives payload and sends none. The payload is received into memory of
    /// the driver, which the caller then has without a copy: at most `payload_bytes_max` bytes,
    /// else [`NetError::PeerMisbehaved`].
    ///
    /// `None`: this driver receives only into the caller's memory, and nothing was sent.
    fn exchange_to_vec(
        &self,
        connection: &mut Self::Connection,
        (op, body): (u16, Vec<u8>),
        payload_bytes_max: usize,
        silence_max: Duration,
    ) -> impl Future<Output = Option<Result<(Answer, Vec<u8>), NetError>>> + Send {
        let _ = (connection, op, body, payload_bytes_max, silence_max);
        std::future::ready(None)
    }

    /// One call without payload on a shared connection.
    fn call(
        &self,
        connection: &Self::Shared,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> impl Future<Output = Result<Answer, NetError>> + Send;

    /// Monotonic time since the driver was made. In the blocking driver it includes suspended time.
    fn now(&self) -> Duration;

    /// The time limit of the program's call that is being served (I8). `None`: each call to a
    /// server has its own time-out.
    fn call_deadline(&self) -> Option<CallTimeLimit> {
        None
    }

    /// Servers have moved bytes: the call may take until `until`, if its limit is earlier.
    fn extend_call_deadline(&self, until: Duration) {
        let _ = until;
    }

    /// Records that the call waited for this server without success.
    fn blame(&self, server: &str) {
        let _ = server;
    }

    /// The server that the call last waited for without success.
    fn blamed(&self) -> Option<String> {
        None
    }

    /// Waits for `time`.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_error_has_the_time_unless_it_failed_immediately() {
        let waited_error = |waited| {
            let (server, why) = ("I/O daemon 3 at h:1".to_owned(), "connection refused".to_owned());
            NetError::Unreachable { server, waited, why }.to_string()
        };
        assert_eq!(
            waited_error(Duration::from_micros(14)),
            "I/O daemon 3 at h:1 was not reached: connection refused"
        );
        assert_eq!(
            waited_error(Duration::from_millis(2949)),
            "I/O daemon 3 at h:1 was not reached in 2.9 s: connection refused"
        );
    }
}
