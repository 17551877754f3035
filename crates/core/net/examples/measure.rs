//! Measures the blocking driver and the server in one process, beside raw TCP in the same run:
//! `cargo run --release -p braid-net --example measure`.
//!
//! Measures round trips of one byte, calls per second of 16 threads over one shared connection and
//! over one each, and the processor time of sequential reads and writes (both sides together) with
//! and without TLS. With the argument `bulk` it measures only the reads and writes.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use braid_net::{
    Blocking, Driver, Endpoint, Exchange, TlsPolicy, block_on,
    server::{
        AdmittedPeer, Authorizer, CallHandler, CallService, Handler, Listener, Peer, Responder,
        ServerConfig, ServerConnection,
    },
};
use braid_types::{
    ClusterUuid, Failure,
    limits::{REPLY_DATA_BYTES_MAX, WINDOW_BYTES},
};
use braid_wire::{Credential, FrameFlags, FrameHeader, NodeKind, Role, Secret, encode_success};

const CALLS: u32 = 20_000;
const THREADS: u32 = 16;
const ROUNDS: usize = 5;
const LONG: Duration = Duration::from_secs(60);

struct Keys;
impl Authorizer for Keys {
    fn secret(&self, _: Role, _: &Credential) -> Result<Secret, Failure> {
        Ok(Secret::from_bytes([1; 32]))
    }
}

struct Echo;
impl CallService for Echo {
    type Session = ();
    fn connected(&self, _: &Peer) -> Result<(), Failure> {
        Ok(())
    }
    fn handle(&self, _: &Arc<()>, _: u16, body: &[u8], responder: Responder) {
        responder.send(body.to_vec());
    }
    fn disconnected(&self, _: &Arc<()>) {}
}

/// Answers with the requested bytes of a file (offset and length in the body), or writes the
/// payload there.
struct Bytes(File);
impl Handler for Bytes {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(mut connection) = admitted.accept() else { return };
        let mut window = vec![0; WINDOW_BYTES as usize];
        while let Ok(Some(header)) = connection.next_header(None) {
            let body = connection.body().expect("a body").to_vec();
            let number =
                |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
            let mut at = number(0);
            while connection.payload_left() > 0 {
                let bytes = connection.payload_left().min(window.len());
                if connection.payload(&mut window[..bytes]).is_err() {
                    return;
                }
                (&self.0)
                    .seek(SeekFrom::Start(at))
                    .and_then(|_| (&self.0).write_all(&window[..bytes]))
                    .expect("written");
                at += bytes as u64;
            }
            if header.payload_bytes > 0 {
                let body = encode_success(&());
                let FrameHeader { op, request_id, .. } = header;
                let (flags, body_bytes) = (FrameFlags::FINAL, body.len() as u32);
                let header = FrameHeader { op, flags, request_id, body_bytes, payload_bytes: 0 };
                if connection.sender().send(&header, &body, &[]).is_err() {
                    return;
                }
            } else if self.answer(&connection, &header, number(0), number(8) as usize).is_none() {
                return;
            }
        }
    }
}

impl Bytes {
    fn answer(
        &self,
        connection: &ServerConnection,
        request: &FrameHeader,
        from: u64,
        length: usize,
    ) -> Option<()> {
        let (sender, mut done) = (connection.sender(), 0);
        let FrameHeader { op, request_id, .. } = *request;
        while done < length {
            let now = (length - done).min(REPLY_DATA_BYTES_MAX);
            let header = |flags, body: u32| FrameHeader {
                op,
                flags,
                request_id,
                body_bytes: body,
                payload_bytes: now as u32,
            };
            let (flags, body) = match done + now == length {
                true => (FrameFlags::FINAL, encode_success(&())),
                false => (FrameFlags::DATA, Vec::new()),
            };
            let header = header(flags, body.len() as u32);
            sender.send_from_file(&header, &body, &self.0, from + done as u64, now).ok()?;
            done += now;
        }
        Some(())
    }
}

fn serve(handler: Arc<dyn Handler>) -> (Listener, Endpoint) {
    let cluster = ClusterUuid([1; 16]);
    let config = ServerConfig::new(NodeKind::Mds, 0, cluster);
    let listener = Listener::bind(&["127.0.0.1:0".into()], config, Arc::new(Keys)).expect("a port");
    listener.serve(handler).expect("a thread");
    let endpoint = Endpoint {
        node: NodeKind::Mds,
        node_id: 0,
        cluster: Some(cluster),
        addresses: vec![listener.local_addrs()[0].to_string()],
        role: Role::Client,
        credential: Credential::Server,
        secret: Secret::from_bytes([1; 32]),
        tls: TlsPolicy::UnlessLoopback,
    };
    (listener, endpoint)
}

fn raw_round_trip() -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client =
        TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    let echo = thread::spawn(move || {
        server.set_nodelay(true).expect("nodelay");
        let mut byte = [0];
        while server.read(&mut byte).is_ok_and(|n| n == 1) && server.write(&byte).is_ok() {}
    });
    client.set_nodelay(true).expect("nodelay");
    let mut byte = [1];
    let time = per_call(|| {
        client.write_all(&byte).expect("sent");
        client.read_exact(&mut byte).expect("received");
    });
    drop(client);
    echo.join().expect("the echo ends");
    time
}

/// The median of five rounds.
fn per_call(mut call: impl FnMut()) -> Duration {
    let mut rounds: Vec<_> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            (0..CALLS / 5).for_each(|_| call());
            begin.elapsed() / (CALLS / 5)
        })
        .collect();
    rounds.sort();
    rounds[2]
}

fn calls_per_second(endpoint: &Endpoint, connections: u32) -> f64 {
    let driver = &Blocking::new();
    let shared: Vec<_> = (0..connections)
        .map(|_| block_on(driver.connect_shared(endpoint, driver.now() + LONG)).expect("connected"))
        .collect();
    let begin = Instant::now();
    thread::scope(|scope| {
        for n in 0..THREADS {
            let shared = &shared[(n % connections) as usize];
            scope.spawn(move || {
                for _ in 0..CALLS {
                    block_on(driver.call(shared, 9, b"x", driver.now() + LONG)).expect("answered");
                }
            });
        }
    });
    f64::from(THREADS * CALLS) / begin.elapsed().as_secs_f64()
}

/// User and system seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(") ")
        .next()
        .unwrap_or("")
        .split(' ')
        .map(|f| f.parse().unwrap_or(0.0))
        .collect();
    fields.get(11).zip(fields.get(12)).map_or(0.0, |(user, system)| (user + system) / 100.0)
}

/// CPU seconds per GiB, both sides together, of `total` bytes in calls of `size`.
fn bulk(endpoint: &Endpoint, write: bool, size: usize, total: usize) -> f64 {
    let driver = Blocking::new();
    let mut connection =
        [block_on(driver.connect(endpoint, driver.now() + LONG)).expect("connected")];
    let mut buffer = vec![1u8; size];
    let mut calls = |count: usize| {
        for n in 0..count {
            let mut body = ((n * size % (256 << 20)) as u64).to_le_bytes().to_vec();
            body.extend((if write { 0 } else { size as u64 }).to_le_bytes());
            let (mut send, mut recv) = (Vec::new(), Vec::new());
            if write {
                send.push(IoSlice::new(&buffer))
            } else {
                recv.push(IoSliceMut::new(&mut buffer))
            }
            let mut batch = [Exchange { connection: 0, op: 9, body, send, recv, outcome: None }];
            block_on(driver.exchange(&mut connection, &mut batch, LONG));
            batch[0].outcome.take().expect("set").expect("done");
        }
    };
    calls(total / size / 8);
    let cpu = cpu_seconds();
    calls(total / size);
    (cpu_seconds() - cpu) / (total as f64 / (1u64 << 30) as f64)
}

/// Plain and TLS alternate, so that both meet the same load.
fn bulk_table() {
    let path = std::env::temp_dir().join(format!("braid-net-measure-{}", std::process::id()));
    std::fs::write(&path, vec![1u8; 257 << 20]).expect("a file of 257 MiB");
    let file = File::options().read(true).write(true).open(&path).expect("the file");
    let (_server, plain) = serve(Arc::new(Bytes(file)));
    std::fs::remove_file(&path).expect("removed");
    let tls = Endpoint { tls: TlsPolicy::Always, ..plain.clone() };
    println!("{:<34} {:>28}   {:>28}", "CPU-s/GiB: median (least, most)", "plain", "TLS");
    for (name, write, size, total) in [
        ("read, 1 MiB at a time", false, 1 << 20, 1 << 30),
        ("rewrite, 1 MiB at a time", true, 1 << 20, 1 << 30),
        ("read, 4 KiB at a time", false, 4 << 10, 64 << 20),
    ] {
        let rounds =
            (0..ROUNDS).map(|_| (bulk(&plain, write, size, total), bulk(&tls, write, size, total)));
        let (plain, tls): (Vec<f64>, Vec<f64>) = rounds.unzip();
        println!("{name:<34} {:>28}   {:>28}", spread(plain), spread(tls));
    }
}

fn spread(mut rounds: Vec<f64>) -> String {
    rounds.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2}, {:.2})", rounds[rounds.len() / 2], rounds[0], rounds[rounds.len() - 1])
}

fn main() {
    if std::env::args().any(|argument| argument == "bulk") {
        return bulk_table();
    }
    let (_echo, endpoint) = serve(Arc::new(CallHandler::new(Arc::new(Echo))));
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint, driver.now() + LONG)).expect("connected");
    for round in 1..=2 {
        println!(
            "round {round} (load {})",
            std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
        );
        println!(
            "{:<44} {:8.1} µs",
            "TCP, 1 byte there and back",
            raw_round_trip().as_secs_f64() * 1e6
        );
        let call = per_call(|| {
            block_on(driver.call(&shared, 9, b"x", driver.now() + LONG)).expect("answered");
        });
        println!("{:<44} {:8.1} µs", "call of 1 byte, one thread", call.as_secs_f64() * 1e6);
        for connections in [1, THREADS] {
            let name = format!("calls of {THREADS} threads, {connections} connections");
            println!("{name:<44} {:8.0} /s", calls_per_second(&endpoint, connections));
        }
    }
    bulk_table();
}
