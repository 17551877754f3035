//! Runs a batch of exchanges over several connections, on the calling thread.
//!
//! Requests to several servers overlap on the wire, and so do their answers. Each connection moves
//! as far as its socket allows; the thread sleeps in `poll` only when none can move. A single
//! connection needs no poll: it sends, then waits in `recv`.
//!
//! Invariant: each server has the same time to move a byte, counted from the last byte that it
//! moved, whatever the others do. A server that is silent for longer fails alone, and only after a
//! last check for received bytes. A server that was not asked yet, because its connection waits for
//! a receive permit, does not count as silent, and its connection stays usable.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::{
    exchange_queue::{Connection, ConnectionEnd, ExchangeQueue, StepResult},
    idle_time::IdleTime,
};
use crate::{
    driver::Exchange,
    incast::{ReceiveLimiter, ReceivePermit, ReceiveStats},
    transport::{Wait, timespec},
};

/// System calls that one connection may use to receive before the others get a chance.
const RECEIVES_MAX: usize = 8;
/// Bytes sent to each of several servers before any of them gets more. They fill the first windows,
/// and are copied in 10 to 30 us.
const FIRST_SENT_BYTES: usize = 64 * 1024;
/// Answers up to this size fit a connection's default buffer. So they can be received one after
/// another without blocking any server. Where a window is set, they must fit the window.
const SEQUENTIAL_BYTES_MAX: u64 = 64 * 1024;

/// Runs the batch and sets every outcome; see the module.
pub(super) fn exchange(
    intake: &Arc<ReceiveLimiter>,
    connections: &mut [Connection],
    batch: &mut [Exchange<'_>],
    silence_max: Duration,
) {
    let mut lanes = lanes(connections, batch, IdleTime::new(Instant::now(), silence_max));
    let bounded =
        lanes.iter_mut().filter_map(|lane| lane.require_permit(batch).then_some(())).count();
    if bounded == 0 {
        return run(&mut lanes, batch, None);
    }
    // Requests that need no permit are sent first.
    lanes.iter_mut().for_each(|lane| run_step(lane, batch, send_all));
    let turn = if lanes.iter().any(|lane| lane.is_collective(batch)) {
        Some(intake.acquire_now(bounded))
    } else {
        // While the call waits for its permit, which may take long, the other servers must not be
        // blocked.
        let go_on = |lane: &mut ExchangeQueue<'_>, batch: &mut [Exchange<'_>]| {
            receive_some(lane, batch)?;
            send_all(lane, batch)
        };
        intake.acquire(bounded, silence_max, || {
            lanes.iter_mut().for_each(|lane| run_step(lane, batch, go_on))
        })
    };
    let Some(turn) = turn else {
        for lane in lanes.iter_mut().filter(|lane| lane.awaits_permit() && !lane.is_done()) {
            lane.fail_unsent(batch, silence_max);
        }
        lanes.retain(|lane| !lane.is_done());
        return run(&mut lanes, batch, None);
    };
    // Successive calls begin with different servers.
    let first = turn.number() % lanes.len();
    let mut shared = SharedPermit { permit: turn, first, received: ReceiveStats::default() };
    shared.grant(&mut lanes, shared.permit.connections());
    run(&mut lanes, batch, Some(&mut shared));
    shared.end(&mut lanes);
}

/// A permit and the connections of one call. The permit covers some of them; each passes it on when
/// it is done.
struct SharedPermit {
    permit: ReceivePermit,
    /// The connection that gets the permit first. The others follow in order, unless their servers
    /// are busier.
    first: usize,
    received: ReceiveStats,
}

impl SharedPermit {
    /// Releases the permits of finished connections and passes them on. With `looked`, it also asks
    /// for more permits, since received bytes are accounted. Returns whether another connection has
    /// a permit now.
    fn pass_on(&mut self, lanes: &mut [ExchangeQueue<'_>], looked: bool) -> bool {
        let back = self.reclaim(lanes);
        let wanted = lanes.iter().filter(|lane| lane.awaits_permit()).count();
        if back > wanted {
            self.permit.release(back - wanted);
        }
        let more = if looked && wanted > back { self.permit.extend(wanted - back) } else { 0 };
        let given = wanted.min(back + more);
        self.grant(lanes, given);
        given > 0
    }

    fn grant(&mut self, lanes: &mut [ExchangeQueue<'_>], count: usize) {
        if count == 0 {
            return;
        }
        let (before, from) = lanes.split_at_mut(self.first);
        let mut waiting: Vec<_> =
            from.iter_mut().chain(before).filter(|lane| lane.awaits_permit()).collect();
        let servers: Vec<_> = waiting.iter().filter_map(|lane| lane.peer()).collect();
        for lane in self.permit.choose_servers(&servers, count) {
            waiting[lane].take_permit(self.permit.window_share(), self.permit.progress());
        }
    }

    /// Reclaims the permits of finished connections. Returns how many.
    fn reclaim(&mut self, lanes: &mut [ExchangeQueue<'_>]) -> usize {
        let mut back = 0;
        for lane in lanes {
            if lane.release_permit(&mut self.received) {
                lane.peer().into_iter().for_each(|server| self.permit.connection_done(server));
                back += 1;
            }
        }
        back
    }

    fn end(mut self, lanes: &mut [ExchangeQueue<'_>]) {
        self.reclaim(lanes);
        self.permit.finish(self.received);
    }
}

fn run(
    lanes: &mut [ExchangeQueue<'_>],
    batch: &mut [Exchange<'_>],
    turn: Option<&mut SharedPermit>,
) {
    if let [lane] = lanes {
        run_step(lane, batch, run_single);
    } else if let Err(error) = run_polled(lanes, batch, turn) {
        for lane in lanes.iter_mut() {
            run_step(lane, batch, receive_some); // bytes that arrived while this thread waited
            if !lane.is_done() {
                lane.end_connection(batch, io::Error::new(error.kind(), error.to_string()).into());
            }
        }
    }
}

/// A server has been silent for too long.
fn timed_out() -> ConnectionEnd {
    io::Error::from(ErrorKind::TimedOut).into()
}

/// An error ends one connection; the others go on.
fn run_step(
    lane: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
    step: impl FnOnce(&mut ExchangeQueue<'_>, &mut [Exchange<'_>]) -> Result<(), ConnectionEnd>,
) {
    if let Err(halt) = step(lane, batch) {
        lane.end_connection(batch, halt);
    }
}

fn lanes<'c>(
    connections: &'c mut [Connection],
    batch: &mut [Exchange<'_>],
    silence: IdleTime,
) -> Vec<ExchangeQueue<'c>> {
    let mut lanes: Vec<ExchangeQueue<'c>> =
        connections.iter_mut().map(|connection| ExchangeQueue::new(connection, silence)).collect();
    batch.iter_mut().for_each(|exchange| exchange.outcome = None);
    for (index, exchange) in batch.iter().enumerate() {
        lanes[exchange.connection].push(index);
    }
    for lane in &mut lanes {
        if let Some(error) = lane.broken() {
            lane.fail(batch, &error);
        }
    }
    lanes.retain(|lane| !lane.is_done());
    lanes
}

/// One connection: sends as much as possible, then waits to receive. It polls for both directions
/// only while both are possible.
fn run_single(
    lane: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
) -> Result<(), ConnectionEnd> {
    while !lane.is_done() {
        match lane.send(batch, Wait::No)? {
            StepResult::Moved => continue,
            StepResult::Nothing => lane.receive_in_time(batch)?,
            StepResult::Blocked => match lane.receive(batch, Wait::No)? {
                StepResult::Blocked | StepResult::Nothing => {
                    let waited = wait_for(std::slice::from_mut(lane), batch)?;
                    if !waited.timed_out.is_empty() {
                        return Err(timed_out());
                    }
                    StepResult::Blocked
                }
                moved => moved,
            },
        };
    }
    Ok(())
}

/// Several connections.
fn run_polled(
    lanes: &mut [ExchangeQueue<'_>],
    batch: &mut [Exchange<'_>],
    mut turn: Option<&mut SharedPermit>,
) -> io::Result<()> {
    send_to_all(lanes, batch);
    let share = turn.as_ref().and_then(|turn| turn.permit.window_share());
    if lanes.iter().all(|lane| lane.is_sent() && fits_its_buffer(lane, share)) {
        // The time of all servers begins now, not when the previous one has answered.
        lanes.iter_mut().for_each(|lane| _ = lane.idle_deadline());
        // In the order of the connections: see `Driver::exchange`.
        for at in 0..lanes.len() {
            run_step(&mut lanes[at], batch, run_single);
            if let Some(turn) = &mut turn {
                let _ = turn.pass_on(lanes, true); // all had their time
            }
        }
        return Ok(());
    }
    // Sending may take so long that servers would count as late although their answers have
    // arrived.
    let mut looked = false;
    while lanes.iter().any(|lane| !lane.is_done()) {
        // A connection that fails when it begins passes its permit on immediately: nothing would
        // wake this thread for the next one.
        while let Some(turn) = &mut turn
            && turn.pass_on(lanes, looked)
        {
            lanes.iter_mut().for_each(|lane| run_step(lane, batch, send_all));
        }
        if lanes.iter().all(ExchangeQueue::is_done) {
            break;
        }
        let waited = wait_for(lanes, batch)?;
        for at in waited.timed_out {
            lanes[at].end_connection(batch, timed_out());
        }
        for at in waited.ready {
            run_step(&mut lanes[at], batch, receive_some);
            run_step(&mut lanes[at], batch, send_all);
        }
        looked = true;
    }
    Ok(())
}

/// Whether all it receives can be in flight while nobody reads it. `share`: the window of
/// connections that have a permit.
fn fits_its_buffer(lane: &ExchangeQueue<'_>, share: Option<u32>) -> bool {
    let window = share.filter(|_| lane.has_permit()).map_or(u64::MAX, u64::from);
    lane.in_flight_bytes() <= SEQUENTIAL_BYTES_MAX.min(window)
}

fn send_to_all(lanes: &mut [ExchangeQueue<'_>], batch: &mut [Exchange<'_>]) {
    in_rounds(lanes.len(), |at, most| {
        let mut moved = false;
        run_step(&mut lanes[at], batch, |lane, batch| {
            moved = lane.send_up_to(most, batch, Wait::No)? == StepResult::Moved;
            Ok(())
        });
        moved
    });
}

/// Calls `send(connection, bytes)` for each connection with a small limit, then with growing
/// limits, until nothing moves. While a large request for one server is copied, another server's
/// link would be idle. `send` returns whether it moved bytes.
fn in_rounds(lanes: usize, mut send: impl FnMut(usize, usize) -> bool) {
    let (mut most, mut moved) = (FIRST_SENT_BYTES, true);
    while std::mem::take(&mut moved) {
        (0..lanes).for_each(|at| moved |= send(at, most));
        most = most.saturating_mul(2);
    }
}

fn send_all(lane: &mut ExchangeQueue<'_>, batch: &mut [Exchange<'_>]) -> Result<(), ConnectionEnd> {
    while lane.send(batch, Wait::No)? == StepResult::Moved {}
    Ok(())
}

fn receive_some(
    lane: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
) -> Result<(), ConnectionEnd> {
    for _ in 0..RECEIVES_MAX {
        if lane.receive(batch, Wait::No)? != StepResult::Moved {
            break;
        }
    }
    Ok(())
}

/// The result of a wait.
#[derive(Default)]
struct PollResult {
    /// Connections that can move.
    ready: Vec<usize>,
    /// Connections that cannot move and have been silent for too long.
    timed_out: Vec<usize>,
}

/// Sleeps until a connection can move or has been silent for too long.
fn wait_for(lanes: &mut [ExchangeQueue<'_>], batch: &[Exchange<'_>]) -> io::Result<PollResult> {
    if lanes.iter().any(|lane| lane.wants_to_receive() && lane.transport().has_received()) {
        return Ok(PollResult { ready: (0..lanes.len()).collect(), ..PollResult::default() });
    }
    let ends: Vec<Instant> = lanes.iter_mut().map(ExchangeQueue::idle_deadline).collect();
    // A connection that waits for a permit has sent no request, so its server is not silent.
    let polled =
        lanes.iter().enumerate().filter_map(|(at, lane)| Some((at, poll_for(lane, batch)?)));
    let (all, mut sockets): (Vec<usize>, Vec<PollFd<'_>>) = polled.unzip();
    let first = all.iter().map(|at| ends[*at]).min();
    let left =
        first.map_or(Duration::ZERO, |first| first.saturating_duration_since(Instant::now()));
    match poll(&mut sockets, Some(&timespec(left))) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(PollResult::default()),
        Err(error) => return Err(error.into()),
    }
    let (now, mut waited) = (Instant::now(), PollResult::default());
    for (at, socket) in all.into_iter().zip(&sockets) {
        if !socket.revents().is_empty() {
            waited.ready.push(at);
        } else if ends[at] <= now {
            waited.timed_out.push(at);
        }
    }
    Ok(waited)
}

fn poll_for<'a>(lane: &'a ExchangeQueue<'_>, batch: &[Exchange<'_>]) -> Option<PollFd<'a>> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, lane.wants_to_receive());
    flags.set(PollFlags::OUT, lane.wants_to_send(batch));
    (!flags.is_empty()).then(|| PollFd::new(lane.transport().socket(), flags))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{IoSliceMut, Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use braid_types::{ClusterUuid, ConnectionId};
    use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader};

    use super::*;
    use crate::{
        NetError, blocking::connect::Connected, handshake::Established, tcp::ReceiveWindow,
        transport::Transport,
    };

    const OP: u16 = 9;
    /// More than one system call receives, so that the connections are polled.
    const BYTES: usize = 72 << 10;

    /// Answers every call with [`BYTES`] bytes of its own number.
    fn serve(mut socket: TcpStream, number: u8) {
        while serve_one(&mut socket, number) {}
    }

    /// Serves one call. Returns whether there was one.
    fn serve_one(socket: &mut TcpStream, number: u8) -> bool {
        let mut header = [0; FRAME_HEADER_BYTES];
        if socket.read_exact(&mut header).is_err() {
            return false;
        }
        let asked = FrameHeader::from_bytes(&header).expect("a header");
        let answer = FrameHeader { flags: FrameFlags::FINAL, payload_bytes: BYTES as u32, ..asked };
        socket.write_all(&answer.to_bytes()).expect("sent");
        socket.write_all(&vec![number; BYTES]).expect("sent");
        true
    }

    fn call((at, room): (usize, &mut Vec<u8>)) -> Exchange<'_> {
        let recv = vec![IoSliceMut::new(room)];
        Exchange { connection: at, op: OP, body: Vec::new(), send: Vec::new(), recv, outcome: None }
    }

    /// A connection on loopback that needs a permit like a remote one.
    fn bounded(socket: TcpStream) -> Connection {
        let transport = Transport::new(socket).expect("a transport");
        let established = Established {
            credits: 16,
            cluster: ClusterUuid([0; 16]),
            connection: ConnectionId::default(),
        };
        let mut connection =
            Connection::new(Connected { server: "a server".to_owned(), transport, established });
        connection.window = Some(ReceiveWindow::for_loopback(&connection.transport));
        connection
    }

    #[test]
    fn more_connections_than_permits_are_answered_despite_broken_ones() {
        const LANES: usize = 11;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut connections = Vec::new();
        for number in 0..LANES {
            let client = TcpStream::connect(address).expect("connected");
            let (server, _) = listener.accept().expect("accepted");
            if number % 3 == 1 {
                drop(server);
            } else {
                thread::spawn(move || serve(server, number as u8));
            }
            connections.push(bounded(client));
        }
        let intake = ReceiveLimiter::with_frozen_clock();
        let mut rooms = vec![vec![0xff; BYTES]; LANES];
        let mut batch: Vec<Exchange<'_>> = rooms.iter_mut().enumerate().map(call).collect();
        exchange(&intake, &mut connections, &mut batch, Duration::from_secs(600));
        let came: Vec<bool> =
            batch.into_iter().map(|call| call.outcome.expect("an outcome").is_ok()).collect();
        for (at, (came, room)) in came.into_iter().zip(&rooms).enumerate() {
            assert_eq!(came, at % 3 != 1, "{at}");
            assert!(!came || room.iter().all(|byte| usize::from(*byte) == at), "{at}");
        }
        assert!(intake.is_idle());
    }

    #[test]
    fn a_permit_passes_between_servers_and_calls_start_with_the_next_one() {
        const LANES: usize = 3;
        let intake = ReceiveLimiter::with_frozen_clock();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (asks, asked) = std::sync::mpsc::channel();
        let mut connections: Vec<Connection> = (0..LANES)
            .map(|number| {
                let client = TcpStream::connect(address).expect("connected");
                let (mut server, asks) = (listener.accept().expect("accepted").0, asks.clone());
                thread::spawn(move || {
                    let mut header = [0; 1];
                    while server.peek(&mut header).is_ok_and(|bytes| bytes > 0) {
                        asks.send(number).expect("listened to");
                        serve_one(&mut server, number as u8);
                    }
                });
                bounded(client)
            })
            .collect();
        // One permit is free; the connections of a call use it one after another.
        let _others = intake.acquire_now(intake.permit_count() - 1);
        for _ in 0..LANES {
            let mut rooms = vec![vec![0xff; BYTES]; LANES];
            let mut batch: Vec<Exchange<'_>> = rooms.iter_mut().enumerate().map(call).collect();
            exchange(&intake, &mut connections, &mut batch, Duration::from_secs(600));
            assert!(batch.iter().all(|call| call.outcome.as_ref().is_some_and(Result::is_ok)));
        }
        let order: Vec<usize> = asked.try_iter().collect();
        assert_eq!(order, [1, 2, 0, 2, 0, 1, 0, 1, 2]);
    }

    /// A connection and its server's end.
    fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        (bounded(client), listener.accept().expect("accepted").0)
    }

    #[test]
    fn a_call_without_a_permit_fails_unsent_when_nothing_is_received() {
        let (connection, mut server) = pair();
        let intake = ReceiveLimiter::with_frozen_clock();
        let others = intake.acquire_now(1000);
        let mut room = vec![0; BYTES];
        let mut batch = [call((0, &mut room))];
        let mut connections = [connection];
        exchange(&intake, &mut connections, &mut batch, Duration::from_millis(1));
        let [failed] = batch;
        assert!(
            matches!(failed.outcome, Some(Err(NetError::NotSent { .. }))),
            "{:?}",
            failed.outcome
        );
        drop(others);
        assert!(intake.is_idle());
        // The connection is still usable.
        let server = thread::spawn(move || {
            assert!(serve_one(&mut server, 7));
            let mut asked = Vec::new();
            server.read_to_end(&mut asked).expect("the connection's end");
            asked
        });
        let mut batch = [call((0, &mut room))];
        exchange(&intake, &mut connections, &mut batch, Duration::from_secs(600));
        let [answered] = batch;
        assert!(answered.outcome.expect("an outcome").is_ok() && room == vec![7; BYTES]);
        drop(connections);
        assert_eq!(server.join().expect("no panic"), [], "it was asked once");
    }

    #[test]
    fn a_call_waits_for_a_permit_while_others_receive_and_small_calls_go_on() {
        /// Longer than a runnable thread waits for a processor.
        const SILENCE: Duration = Duration::from_secs(2);
        /// More than the sockets buffer: the send ends only when the bytes are received.
        const LARGE: usize = 8 << 20;
        let intake = ReceiveLimiter::with_frozen_clock();
        let ((waiting, server), (mut free, mut free_server)) = (pair(), pair());
        free.window = None;
        thread::spawn(move || serve(server, 7));
        let free_server = thread::spawn(move || {
            let mut header = [0; FRAME_HEADER_BYTES];
            free_server.read_exact(&mut header).expect("a call");
            let asked = FrameHeader::from_bytes(&header).expect("a header");
            for at in 1..=LARGE / BYTES {
                let flags = if at == LARGE / BYTES { FrameFlags::FINAL } else { FrameFlags::DATA };
                let answer = FrameHeader { flags, payload_bytes: BYTES as u32, ..asked };
                free_server.write_all(&answer.to_bytes()).expect("sent");
                free_server.write_all(&vec![9; BYTES]).expect("sent");
            }
        });
        let others = intake.acquire_now(intake.permit_count());
        let (held, given_up) =
            (Instant::now() + SILENCE + SILENCE / 2, Instant::now() + 60 * SILENCE);
        let holder = thread::spawn(move || {
            while Instant::now() < held || !free_server.is_finished() && Instant::now() < given_up {
                others.progress().add(1);
                thread::sleep(Duration::from_millis(1));
            }
            assert!(free_server.is_finished(), "the call that waits for a permit blocked it");
        });
        let (mut room, mut free_room) = (vec![0; BYTES], vec![0; LARGE]);
        let mut batch = [call((0, &mut room)), call((1, &mut free_room))];
        let mut connections = [waiting, free];
        exchange(&intake, &mut connections, &mut batch, SILENCE);
        for call in batch {
            call.outcome.expect("an outcome").expect("an answer");
        }
        assert!(connections.iter().all(|connection| connection.broken.is_none()));
        assert!(room == vec![7; BYTES]);
        holder.join().expect("no panic");
        assert!(intake.is_idle());
    }

    #[test]
    fn every_server_has_a_beginning_before_one_has_more() {
        const FIRST: usize = FIRST_SENT_BYTES;
        let mut left = [3 * FIRST, FIRST, 10 * FIRST];
        let mut sent = Vec::new();
        in_rounds(left.len(), |at, most| {
            let bytes = left[at].min(most);
            left[at] -= bytes;
            sent.push((at, bytes / FIRST));
            bytes > 0
        });
        let rounds: Vec<_> = sent.chunks(3).collect();
        assert_eq!(rounds[0], [(0, 1), (1, 1), (2, 1)]);
        assert_eq!(rounds[1], [(0, 2), (1, 0), (2, 2)]);
        assert_eq!(rounds[2..4], [[(0, 0), (1, 0), (2, 4)], [(0, 0), (1, 0), (2, 3)]]);
        assert_eq!((rounds.len(), left), (5, [0; 3]), "the last moves nothing");
    }

    #[test]
    fn a_request_is_sent_in_parts_and_comes_as_it_is() {
        const LARGE: usize = 1 << 20;
        let payload: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
        let (connection, mut server) = pair();
        let mut connections = [connection];
        let mut room = Vec::new();
        // Parts end within slices and at their ends.
        let send = payload.chunks(24_000).map(io::IoSlice::new).collect();
        let mut batch = [Exchange { send, ..call((0, &mut room)) }];
        let mut lanes = lanes(
            &mut connections,
            &mut batch,
            IdleTime::new(Instant::now(), Duration::from_secs(600)),
        );
        let sent = |lane: &mut ExchangeQueue<'_>, most| {
            lane.send_up_to(most, &batch, Wait::No).expect("sent")
        };
        assert_eq!(sent(&mut lanes[0], FRAME_HEADER_BYTES + 1000), StepResult::Moved);
        assert_eq!(sent(&mut lanes[0], 23_000), StepResult::Moved);
        let mut beginning = vec![0; FRAME_HEADER_BYTES + 24_000];
        server.read_exact(&mut beginning).expect("the beginning");
        assert!(beginning[FRAME_HEADER_BYTES..] == payload[..24_000]);
        server.set_nonblocking(true).expect("set");
        assert!(server.read(&mut [0]).is_err(), "no more was to be sent");
        server.set_nonblocking(false).expect("set");
        let rest = thread::spawn(move || {
            let mut rest = vec![0; LARGE - 24_000];
            server.read_exact(&mut rest).expect("the rest");
            rest
        });
        while !lanes[0].is_sent() {
            send_to_all(&mut lanes, &mut batch);
        }
        assert!(rest.join().expect("no panic") == payload[24_000..]);
    }

    #[test]
    fn servers_are_not_late_before_their_sockets_were_read() {
        let ((one, _first), (other, _second)) = (pair(), pair());
        let mut connections = [one, other];
        let mut rooms = vec![vec![0; BYTES]; 2];
        let mut batch: Vec<Exchange<'_>> = rooms.iter_mut().enumerate().map(call).collect();
        let mut lanes = lanes(
            &mut connections,
            &mut batch,
            IdleTime::new(Instant::now(), Duration::from_secs(600)),
        );
        assert!(lanes.iter_mut().all(|lane| lane.require_permit(&batch)));
        let intake = Arc::new(ReceiveLimiter::new());
        let places = intake.permit_count();
        let mut shared = SharedPermit {
            permit: intake.acquire_now(places),
            first: 0,
            received: ReceiveStats::default(),
        };
        shared.grant(&mut lanes, 1);
        thread::sleep(Duration::from_millis(5)); // as long as sending to many servers may take
        assert!(!shared.pass_on(&mut lanes, false));
        assert!(shared.pass_on(&mut lanes, true), "it was looked, and nothing had come");
    }
}
