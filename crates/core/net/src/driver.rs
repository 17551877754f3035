//! What the client engine asks of a network: connections, exchanges, time.
//!
//! The engine plans which request goes to which server; a [`Driver`] moves the frames. There are
//! three: the blocking one (the calling thread itself sends, and receives into the caller's buffer;
//! its futures are always ready when first polled), the tokio one, and the simulated one of the tests.

use std::{
    future::Future,
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_types::{ClusterUuid, ConnectionId, Failure};
use braid_wire::{Credential, NodeKind, Role, Secret};

use crate::pipe::Pipe;

/// Where a server is and how the caller proves itself to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What is expected to answer.
    pub node: NodeKind,
    /// Its stable I/O daemon id, 0 for the metadata server; another one's answer is refused.
    pub node_id: u32,
    /// The cluster that it must belong to; `None` accepts any (the key proves the rest).
    pub cluster: Option<ClusterUuid>,
    /// `host:port`; tried in order.
    pub addresses: Vec<String>,
    /// What the caller wants to be.
    pub role: Role,
    /// Which key it proves.
    pub credential: Credential,
    /// That key.
    pub secret: Secret,
    /// Whether TLS is asked for.
    pub tls: TlsPolicy,
}

impl Endpoint {
    /// How errors name the server: `metadata server at host:port`, `I/O daemon 3 at host:port`.
    pub fn name(&self) -> String {
        let at = self.addresses.first().map_or("no address", String::as_str);
        match self.node {
            NodeKind::Iod => format!("I/O daemon {} at {at}", self.node_id),
            _ => format!("metadata server at {at}"),
        }
    }
}

/// How long a program's call may take, whatever servers it asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallBound {
    /// Until when, in the driver's time.
    pub until: Duration,
    /// How long that was in the beginning.
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
    /// Never; the operator turned it off by name.
    Never,
}

/// Why a call has no answer. The server's own refusals are a [`Failure`] inside the answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// No connection came about in time.
    #[error("{server} was not reached{}: {why}", tried(*waited))]
    Unreachable {
        /// Which server.
        server: String,
        /// How long it was tried.
        waited: Duration,
        /// The last reason.
        why: String,
    },
    /// The connection ended before the answer.
    #[error("the connection to {server} was lost: {why}")]
    ConnectionLost {
        /// Which server.
        server: String,
        /// The reason.
        why: String,
    },
    /// The answer did not come in time. The connection is not used again.
    #[error("{server} did not answer{}", tried(*waited))]
    TimedOut {
        /// Which server.
        server: String,
        /// How long it was waited for, since the last byte that moved.
        waited: Duration,
        /// How long the call waited for its turn before the server was asked.
        unasked: Duration,
    },
    /// The call waited for its turn, and nothing came from any server. Nothing was sent, and the connection is as it was.
    #[error("{server} was not asked: nothing came from any server{}", tried(*waited))]
    NotAsked {
        /// Which server would have been asked.
        server: String,
        /// How long nothing came.
        waited: Duration,
    },
    /// The server's bytes break the protocol.
    #[error("{server} broke the protocol: {what}")]
    PeerMisbehaved {
        /// Which server.
        server: String,
        /// How.
        what: String,
    },
    /// The handshake was refused.
    #[error("{server} refused the connection: {failure}")]
    Refused {
        /// Which server.
        server: String,
        /// What it said.
        failure: Failure,
    },
}

/// ` in 2.9 s`; nothing for what failed at once: a refused connection was not tried for 14 µs, it was refused.
fn tried(waited: Duration) -> String {
    const AT_ONCE: Duration = Duration::from_millis(100);
    if waited < AT_ONCE { String::new() } else { format!(" in {:.1} s", waited.as_secs_f64()) }
}

/// The final frame of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Body of the final frame; [`braid_wire::decode_outcome`] reads it.
    pub body: Vec<u8>,
    /// Payload bytes that arrived in all frames of the call.
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
    /// Payload of the request, gathered.
    pub send: Vec<IoSlice<'a>>,
    /// Where the payload of the reply goes, scattered in order. A reply with more payload than room
    /// is [`NetError::PeerMisbehaved`]; one with less leaves the rest untouched.
    pub recv: Vec<IoSliceMut<'a>>,
    /// Set by the driver.
    pub outcome: Option<Result<Answer, NetError>>,
}

impl Exchange<'_> {
    /// Bytes of payload that the reply may have.
    pub(crate) fn room(&self) -> u64 {
        self.recv.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Moves frames for the client engine. Every `deadline` is a point on the clock of [`Driver::now`]; every `silence_max` says how long
/// a connection may move no byte in either direction, and counts anew from each that it moves; where a call waits for its turn, how long no
/// connection may.
pub trait Driver: Send + Sync + 'static {
    /// A connection that one batch uses at a time: to I/O daemons.
    type Connection: Send;
    /// A connection that many callers share: to the metadata server.
    type Shared: Send + Sync;

    /// Connects and shakes hands.
    fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Connection, NetError>> + Send;

    /// Connects and shakes hands.
    fn connect_shared(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Shared, NetError>> + Send;

    /// The connection's id, by which a later connection to the same server can have it abandoned.
    fn connection_id(connection: &Self::Connection) -> ConnectionId;

    /// Does every exchange of the batch, those of different connections at the same time, those of one
    /// connection pipelined in order, as far as its credits allow, and sets every `outcome`. After an error
    /// on a connection its other exchanges fail with the same error and it must not be used again, but for [`NetError::NotAsked`]; a server that is silent for
    /// `silence_max` is such an error, and no other's.
    ///
    /// Answers may be awaited one connection after the other, in the order of `connections`: a server may be held up by the caller's
    /// window meanwhile. Callers whose answers depend on each other all have their connections in one order of the servers.
    fn exchange(
        &self,
        connections: &mut [Self::Connection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) -> impl Future<Output = ()> + Send;

    /// One exchange that asks for payload and sends none. It goes into `pipe`, which was begun, past this process's memory: at most
    /// as much as `buffer` is long. What the pipe has no place for, and then all of it, is put into `buffer`. `None`: this
    /// connection cannot do that, and nothing was sent. After an error, or an answer that is none, the pipe is as it may be.
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

    /// One call without payload on a shared connection.
    fn call(
        &self,
        connection: &Self::Shared,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> impl Future<Output = Result<Answer, NetError>> + Send;

    /// Monotonic time since the driver was made; of the blocking driver with the time that the machine was suspended.
    fn now(&self) -> Duration;

    /// The time of the program's call that is being served (I8). `None`: each call of the engine has its own time.
    fn bound(&self) -> Option<CallBound> {
        None
    }

    /// Servers have moved bytes: that call may take until then, if its bound was earlier.
    fn extend_bound(&self, until: Duration) {
        let _ = until;
    }

    /// Time of that call was spent on this server in vain.
    fn blame(&self, server: &str) {
        let _ = server;
    }

    /// The server on which time of that call was spent in vain last.
    fn blamed(&self) -> Option<String> {
        None
    }

    /// Waits.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_is_told_with_the_time_it_was_tried_or_with_none_when_it_refused_at_once()
     {
        let told = |waited| {
            let (server, why) = ("I/O daemon 3 at h:1".to_owned(), "connection refused".to_owned());
            NetError::Unreachable { server, waited, why }.to_string()
        };
        assert_eq!(
            told(Duration::from_micros(14)),
            "I/O daemon 3 at h:1 was not reached: connection refused"
        );
        assert_eq!(
            told(Duration::from_millis(2949)),
            "I/O daemon 3 at h:1 was not reached in 2.9 s: connection refused"
        );
    }
}
