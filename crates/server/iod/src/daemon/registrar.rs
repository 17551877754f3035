//! The thread that keeps the daemon registered: drives [`Registration`] over the blocking driver.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use braid_net::{Blocking, Driver, Endpoint, SharedConnection, block_on, server::Listener};
use braid_types::{Failure, Status, Timestamp, limits::HEARTBEAT_MS};
use braid_wire::{
    Call, Wire, decode_outcome,
    message::mds::{Envelope, Heartbeat, RegisterIod},
};

use super::Daemon;
use crate::registration::{HeartbeatActions, Registration, RegistrationStep};

/// How long it waits for one reply: short against the time after which the daemon stops serving, so
/// that a lost message costs one try and not the service.
const ANSWER_WAIT: Duration = Duration::from_millis(3 * HEARTBEAT_MS);

/// Owner of the thread.
#[derive(Debug)]
pub(super) struct Registrar {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Signals>,
}

#[derive(Debug, Default)]
struct Signals {
    stopping: AtomicBool,
    served: Mutex<bool>,
    changed: Condvar,
    /// Why the metadata server refuses this daemon.
    refused: Mutex<Option<String>>,
}

impl Registrar {
    pub(super) fn start(
        daemon: Arc<Daemon>,
        listener: Arc<Listener>,
        registration: Registration,
        endpoint: Endpoint,
    ) -> io::Result<Self> {
        let shared = Arc::new(Signals::default());
        let (driver, signals) = (Blocking::new(), shared.clone());
        let mut run = RegistrarThread {
            daemon,
            listener,
            registration,
            endpoint,
            driver,
            connection: None,
            signals,
            is_unanswered: false,
        };
        let thread =
            thread::Builder::new().name("iod-registrar".into()).spawn(move || run.run())?;
        Ok(Self { thread: Some(thread), shared })
    }

    pub(super) fn wait_until_serving(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut served = self.shared.served.lock().unwrap_or_else(braid_types::poisoned);
        while !*served {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            served = self
                .shared
                .changed
                .wait_timeout(served, left)
                .unwrap_or_else(braid_types::poisoned)
                .0;
        }
        true
    }

    pub(super) fn refusal(&self) -> Option<String> {
        self.shared.refused.lock().unwrap_or_else(braid_types::poisoned).clone()
    }

    /// Ends the thread, after a reply for which it waits.
    pub(super) fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

struct RegistrarThread {
    daemon: Arc<Daemon>,
    listener: Arc<Listener>,
    registration: Registration,
    endpoint: Endpoint,
    driver: Blocking,
    connection: Option<SharedConnection>,
    signals: Arc<Signals>,
    /// The metadata server did not answer the last time.
    is_unanswered: bool,
}

impl RegistrarThread {
    fn run(&mut self) {
        while !self.signals.stopping.load(Ordering::Acquire) {
            let now = self.daemon.clock.now();
            let core = self.daemon.core.clone();
            let outcome =
                match core.heartbeat_info().map(|vitals| self.registration.next(now, || vitals)) {
                    Ok(RegistrationStep::Wait(until)) => {
                        thread::park_timeout(until.saturating_sub(now));
                        continue;
                    }
                    Ok(RegistrationStep::Register(message)) => self.register(&message),
                    Ok(RegistrationStep::Heartbeat(message)) => self.heartbeat(&message),
                    Err(failure) => {
                        // A disk that does not report its space may recover. Until then its
                        // requests fail by themselves.
                        thread::park_timeout(Duration::from_millis(HEARTBEAT_MS));
                        Err(failure.to_string())
                    }
                };
            self.log_outcome(outcome);
        }
    }

    fn register(&mut self, message: &RegisterIod) -> Result<(), String> {
        self.connection = None;
        let sent = Timestamp::now();
        let reply = self.call(message)?;
        let iod = reply.id;
        let orders = self.registration.registered(reply).map_err(|failure| failure.to_string())?;
        self.daemon.core.assign_iod(iod).map_err(|failure| failure.to_string())?;
        self.listener.set_node_id(iod.0);
        tracing::info!(%iod, mds = self.endpoint.name(), "registered");
        self.apply(&orders, sent);
        Ok(())
    }

    fn heartbeat(&mut self, message: &Heartbeat) -> Result<(), String> {
        let sent = Timestamp::now();
        let reply = self.call(message)?;
        let orders = self.registration.heartbeat_answered(reply);
        self.apply(&orders, sent);
        Ok(())
    }

    /// The order matters: there must be no moment of service between a reply and its fences (I4).
    fn apply(&mut self, orders: &HeartbeatActions, sent: Timestamp) {
        let core = &self.daemon.core;
        core.set_clock_offset(orders.mds_now, sent, Timestamp::now());
        // A fence that does not hold yet comes again with the next reply.
        if core.try_fence_ranges(&orders.fenced, orders.epoch_min) {
            self.registration.confirm_fence(orders.fence);
        }
        let Some(until) = orders.serve_until else { return };
        core.serve_until(Some(until));
        *self.signals.served.lock().unwrap_or_else(braid_types::poisoned) = true;
        self.signals.changed.notify_all();
    }

    fn call<C: Call>(&mut self, message: &C) -> Result<C::Reply, String> {
        let deadline = self.driver.now() + ANSWER_WAIT;
        if self.connection.is_none() {
            let connected = block_on(self.driver.connect_shared(&self.endpoint, deadline));
            self.connection = Some(connected.map_err(|why| why.to_string())?);
        }
        let Some(connection) = &self.connection else { return Err("no connection".to_owned()) };
        let mut body = Envelope::PLAIN.to_bytes();
        message.encode(&mut body);
        let answer = block_on(self.driver.call(connection, C::OP, &body, deadline))
            .map_err(|why| why.to_string())?;
        let outcome: Result<C::Reply, Failure> =
            decode_outcome(&answer.body).map_err(|why| why.to_string())?;
        // The daemon asks again anyway: its administrator decides.
        let refused =
            outcome.as_ref().err().filter(|failure| failure.status == Status::NotPermitted);
        *self.signals.refused.lock().unwrap_or_else(braid_types::poisoned) =
            refused.map(|failure| failure.detail.clone());
        outcome.map_err(|failure| format!("the metadata server refused {}: {failure}", C::NAME))
    }

    /// Logs each failed try with its reason, and once that the metadata server answers again.
    fn log_outcome(&mut self, outcome: Result<(), String>) {
        match outcome {
            Ok(()) if self.is_unanswered => {
                self.is_unanswered = false;
                tracing::info!(iod = %self.registration.id(), "the metadata server answers again");
            }
            Ok(()) => {}
            Err(why) => {
                self.is_unanswered = true;
                self.connection = None;
                self.registration.failed();
                tracing::warn!(
                    iod = %self.registration.id(),
                    why,
                    "no answer from the metadata server; trying again"
                );
            }
        }
    }
}
