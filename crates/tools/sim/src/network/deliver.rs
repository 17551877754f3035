//! Delivery of frames from one side of a connection to the other.

use std::sync::Arc;

use braid_net::{handshake::AuthenticatedClient, server::Peer};
use braid_types::Failure;
use braid_wire::{
    FrameHeader,
    message::{OP_AUTH, OP_HELLO},
};

use super::{
    Connection, Direction, Host, Network, ReceiveQueue, State, Transmission,
    host::{Replies, ServerSide, Session, parse},
};

impl Network {
    /// Opens a connection; `None` when no host has the address.
    pub(crate) fn connect(&self, client: Host, address: &str) -> Option<(u64, Arc<ReceiveQueue>)> {
        let (_, mut state) = self.world_and_state();
        let server = *state.addresses.get(address)?;
        let number = state.next_connection;
        state.next_connection += 1;
        let arrivals = Arc::new(ReceiveQueue::default());
        let connection = Connection {
            client,
            server,
            arrivals: Arc::clone(&arrivals),
            serving: ServerSide::New,
            client_open: true,
            server_open: true,
            arrives: Default::default(),
            held: Default::default(),
        };
        state.connections.insert(number, connection);
        Some((number, arrivals))
    }

    /// The client closes its side of a connection. What it has sent still arrives.
    pub(crate) fn close(&self, number: u64) {
        {
            let (_, mut state) = self.world_and_state();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            connection.client_open = false;
        }
        self.send(number, Direction::ToServer, Transmission::End);
    }

    /// Sends a frame or mark; `false` when the sender's side is closed already.
    pub(crate) fn send(&self, number: u64, direction: Direction, parcel: Transmission) -> bool {
        let (world, mut state) = self.world_and_state();
        let Some(connection) = state.connections.get(&number) else { return false };
        let sender_open = match direction {
            Direction::ToServer => connection.client_open,
            Direction::ToClient => connection.server_open,
        };
        if !sender_open && matches!(parcel, Transmission::Frame(_)) {
            return false;
        }
        let (client, server) = (connection.client, connection.server);
        if matches!(parcel, Transmission::Frame(_))
            && self.0.random.chance(state.weather.resets_per_million)
        {
            let when = state.delay(&self.0.random, client, server) * 2;
            let network = self.clone();
            world.after(when, move || network.reset(number, "connection reset"));
        }
        let delay = state.delay(&self.0.random, client, server);
        let Some(connection) = state.connections.get_mut(&number) else { return false };
        let arrives = (world.now() + delay).max(connection.arrives[direction as usize]);
        connection.arrives[direction as usize] = arrives;
        let network = self.clone();
        world.at(arrives, move || network.deliver(number, direction, parcel));
        true
    }

    /// A frame or mark arrives, unless the link is cut: then it waits.
    pub(super) fn deliver(&self, number: u64, direction: Direction, parcel: Transmission) {
        let (_, mut state) = self.world_and_state();
        let Some(connection) = state.connections.get(&number) else { return };
        let (client, server) = (connection.client, connection.server);
        let lost = match direction {
            Direction::ToServer => !state.hosts[&server].power,
            Direction::ToClient => !state.hosts[&client].power,
        };
        let held = state.is_cut(client, server) || lost;
        let Some(connection) = state.connections.get_mut(&number) else { return };
        if held || connection.held.iter().any(|(other, _)| *other == direction) {
            connection.held.push_back((direction, parcel));
            return;
        }
        drop(state);
        match direction {
            Direction::ToClient => self.to_client(number, &parcel),
            Direction::ToServer => self.to_server(number, parcel),
        }
    }

    fn to_client(&self, number: u64, parcel: &Transmission) {
        let arrivals = {
            let (_, mut state) = self.world_and_state();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            let open = connection.client_open;
            if !matches!(parcel, Transmission::Frame(_)) {
                connection.client_open = false;
            }
            let arrivals = open.then(|| Arc::clone(&connection.arrivals));
            if !connection.client_open && !connection.server_open {
                state.connections.remove(&number);
            }
            arrivals
        };
        let Some(arrivals) = arrivals else { return };
        match parcel {
            Transmission::Frame(frame) => arrivals.arrive(frame),
            Transmission::End => arrivals.break_off("the server closed it"),
            Transmission::Reset(why) => arrivals.break_off(why),
        }
    }

    fn to_server(&self, number: u64, parcel: Transmission) {
        match parcel {
            Transmission::Frame(frame) => self.frame_to_server(number, &frame),
            Transmission::End | Transmission::Reset(_) => self.end_at_server(number),
        }
    }

    /// The server's side closes; its session is dropped.
    pub(super) fn end_at_server(&self, number: u64) {
        let serving = {
            let (_, mut state) = self.world_and_state();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            connection.server_open = false;
            let serving = std::mem::replace(&mut connection.serving, ServerSide::New);
            if !connection.client_open {
                state.connections.remove(&number);
            }
            serving
        };
        drop(serving);
    }

    fn frame_to_server(&self, number: u64, frame: &[u8]) {
        let serving = {
            let (_, mut state) = self.world_and_state();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            if !connection.server_open {
                return;
            }
            let service = state.hosts[&connection_server(&state, number)].service.clone();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            match (&connection.serving, service) {
                (ServerSide::New, None) => {
                    connection.server_open = false;
                    None
                }
                (ServerSide::New, Some(service)) => {
                    let handshake =
                        braid_net::handshake::ServerHandshake::new(service.identity(), true);
                    Some(ServerSide::Handshake(handshake, service))
                }
                _ => Some(std::mem::replace(&mut connection.serving, ServerSide::Open(None))),
            }
        };
        let (Some(serving), Some((header, body, payload))) = (serving, parse(frame)) else {
            self.send(number, Direction::ToClient, Transmission::Reset("connection refused"));
            return;
        };
        let serving = self.serve(number, serving, header, body, payload);
        let ended = {
            let (_, mut state) = self.world_and_state();
            match state.connections.get_mut(&number) {
                // The session ended its own connection or its process: it is dropped below, outside
                // the lock.
                Some(connection) if connection.server_open => {
                    connection.serving = serving;
                    None
                }
                _ => Some(serving),
            }
        };
        drop(ended);
    }

    fn serve(
        &self,
        number: u64,
        serving: ServerSide,
        header: FrameHeader,
        body: &[u8],
        payload: &[u8],
    ) -> ServerSide {
        let replies = Replies::new(self.clone(), number, &header);
        match serving {
            ServerSide::Handshake(mut handshake, service) if header.op == OP_HELLO => {
                let mut nonce = [0; 32];
                self.0.random.fill(&mut nonce);
                match handshake.hello(&header, body, nonce) {
                    Ok((frame, _)) => {
                        self.send(number, Direction::ToClient, Transmission::Frame(frame));
                        ServerSide::Handshake(handshake, service)
                    }
                    Err(refusal) => self.refuse(number, refusal),
                }
            }
            ServerSide::Handshake(handshake, service) if header.op == OP_AUTH => {
                match handshake.auth(&header, body, [0; 32], service.authorizer()) {
                    Ok(AuthenticatedClient { frame, role, credential, connection: id }) => {
                        let (address, connection) = (format!("sim:{number}"), number);
                        let peer = Peer {
                            role,
                            credential,
                            address,
                            loopback: true,
                            tls: false,
                            connection,
                            id,
                        };
                        let served = open(service.connected(&peer));
                        self.send(number, Direction::ToClient, Transmission::Frame(frame));
                        served
                    }
                    Err(refusal) => self.refuse(number, refusal),
                }
            }
            ServerSide::Open(Some(mut session)) => {
                session.request(header, body.to_vec(), payload.to_vec(), replies);
                ServerSide::Open(Some(session))
            }
            ServerSide::Refused(failure) => {
                replies.fail(&failure);
                ServerSide::Refused(failure)
            }
            other => {
                self.reset(number, "the peer broke the protocol");
                other
            }
        }
    }

    fn refuse(&self, number: u64, refusal: braid_net::handshake::Refusal) -> ServerSide {
        self.send(number, Direction::ToClient, Transmission::Frame(refusal.frame));
        ServerSide::Refused(refusal.failure)
    }
}

fn connection_server(state: &State, number: u64) -> Host {
    state.connections[&number].server
}

fn open(connected: Result<Box<dyn Session>, Failure>) -> ServerSide {
    match connected {
        Ok(session) => ServerSide::Open(Some(session)),
        Err(failure) => ServerSide::Refused(failure),
    }
}
