//! The client engine's driver over the simulated network.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use braid_net::{Answer, Driver, Endpoint, Exchange, NetError, handshake::ClientHandshake};
use braid_types::ConnectionId;
use braid_wire::{
    FrameFlags, FrameHeader,
    message::{OP_AUTH, OP_HELLO},
};

use crate::{
    network::{Direction, Host, Network, ReceiveQueue, ReceivedCall, Transmission},
    random::Random,
    world::{Simulation, Sleep},
};

/// A [`Driver`] on one host of the simulated network.
#[derive(Clone, Debug)]
pub struct SimDriver {
    network: Network,
    host: Host,
    random: Arc<Random>,
}

/// A connection of the simulated network, from its client's side.
#[derive(Debug)]
pub struct SimConnection {
    network: Network,
    number: u64,
    server: String,
    arrivals: Arc<ReceiveQueue>,
    next_request: AtomicU64,
    id: ConnectionId,
    credits: u32,
}

impl SimDriver {
    /// A driver for a process on `host`.
    pub fn new(network: Network, host: Host, seed: u64) -> Self {
        let random = Arc::new(Random::new(seed, &format!("driver {}", host.0)));
        Self { network, host, random }
    }

    /// The simulation that the driver is part of.
    pub fn world(&self) -> &Simulation {
        self.network.world()
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<SimConnection, NetError> {
        let started = self.now();
        let mut why = "it has no address".to_owned();
        let count = endpoint.addresses.len() as u32;
        for (index, address) in endpoint.addresses.iter().enumerate() {
            let left = deadline.saturating_sub(self.now()) / (count - index as u32);
            match self.open_at(endpoint, address, self.now() + left).await {
                Ok(connection) => return Ok(connection),
                Err(error @ (NetError::Refused { .. } | NetError::PeerMisbehaved { .. })) => {
                    return Err(error);
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(NetError::Unreachable { server: endpoint.name(), waited: self.now() - started, why })
    }

    async fn open_at(
        &self,
        endpoint: &Endpoint,
        address: &str,
        deadline: Duration,
    ) -> Result<SimConnection, NetError> {
        let server = endpoint.name();
        let Some((number, arrivals)) = self.network.connect(self.host, address) else {
            let why = "no host has that address".to_owned();
            return Err(NetError::ConnectionLost { server, why });
        };
        let mut connection = SimConnection {
            network: self.network.clone(),
            number,
            server,
            arrivals,
            next_request: AtomicU64::new(1),
            id: ConnectionId::default(),
            credits: 1,
        };
        let mut nonce = [0; 32];
        self.random.fill(&mut nonce);
        let mut handshake = ClientHandshake::new(endpoint, true, nonce);
        let (header, body) =
            self.shake(&mut connection, OP_HELLO, handshake.hello(), deadline).await?;
        handshake.hello_reply(&header, &body)?;
        let auth = handshake.auth([0; 32]);
        let (header, body) = self.shake(&mut connection, OP_AUTH, auth, deadline).await?;
        let established = handshake.auth_reply(&header, &body)?;
        (connection.credits, connection.id) = (established.credits, established.connection);
        Ok(connection)
    }

    /// Sends a frame of the handshake; its request id is 0.
    async fn shake(
        &self,
        connection: &mut SimConnection,
        _op: u16,
        frame: Vec<u8>,
        deadline: Duration,
    ) -> Result<(FrameHeader, Vec<u8>), NetError> {
        connection.arrivals.expect(0);
        self.network.send(connection.number, Direction::ToServer, Transmission::Frame(frame));
        let call = connection.wait(self, 0, deadline).await?;
        call.end.ok_or_else(|| NetError::ConnectionLost {
            server: connection.server.clone(),
            why: "no end".into(),
        })
    }
}

impl SimConnection {
    fn send(&self, op: u16, body: &[u8], payload: &[&[u8]]) -> u64 {
        let request_id = self.next_request.fetch_add(1, Ordering::Relaxed);
        self.arrivals.expect(request_id);
        let frame = crate::network::frame(op, FrameFlags::REQUEST, request_id, body, payload);
        self.network.send(self.number, Direction::ToServer, Transmission::Frame(frame));
        request_id
    }

    fn wait<'a>(&'a self, driver: &'a SimDriver, request_id: u64, deadline: Duration) -> Wait<'a> {
        let alarm = driver.world().sleep_until(deadline);
        Wait { connection: self, request_id, started: driver.now(), alarm }
    }

    fn lost(&self, why: String) -> NetError {
        NetError::ConnectionLost { server: self.server.clone(), why }
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        self.network.close(self.number);
    }
}

/// Waits for one reply, until a deadline.
struct Wait<'a> {
    connection: &'a SimConnection,
    request_id: u64,
    started: Duration,
    alarm: Sleep,
}

impl Future for Wait<'_> {
    type Output = Result<ReceivedCall, NetError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let connection = self.connection;
        if let Some(arrived) = connection.arrivals.take(self.request_id) {
            return Poll::Ready(arrived.map_err(|why| connection.lost(why)));
        }
        if Pin::new(&mut self.alarm).poll(context).is_ready() {
            let waited = connection.network.world().now() - self.started;
            return Poll::Ready(Err(NetError::TimedOut {
                server: connection.server.clone(),
                waited,
                permit_wait: Duration::ZERO,
            }));
        }
        connection.arrivals.wait(context.waker());
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.connection.arrivals.forget(self.request_id);
    }
}

impl Driver for SimDriver {
    type Connection = SimConnection;
    type Shared = SimConnection;

    async fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<SimConnection, NetError> {
        self.open(endpoint, deadline).await
    }

    async fn connect_shared(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<SimConnection, NetError> {
        self.open(endpoint, deadline).await
    }

    fn connection_id(connection: &SimConnection) -> ConnectionId {
        connection.id
    }

    async fn exchange(
        &self,
        connections: &mut [SimConnection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) {
        // When each connection last answered; a reply arrives in one piece here.
        let mut last_answer = vec![self.now(); connections.len()];
        let mut sent: Vec<Option<u64>> = vec![None; batch.len()];
        let mut broken: Vec<Option<NetError>> = vec![None; connections.len()];
        batch.iter_mut().for_each(|exchange| exchange.outcome = None);
        // A wave is what the credits of each connection allow. The next wave is sent when this one
        // is answered.
        while batch.iter().any(|exchange| exchange.outcome.is_none()) {
            send_wave(connections, batch, &mut sent);
            for index in 0..batch.len() {
                let (Some(request_id), None) = (sent[index], &batch[index].outcome) else {
                    continue;
                };
                let which = batch[index].connection;
                let outcome = match &broken[which] {
                    Some(error) => Err(error.clone()),
                    None => {
                        let deadline = last_answer[which].saturating_add(silence_max);
                        connections[which].wait(self, request_id, deadline).await
                    }
                };
                last_answer[which] = self.now();
                let outcome = outcome
                    .and_then(|call| scatter(&connections[which], call, &mut batch[index].recv));
                if let Err(error) = &outcome {
                    broken[which].get_or_insert_with(|| error.clone());
                }
                batch[index].outcome = Some(outcome);
            }
        }
    }

    async fn call(
        &self,
        connection: &SimConnection,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> Result<Answer, NetError> {
        let request_id = connection.send(op, body, &[]);
        let call = connection.wait(self, request_id, deadline).await?;
        scatter(connection, call, &mut [])
    }

    fn now(&self) -> Duration {
        self.world().now()
    }

    async fn sleep(&self, time: Duration) {
        self.world().sleep(time).await;
    }
}

fn send_wave(connections: &[SimConnection], batch: &[Exchange<'_>], sent: &mut [Option<u64>]) {
    let mut left: Vec<u32> = connections.iter().map(|connection| connection.credits).collect();
    for (exchange, sent) in batch.iter().zip(sent) {
        let credits = &mut left[exchange.connection];
        if exchange.outcome.is_none() && *credits > 0 {
            *credits -= 1;
            let payload: Vec<&[u8]> = exchange.send.iter().map(|piece| &**piece).collect();
            *sent =
                Some(connections[exchange.connection].send(exchange.op, &exchange.body, &payload));
        }
    }
}

/// Copies the payload of a reply to the caller's buffers.
fn scatter(
    connection: &SimConnection,
    call: ReceivedCall,
    into: &mut [std::io::IoSliceMut<'_>],
) -> Result<Answer, NetError> {
    let ReceivedCall { payload, end } = call;
    let space: usize = into.iter().map(|piece| piece.len()).sum();
    let (Some((_, body)), true) = (end, payload.len() <= space) else {
        let what = format!("{} bytes of payload where the call expects {space}", payload.len());
        return Err(NetError::PeerMisbehaved { server: connection.server.clone(), what });
    };
    let mut rest = &payload[..];
    for piece in into {
        let (now, later) = rest.split_at(piece.len().min(rest.len()));
        piece[..now.len()].copy_from_slice(now);
        rest = later;
    }
    Ok(Answer { body, payload_bytes: payload.len() as u64 })
}
