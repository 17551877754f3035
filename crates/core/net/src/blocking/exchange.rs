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
    let mut queues = queues(connections, batch, IdleTime::new(Instant::now(), silence_max));
    let bounded =
        queues.iter_mut().filter_map(|queue| queue.require_permit(batch).then_some(())).count();
    if bounded == 0 {
        return run(&mut queues, batch, None);
    }
    // Requests that need no permit are sent first.
    queues.iter_mut().for_each(|queue| run_step(queue, batch, send_all));
    let permit = if queues.iter().any(|queue| queue.is_collective(batch)) {
        Some(intake.acquire_now(bounded))
    } else {
        // While the call waits for its permit, which may take long, the other servers must not be
        // blocked.
        let go_on = |queue: &mut ExchangeQueue<'_>, batch: &mut [Exchange<'_>]| {
            receive_some(queue, batch)?;
            send_all(queue, batch)
        };
        intake.acquire(bounded, silence_max, || {
            queues.iter_mut().for_each(|queue| run_step(queue, batch, go_on))
        })
    };
    let Some(permit) = permit else {
        for queue in queues.iter_mut().filter(|queue| queue.awaits_permit() && !queue.is_done()) {
            queue.fail_unsent(batch, silence_max);
        }
        queues.retain(|queue| !queue.is_done());
        return run(&mut queues, batch, None);
    };
    // Successive calls begin with different servers.
    let first = permit.number() % queues.len();
    let mut shared = SharedPermit { permit, first, received: ReceiveStats::default() };
    shared.grant(&mut queues, shared.permit.connections());
    run(&mut queues, batch, Some(&mut shared));
    shared.end(&mut queues);
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
    fn pass_on(&mut self, queues: &mut [ExchangeQueue<'_>], looked: bool) -> bool {
        let back = self.reclaim(queues);
        let wanted = queues.iter().filter(|queue| queue.awaits_permit()).count();
        if back > wanted {
            self.permit.release(back - wanted);
        }
        let more = if looked && wanted > back { self.permit.extend(wanted - back) } else { 0 };
        let given = wanted.min(back + more);
        self.grant(queues, given);
        given > 0
    }

    fn grant(&mut self, queues: &mut [ExchangeQueue<'_>], count: usize) {
        if count == 0 {
            return;
        }
        let (before, from) = queues.split_at_mut(self.first);
        let mut waiting: Vec<_> =
            from.iter_mut().chain(before).filter(|queue| queue.awaits_permit()).collect();
        let servers: Vec<_> = waiting.iter().filter_map(|queue| queue.peer()).collect();
        for queue in self.permit.choose_servers(&servers, count) {
            waiting[queue].take_permit(self.permit.window_share(), self.permit.progress());
        }
    }

    /// Reclaims the permits of finished connections. Returns how many.
    fn reclaim(&mut self, queues: &mut [ExchangeQueue<'_>]) -> usize {
        let mut back = 0;
        for queue in queues {
            if queue.release_permit(&mut self.received) {
                queue.peer().into_iter().for_each(|server| self.permit.connection_done(server));
                back += 1;
            }
        }
        back
    }

    fn end(mut self, queues: &mut [ExchangeQueue<'_>]) {
        self.reclaim(queues);
        self.permit.finish(self.received);
    }
}

fn run(
    queues: &mut [ExchangeQueue<'_>],
    batch: &mut [Exchange<'_>],
    permit: Option<&mut SharedPermit>,
) {
    if let [queue] = queues {
        run_step(queue, batch, run_single);
    } else if let Err(error) = run_polled(queues, batch, permit) {
        for queue in queues.iter_mut() {
            run_step(queue, batch, receive_some); // bytes that arrived while this thread waited
            if !queue.is_done() {
                queue.end_connection(batch, io::Error::new(error.kind(), error.to_string()).into());
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
    queue: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
    step: impl FnOnce(&mut ExchangeQueue<'_>, &mut [Exchange<'_>]) -> Result<(), ConnectionEnd>,
) {
    if let Err(halt) = step(queue, batch) {
        queue.end_connection(batch, halt);
    }
}

fn queues<'c>(
    connections: &'c mut [Connection],
    batch: &mut [Exchange<'_>],
    silence: IdleTime,
) -> Vec<ExchangeQueue<'c>> {
    let mut queues: Vec<ExchangeQueue<'c>> =
        connections.iter_mut().map(|connection| ExchangeQueue::new(connection, silence)).collect();
    batch.iter_mut().for_each(|exchange| exchange.outcome = None);
    for (index, exchange) in batch.iter().enumerate() {
        queues[exchange.connection].push(index);
    }
    for queue in &mut queues {
        if let Some(error) = queue.broken() {
            queue.fail(batch, &error);
        }
    }
    queues.retain(|queue| !queue.is_done());
    queues
}

/// One connection: sends as much as possible, then waits to receive. It polls for both directions
/// only while both are possible.
fn run_single(
    queue: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
) -> Result<(), ConnectionEnd> {
    while !queue.is_done() {
        match queue.send(batch, Wait::No)? {
            StepResult::Moved => continue,
            StepResult::Nothing => queue.receive_in_time(batch)?,
            StepResult::Blocked => match queue.receive(batch, Wait::No)? {
                StepResult::Blocked | StepResult::Nothing => {
                    let waited = wait_for(std::slice::from_mut(queue), batch)?;
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
    queues: &mut [ExchangeQueue<'_>],
    batch: &mut [Exchange<'_>],
    mut permit: Option<&mut SharedPermit>,
) -> io::Result<()> {
    send_to_all(queues, batch);
    let share = permit.as_ref().and_then(|permit| permit.permit.window_share());
    if queues.iter().all(|queue| queue.is_sent() && fits_its_buffer(queue, share)) {
        // The time of all servers begins now, not when the previous one has answered.
        queues.iter_mut().for_each(|queue| _ = queue.idle_deadline());
        // In the order of the connections: see `Driver::exchange`.
        for at in 0..queues.len() {
            run_step(&mut queues[at], batch, run_single);
            if let Some(permit) = &mut permit {
                let _ = permit.pass_on(queues, true); // all had their time
            }
        }
        return Ok(());
    }
    // Sending may take so long that servers would count as late although their answers have
    // arrived.
    let mut looked = false;
    while queues.iter().any(|queue| !queue.is_done()) {
        // A connection that fails when it begins passes its permit on immediately: nothing would
        // wake this thread for the next one.
        while let Some(permit) = &mut permit
            && permit.pass_on(queues, looked)
        {
            queues.iter_mut().for_each(|queue| run_step(queue, batch, send_all));
        }
        if queues.iter().all(ExchangeQueue::is_done) {
            break;
        }
        let waited = wait_for(queues, batch)?;
        for at in waited.timed_out {
            queues[at].end_connection(batch, timed_out());
        }
        for at in waited.ready {
            run_step(&mut queues[at], batch, receive_some);
            run_step(&mut queues[at], batch, send_all);
        }
        looked = true;
    }
    Ok(())
}

/// Whether all it receives can be in flight while nobody reads it. `share`: the window of
/// connections that have a permit.
fn fits_its_buffer(queue: &ExchangeQueue<'_>, share: Option<u32>) -> bool {
    let window = share.filter(|_| queue.has_permit()).map_or(u64::MAX, u64::from);
    queue.in_flight_bytes() <= SEQUENTIAL_BYTES_MAX.min(window)
}

fn send_to_all(queues: &mut [ExchangeQueue<'_>], batch: &mut [Exchange<'_>]) {
    in_rounds(queues.len(), |at, most| {
        let mut moved = false;
        run_step(&mut queues[at], batch, |queue, batch| {
            moved = queue.send_up_to(most, batch, Wait::No)? == StepResult::Moved;
            Ok(())
        });
        moved
    });
}

/// Calls `send(connection, bytes)` for each connection with a small limit, then with growing
/// limits, until nothing moves. While a large request for one server is copied, another server's
/// link would be idle. `send` returns whether it moved bytes.
fn in_rounds(queues: usize, mut send: impl FnMut(usize, usize) -> bool) {
    let (mut most, mut moved) = (FIRST_SENT_BYTES, true);
    while std::mem::take(&mut moved) {
        (0..queues).for_each(|at| moved |= send(at, most));
        most = most.saturating_mul(2);
    }
}

fn send_all(
    queue: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
) -> Result<(), ConnectionEnd> {
    while queue.send(batch, Wait::No)? == StepResult::Moved {}
    Ok(())
}

fn receive_some(
    queue: &mut ExchangeQueue<'_>,
    batch: &mut [Exchange<'_>],
) -> Result<(), ConnectionEnd> {
    for _ in 0..RECEIVES_MAX {
        if queue.receive(batch, Wait::No)? != StepResult::Moved {
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
fn wait_for(queues: &mut [ExchangeQueue<'_>], batch: &[Exchange<'_>]) -> io::Result<PollResult> {
    if queues.iter().any(|queue| queue.wants_to_receive() && queue.transport().has_received()) {
        return Ok(PollResult { ready: (0..queues.len()).collect(), ..PollResult::default() });
    }
    let ends: Vec<Instant> = queues.iter_mut().map(ExchangeQueue::idle_deadline).collect();
    // A connection that waits for a permit has sent no request, so its server is not silent.
    let polled =
        queues.iter().enumerate().filter_map(|(at, queue)| Some((at, poll_for(queue, batch)?)));
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

fn poll_for<'a>(queue: &'a ExchangeQueue<'_>, batch: &[Exchange<'_>]) -> Option<PollFd<'a>> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, queue.wants_to_receive());
    flags.set(PollFlags::OUT, queue.wants_to_send(batch));
    (!flags.is_empty()).then(|| PollFd::new(queue.transport().socket(), flags))
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

    fn call((at, buffer): (usize, &mut Vec<u8>)) -> Exchange<'_> {
        let recv = vec![IoSliceMut::new(buffer)];
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
        let mut buffers = vec![vec![0xff; BYTES]; LANES];
        let mut batch: Vec<Exchange<'_>> = buffers.iter_mut().enumerate().map(call).collect();
        exchange(&intake, &mut connections, &mut batch, Duration::from_secs(600));
        let came: Vec<bool> =
            batch.into_iter().map(|call| call.outcome.expect("an outcome").is_ok()).collect();
        for (at, (came, buffer)) in came.into_iter().zip(&buffers).enumerate() {
            assert_eq!(came, at % 3 != 1, "{at}");
            assert!(!came || buffer.iter().all(|byte| usize::from(*byte) == at), "{at}");
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
            let mut buffers = vec![vec![0xff; BYTES]; LANES];
            let mut batch: Vec<Exchange<'_>> = buffers.iter_mut().enumerate().map(call).collect();
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
        let mut buffer = vec![0; BYTES];
        let mut batch = [call((0, &mut buffer))];
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
        let mut batch = [call((0, &mut buffer))];
        exchange(&intake, &mut connections, &mut batch, Duration::from_secs(600));
        let [answered] = batch;
        assert!(answered.outcome.expect("an outcome").is_ok() && buffer == vec![7; BYTES]);
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
        let (mut buffer, mut free_buffer) = (vec![0; BYTES], vec![0; LARGE]);
        let mut batch = [call((0, &mut buffer)), call((1, &mut free_buffer))];
        let mut connections = [waiting, free];
        exchange(&intake, &mut connections, &mut batch, SILENCE);
        for call in batch {
            call.outcome.expect("an outcome").expect("an answer");
        }
        assert!(connections.iter().all(|connection| connection.broken.is_none()));
        assert!(buffer == vec![7; BYTES]);
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
        let mut buffer = Vec::new();
        // Parts end within slices and at their ends.
        let send = payload.chunks(24_000).map(io::IoSlice::new).collect();
        let mut batch = [Exchange { send, ..call((0, &mut buffer)) }];
        let mut queues = queues(
            &mut connections,
            &mut batch,
            IdleTime::new(Instant::now(), Duration::from_secs(600)),
        );
        let sent = |queue: &mut ExchangeQueue<'_>, most| {
            queue.send_up_to(most, &batch, Wait::No).expect("sent")
        };
        assert_eq!(sent(&mut queues[0], FRAME_HEADER_BYTES + 1000), StepResult::Moved);
        assert_eq!(sent(&mut queues[0], 23_000), StepResult::Moved);
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
        while !queues[0].is_sent() {
            send_to_all(&mut queues, &mut batch);
        }
        assert!(rest.join().expect("no panic") == payload[24_000..]);
    }

    #[test]
    fn servers_are_not_late_before_their_sockets_were_read() {
        let ((one, _first), (other, _second)) = (pair(), pair());
        let mut connections = [one, other];
        let mut buffers = vec![vec![0; BYTES]; 2];
        let mut batch: Vec<Exchange<'_>> = buffers.iter_mut().enumerate().map(call).collect();
        let mut queues = queues(
            &mut connections,
            &mut batch,
            IdleTime::new(Instant::now(), Duration::from_secs(600)),
        );
        assert!(queues.iter_mut().all(|queue| queue.require_permit(&batch)));
        let intake = Arc::new(ReceiveLimiter::new());
        let connections = intake.permit_count();
        let mut shared = SharedPermit {
            permit: intake.acquire_now(connections),
            first: 0,
            received: ReceiveStats::default(),
        };
        shared.grant(&mut queues, 1);
        thread::sleep(Duration::from_millis(5)); // as long as sending to many servers may take
        assert!(!shared.pass_on(&mut queues, false));
        assert!(shared.pass_on(&mut queues, true), "it was looked, and nothing had come");
    }
}
