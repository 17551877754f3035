//! What clients send to a server all at once (incast): the bound and the turns of [`crate::intake`], for each of its lines.
//!
//! ```text
//!   header and body --> begin: waits for a turn; the window is its part of the line's bound
//!                         |  a chunk of the payload is received, and put where it belongs
//!                       begin: the turn is over; those who wait come first
//!                         |  …
//!                       end
//! ```
//!
//! A client sends without asking, so what its window allowed before is on the way already; who waits leaves it in the socket.
//! Invariant: whoever has a turn waits for its own peer and its own disk only; what waits for other connections pauses.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use super::listener::lock;
use crate::{
    intake::{BOUNDED_BYTES_MIN, Intake, Progress, Received, Turn},
    tcp::Window,
    transport::Transport,
};

/// The lines of a server: one for each address that clients have connected to, since each may be a card.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<IpAddr, Arc<Intake>>>);

impl Lines {
    /// For a new connection; `None` where nothing is bounded (loopback, systems that do not tell what they see).
    pub(super) fn inflow(&self, transport: &Arc<Transport>) -> Option<Inflow> {
        let window = Window::of(transport)?;
        let address = transport.socket().local_addr().ok()?.ip();
        let intake = Arc::clone(lock(&self.0).entry(address).or_insert_with(|| Arc::new(Intake::new())));
        Some(Inflow { intake, window, transport: Arc::clone(transport), large: false, turn: None })
    }
}

/// The payloads of one connection.
#[derive(Debug)]
pub(super) struct Inflow {
    intake: Arc<Intake>,
    window: Window,
    transport: Arc<Transport>,
    /// Whether the payload under way is bounded.
    large: bool,
    turn: Option<Receiving>,
}

#[derive(Debug)]
struct Receiving {
    turn: Turn,
    progress: Progress,
    bytes: u64,
}

impl Inflow {
    /// A payload of so many bytes comes.
    pub(super) fn expect(&mut self, payload_bytes: u32) {
        self.large = u64::from(payload_bytes) >= BOUNDED_BYTES_MIN;
    }

    /// Before more of it is received: waits until it may, or goes on without a turn when the time is over.
    pub(super) fn begin(&mut self, deadline: Instant) {
        self.end();
        if !self.large {
            return;
        }
        if let Some(turn) = self.intake.wait(1, deadline) {
            self.window.begin(self.transport.socket(), turn.share());
            self.turn = Some(Receiving { progress: turn.progress(), turn, bytes: 0 });
        }
    }

    /// So much came.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some(receiving) = &mut self.turn {
            receiving.bytes += bytes as u64;
            receiving.progress.add(bytes);
        }
    }

    /// What was received is in its place, or waits for others.
    pub(super) fn end(&mut self) {
        if let Some(Receiving { turn, bytes, .. }) = self.turn.take() {
            let mut received = Received { bytes, ..Received::default() };
            self.window.end(self.transport.socket(), &mut received);
            turn.end(received);
        }
    }
}
