//! Delays for servers of any kind.
#![cfg(target_os = "linux")]

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use braid_netlab::{Network, ServerRelay, Spec};

const PORT: u16 = 5000;
const EACH_WAY: Duration = Duration::from_millis(40);

/// The round-trip time of a byte.
fn round_trip(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    start.elapsed()
}

#[test]
fn a_relay_delays_new_connections_only_while_it_runs() {
    if let Err(error) = braid_netlab::check_requirements() {
        return println!("skipped: {error:#}");
    }
    let network = Network::new(&Spec { iods: 1, ..Spec::default() }, "").unwrap();
    let (server, client) = (network.host("iod0").unwrap(), network.host("client0").unwrap());
    let listener = server.inside(|| Ok(TcpListener::bind((server.address(), PORT))?)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        }
    });
    let connect = || client.inside(|| Ok(TcpStream::connect((server.address(), PORT))?)).unwrap();
    let mut before = connect();
    round_trip(&mut before);
    let detour = match ServerRelay::start(server, &[PORT], EACH_WAY) {
        Err(error) if format!("{error:#}").contains("nft") => {
            return println!("skipped: {error:#}");
        }
        detour => detour.unwrap(),
    };
    let mut late = connect();
    assert!((0..3).all(|_| round_trip(&mut late) >= 2 * EACH_WAY));
    // On a busy machine one round trip may take long; out of a hundred at least one is fast.
    assert!((0..100).any(|_| round_trip(&mut before) < 2 * EACH_WAY));
    drop(detour);
    let mut after = connect();
    assert!((0..100).any(|_| round_trip(&mut after) < 2 * EACH_WAY));
}
