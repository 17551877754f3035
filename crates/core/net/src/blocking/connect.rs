//! Connects, and runs the client's side of the handshake, on the calling thread.

use std::{
    io::{self, ErrorKind, IoSlice},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use braid_wire::{CHANNEL_BINDING_BYTES, FrameHeader};

use super::resolve::{self, Resolver};
use crate::{
    driver::{Endpoint, NetError},
    frames::FrameBuffer,
    handshake::{ClientHandshake, Established, HANDSHAKE_BODY_BYTES_MAX},
    random::random_bytes,
    tcp, tls,
    transport::{Transport, Wait},
};

/// Buffer size; the frames of a usual handshake fit.
const BUFFER_BYTES: usize = 1024;

/// A connection whose peer is authenticated.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) server: String,
    pub(crate) transport: Transport,
    pub(crate) established: Established,
}

/// Tries the addresses in order until one is reached, then runs the handshake there.
pub(crate) fn connect(endpoint: &Endpoint, deadline: Instant) -> Result<Connected, NetError> {
    let begin = Instant::now();
    let unreachable = |why: String| NetError::Unreachable {
        server: endpoint.name(),
        waited: begin.elapsed(),
        why,
    };
    let transport = reach(&endpoint.addresses, &resolve::SYSTEM, deadline).map_err(unreachable)?;
    let established = shake_hands(endpoint, &transport, begin, deadline)?;
    Ok(Connected { server: endpoint.name(), transport, established })
}

fn reach(
    addresses: &[String],
    names: &'static Resolver,
    deadline: Instant,
) -> Result<Transport, String> {
    let mut why = "it has no address".to_string();
    for (index, address) in addresses.iter().enumerate() {
        // an address that drops packets must leave time for the following ones
        let share = remaining(deadline) / (addresses.len() - index) as u32;
        match reach_one(address, names, Instant::now() + share).and_then(Transport::new) {
            Ok(transport) => return Ok(transport),
            Err(error) => why = format!("{address}: {}", explain(&error)),
        }
    }
    Err(why)
}

fn reach_one(address: &str, names: &'static Resolver, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in names.resolve(address, deadline)? {
        match connect_by(&address, deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_by(address: &SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    match remaining(deadline) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => tcp::connect(address, left),
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            format!("{error}; try: start the server, or check the port")
        }
        ErrorKind::TimedOut => {
            format!("{error}; try: check that the host is up and no firewall is between")
        }
        _ => error.to_string(),
    }
}

fn shake_hands(
    endpoint: &Endpoint,
    transport: &Transport,
    begin: Instant,
    deadline: Instant,
) -> Result<Established, NetError> {
    let mut buffer = FrameBuffer::with_body_max(BUFFER_BYTES, HANDSHAKE_BODY_BYTES_MAX);
    let mut handshake = ClientHandshake::new(endpoint, transport.is_loopback(), random_bytes());
    let lost = |error| lost(endpoint, begin, &error);
    let wait = Wait::Until(deadline);

    transport.send_all(&mut [IoSlice::new(&handshake.hello())], false, wait).map_err(lost)?;
    let (header, body) = receive(transport, &mut buffer, &handshake, wait, lost)?;
    let binding = if handshake.hello_reply(&header, &body)? {
        tls::initiate()
            .and_then(|connection| transport.start_tls(connection, wait))
            .map_err(lost)?
    } else {
        [0; CHANNEL_BINDING_BYTES]
    };

    transport.send_all(&mut [IoSlice::new(&handshake.auth(binding))], false, wait).map_err(lost)?;
    let (header, body) = receive(transport, &mut buffer, &handshake, wait, lost)?;
    let established = handshake.auth_reply(&header, &body)?;
    if !buffer.is_empty() || transport.has_received() {
        let what = "it sent bytes before any request".to_string();
        return Err(NetError::PeerMisbehaved { server: endpoint.name(), what });
    }
    Ok(established)
}

fn receive(
    transport: &Transport,
    buffer: &mut FrameBuffer,
    handshake: &ClientHandshake<'_>,
    wait: Wait,
    lost: impl Fn(io::Error) -> NetError,
) -> Result<(FrameHeader, Vec<u8>), NetError> {
    loop {
        if let Some((header, body)) =
            buffer.frame().map_err(|error| handshake.not_a_frame(error))?
        {
            return Ok((header, body.to_vec()));
        }
        match transport.recv_into(buffer.space(), wait).map_err(&lost)? {
            0 => {
                return Err(lost(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "it closed the connection",
                )));
            }
            bytes => buffer.filled(bytes),
        }
    }
}

fn lost(endpoint: &Endpoint, begin: Instant, error: &io::Error) -> NetError {
    let server = endpoint.name();
    match error.kind() {
        ErrorKind::TimedOut => {
            let why = "it accepted the connection and did not answer the handshake".to_string();
            NetError::Unreachable { server, waited: begin.elapsed(), why }
        }
        _ => NetError::ConnectionLost { server, why: error.to_string() },
    }
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn a_name_that_is_never_looked_up_leaves_time_for_the_next_address() {
        static SILENT: Resolver = Resolver::new(|_| {
            loop {
                thread::park();
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let addresses = ["storage.example:7000".to_string(), there.to_string()];
        let reached = reach(&addresses, &SILENT, Instant::now() + Duration::from_secs(2)).unwrap();
        assert_eq!(reached.socket().peer_addr().unwrap(), there);
    }
}
