//! Figures of the blocking driver and the server in one process, beside raw TCP of the same run:
//! `cargo run --release -p braid-net --example measure`.
//!
//! Round trips of one byte, calls per second of 16 threads over one shared connection and over one each, and
//! the processor time of sequential reads (both sides together) with and without TLS.

use std::{
    fs::File,
    io::{IoSliceMut, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use braid_net::{
    Blocking, Driver, Endpoint, Exchange, TlsPolicy, block_on,
    server::{
        Authorizer, CallHandler, CallService, Handler, Listener, Peer, Responder, ServerConfig, ServerConnection,
    },
};
use braid_types::{ClusterUuid, Failure, limits::REPLY_DATA_BYTES_MAX};
use braid_wire::{Credential, FrameFlags, FrameHeader, NodeKind, Role, Secret, encode_success};

const CALLS: u32 = 20_000;
const THREADS: u32 = 16;
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

/// Answers with the bytes of a file that were asked for: offset and length in the body.
struct Reader(File);
impl Handler for Reader {
    fn run(&self, mut connection: ServerConnection) {
        while let Ok(Some(header)) = connection.next_header(None) {
            let body = connection.body().expect("a body").to_vec();
            let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
            if self.answer(&connection, &header, number(0), number(8) as usize).is_none() {
                return;
            }
        }
    }
}

impl Reader {
    fn answer(&self, connection: &ServerConnection, request: &FrameHeader, from: u64, length: usize) -> Option<()> {
        let (sender, mut done) = (connection.sender(), 0);
        let FrameHeader { op, request_id, .. } = *request;
        while done < length {
            let now = (length - done).min(REPLY_DATA_BYTES_MAX);
            let header =
                |flags, body: u32| FrameHeader { op, flags, request_id, body_bytes: body, payload_bytes: now as u32 };
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
    let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
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
    let driver = Blocking::new();
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
    let fields: Vec<f64> =
        stat.rsplit(") ").next().unwrap_or("").split(' ').map(|f| f.parse().unwrap_or(0.0)).collect();
    fields.get(11).zip(fields.get(12)).map_or(0.0, |(user, system)| (user + system) / 100.0)
}

fn read(name: &str, endpoint: &Endpoint, size: usize, total: usize) {
    let driver = Blocking::new();
    let mut connection = [block_on(driver.connect(endpoint, driver.now() + LONG)).expect("connected")];
    let mut buffer = vec![1u8; size];
    let mut reads = |count: usize| {
        for n in 0..count {
            let mut body = ((n * size % (256 << 20)) as u64).to_le_bytes().to_vec();
            body.extend((size as u64).to_le_bytes());
            let recv = vec![IoSliceMut::new(&mut buffer)];
            let mut batch = [Exchange { connection: 0, op: 9, body, send: Vec::new(), recv, outcome: None }];
            block_on(driver.exchange(&mut connection, &mut batch, driver.now() + LONG));
            batch[0].outcome.take().expect("set").expect("read");
        }
    };
    reads(total / size / 8);
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    reads(total / size);
    let (time, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let gib = total as f64 / (1u64 << 30) as f64;
    println!(
        "{name:<44} {:8.2} GB/s {:8.2} CPU-s/GiB {:8.1} µs/call",
        total as f64 / time / 1e9,
        cpu / gib,
        time * 1e6 / (total / size) as f64
    );
}

fn main() {
    let (_echo, endpoint) = serve(Arc::new(CallHandler::new(Arc::new(Echo))));
    let driver = Blocking::new();
    let shared = block_on(driver.connect_shared(&endpoint, driver.now() + LONG)).expect("connected");
    for round in 1..=2 {
        println!("round {round} (load {})", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
        println!("{:<44} {:8.1} µs", "TCP, 1 byte there and back", raw_round_trip().as_secs_f64() * 1e6);
        let call = per_call(|| {
            block_on(driver.call(&shared, 9, b"x", driver.now() + LONG)).expect("answered");
        });
        println!("{:<44} {:8.1} µs", "call of 1 byte, one thread", call.as_secs_f64() * 1e6);
        for connections in [1, THREADS] {
            let name = format!("calls of {THREADS} threads, {connections} connections");
            println!("{name:<44} {:8.0} /s", calls_per_second(&endpoint, connections));
        }
        let path = std::env::temp_dir().join(format!("braid-net-measure-{}", std::process::id()));
        std::fs::write(&path, vec![1u8; 257 << 20]).expect("a file of 257 MiB");
        let (_reader, endpoint) = serve(Arc::new(Reader(File::open(&path).expect("the file"))));
        std::fs::remove_file(&path).expect("removed");
        read("read, 1 MiB at a time, plain", &endpoint, 1 << 20, 2 << 30);
        read("read, 4 KiB at a time, plain", &endpoint, 4 << 10, 64 << 20);
        let tls = Endpoint { tls: TlsPolicy::Always, ..endpoint };
        read("read, 1 MiB at a time, TLS", &tls, 1 << 20, 1 << 30);
    }
}
