//! A batch of exchanges over several connections, by the calling thread.
//!
//! What is sent to several servers overlaps on the wire, and so do their answers: each connection moves as far as
//! its socket allows, and the thread sleeps in `poll` only when none can. One connection alone needs no poll: it
//! sends, then waits in `recv`.

use std::{io, time::Instant};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::lane::{Connection, Halt, Lane, Step};
use crate::{
    driver::Exchange,
    intake::{self, Intake, Received, Turn},
    transport::{Wait, timespec},
};

/// What one connection may receive before the others get their turn, in system calls.
const TURNS_MAX: usize = 8;
/// Answers up to this from each server fit its socket buffer, so that they can be awaited one after the other
/// without holding any server up.
const SEQUENTIAL_BYTES_MAX: u64 = 64 * 1024;

/// See the module. Sets every outcome.
pub(super) fn exchange(intake: &Intake, connections: &mut [Connection], batch: &mut [Exchange<'_>], deadline: Instant) {
    let begin = Instant::now();
    let mut lanes = lanes(connections, batch);
    let bounded = lanes.iter_mut().filter_map(|lane| lane.await_turn(batch).then_some(())).count();
    if bounded == 0 {
        return run(&mut lanes, batch, None, (begin, deadline));
    }
    // What needs no turn is on its way before.
    lanes.iter_mut().for_each(|lane| guard(lane, batch, begin, send_all));
    let turn = if lanes.iter().any(|lane| lane.is_collective(batch)) {
        Some(intake.begin(bounded))
    } else {
        intake.wait(bounded, deadline)
    };
    let Some(turn) = turn else {
        for lane in lanes.iter_mut().filter(|lane| lane.awaits_turn()) {
            lane.halt(batch, io::Error::from(io::ErrorKind::TimedOut).into(), begin);
        }
        lanes.retain(|lane| !lane.is_done());
        return run(&mut lanes, batch, None, (begin, deadline));
    };
    let mut shared = SharedTurn { turn, received: Received::default() };
    shared.spread(&mut lanes);
    run(&mut lanes, batch, Some(&mut shared), (begin, deadline));
    shared.end(&mut lanes, batch);
}

/// A turn and the lanes of one call: as many as it is for have it, each gives it to the next when it is done.
struct SharedTurn<'i> {
    turn: Turn<'i>,
    received: Received,
}

impl SharedTurn<'_> {
    /// At first. Not every call begins with the same server.
    fn spread(&mut self, lanes: &mut [Lane<'_>]) {
        let first = self.turn.number() % lanes.len();
        let (before, from) = lanes.split_at_mut(first);
        self.give(from.iter_mut().chain(before), self.turn.lanes());
    }

    /// Lanes may have ended, and places may have become free; whether another lane has a turn now.
    fn hand_on(&mut self, lanes: &mut [Lane<'_>]) -> bool {
        let back = lanes.iter_mut().filter_map(|lane| lane.give_turn_back(&mut self.received).then_some(())).count();
        let wanted = lanes.iter().filter(|lane| lane.awaits_turn()).count();
        if back > wanted {
            self.turn.leave(back - wanted);
        }
        let given = if wanted > back { back + self.turn.more(wanted - back) } else { wanted };
        self.give(lanes.iter_mut(), given);
        given > 0
    }

    fn give<'l, 'c: 'l>(&self, lanes: impl Iterator<Item = &'l mut Lane<'c>>, count: usize) {
        for lane in lanes.filter(|lane| lane.awaits_turn()).take(count) {
            lane.take_turn(self.turn.share(), self.turn.progress());
        }
    }

    fn end(mut self, lanes: &mut [Lane<'_>], batch: &[Exchange<'_>]) {
        for lane in lanes {
            lane.give_turn_back(&mut self.received);
        }
        self.received.bytes = intake::payload_of(batch);
        self.turn.end(self.received);
    }
}

fn run(
    lanes: &mut [Lane<'_>],
    batch: &mut [Exchange<'_>],
    turn: Option<&mut SharedTurn<'_>>,
    (begin, deadline): (Instant, Instant),
) {
    if let [lane] = lanes {
        guard(lane, batch, begin, |lane, batch| run_alone(lane, batch, deadline));
    } else if let Err(error) = run_together(lanes, batch, turn, (begin, deadline)) {
        for lane in lanes.iter_mut().filter(|lane| !lane.is_done()) {
            lane.halt(batch, io::Error::new(error.kind(), error.to_string()).into(), begin);
        }
    }
}

/// An error of one connection ends that one; the others go on.
fn guard(
    lane: &mut Lane<'_>,
    batch: &mut [Exchange<'_>],
    begin: Instant,
    step: impl FnOnce(&mut Lane<'_>, &mut [Exchange<'_>]) -> Result<(), Halt>,
) {
    if let Err(halt) = step(lane, batch) {
        lane.halt(batch, halt, begin);
    }
}

fn lanes<'c>(connections: &'c mut [Connection], batch: &mut [Exchange<'_>]) -> Vec<Lane<'c>> {
    let mut lanes: Vec<Lane<'c>> = connections.iter_mut().map(Lane::new).collect();
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

/// One connection: sends all it may, then waits for what comes; both at once only while both are possible.
fn run_alone(lane: &mut Lane<'_>, batch: &mut [Exchange<'_>], deadline: Instant) -> Result<(), Halt> {
    while !lane.is_done() {
        match lane.send(batch, Wait::No)? {
            Step::Moved => continue,
            Step::Nothing => lane.receive(batch, Wait::Until(deadline))?,
            Step::Blocked => match lane.receive(batch, Wait::No)? {
                Step::Blocked | Step::Nothing => {
                    wait_for(std::slice::from_ref(lane), batch, deadline)?;
                    Step::Blocked
                }
                moved => moved,
            },
        };
    }
    Ok(())
}

/// Several connections.
fn run_together(
    lanes: &mut [Lane<'_>],
    batch: &mut [Exchange<'_>],
    mut turn: Option<&mut SharedTurn<'_>>,
    (begin, deadline): (Instant, Instant),
) -> io::Result<()> {
    lanes.iter_mut().for_each(|lane| guard(lane, batch, begin, send_all));
    if lanes.iter().all(|lane| lane.is_sent() && lane.in_flight_bytes() <= SEQUENTIAL_BYTES_MAX) {
        for at in 0..lanes.len() {
            guard(&mut lanes[at], batch, begin, |lane, batch| run_alone(lane, batch, deadline));
            if let Some(turn) = &mut turn {
                let _ = turn.hand_on(lanes); // all had theirs
            }
        }
        return Ok(());
    }
    while lanes.iter().any(|lane| !lane.is_done()) {
        // Who fails when it begins hands its turn on at once: nothing would wake this thread for the next.
        while let Some(turn) = &mut turn
            && turn.hand_on(lanes)
        {
            lanes.iter_mut().for_each(|lane| guard(lane, batch, begin, send_all));
        }
        if lanes.iter().all(Lane::is_done) {
            break;
        }
        wait_for(lanes, batch, deadline)?;
        for lane in lanes.iter_mut() {
            guard(lane, batch, begin, receive_some);
            guard(lane, batch, begin, send_all);
        }
    }
    Ok(())
}

fn send_all(lane: &mut Lane<'_>, batch: &mut [Exchange<'_>]) -> Result<(), Halt> {
    while lane.send(batch, Wait::No)? == Step::Moved {}
    Ok(())
}

fn receive_some(lane: &mut Lane<'_>, batch: &mut [Exchange<'_>]) -> Result<(), Halt> {
    for _ in 0..TURNS_MAX {
        if lane.receive(batch, Wait::No)? != Step::Moved {
            break;
        }
    }
    Ok(())
}

/// Sleeps until a connection can move.
fn wait_for(lanes: &[Lane<'_>], batch: &[Exchange<'_>], deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if lanes.iter().any(|lane| lane.wants_to_receive() && lane.transport().has_received()) {
        return Ok(());
    }
    let mut sockets: Vec<PollFd<'_>> = lanes.iter().filter_map(|lane| poll_for(lane, batch)).collect();
    match poll(&mut sockets, Some(&timespec(left))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn poll_for<'a>(lane: &'a Lane<'_>, batch: &[Exchange<'_>]) -> Option<PollFd<'a>> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, lane.wants_to_receive());
    flags.set(PollFlags::OUT, lane.wants_to_send(batch));
    (!flags.is_empty()).then(|| PollFd::new(lane.transport().socket(), flags))
}
