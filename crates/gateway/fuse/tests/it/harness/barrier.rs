//! Holds requests until a test releases them.

use super::LONG;
use braid_fuse::kernel::{Interrupt, Request};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Serve,
    /// Waits for the barrier; ends with EINTR at a signal.
    Hold,
    /// Waits for the barrier; ends with EINTR only when the process is being killed.
    HoldUntilKilled,
    /// Waits for the barrier, whatever happens to the process.
    HoldDeaf,
    /// The reply is dropped.
    Drop,
    /// The handler panics.
    Panic,
}

type Rule = Box<dyn Fn(&Request<'_>) -> Fate + Send + Sync>;

pub struct RequestBarrier {
    rule: Mutex<Rule>,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    open: bool,
    held: usize,
    /// Raised by signals, so that waiting threads check.
    signals: u64,
}

impl RequestBarrier {
    pub fn new() -> Self {
        Self { rule: Mutex::new(Box::new(|_| Fate::Serve)), state: Arc::default() }
    }

    /// The fate of requests from now on.
    pub fn rule(&self, rule: impl Fn(&Request<'_>) -> Fate + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
        self.state.0.lock().unwrap().open = false;
    }

    pub fn fate(&self, request: &Request<'_>) -> Fate {
        (self.rule.lock().unwrap())(request)
    }

    /// Releases all requests, and holds none any more.
    pub fn open(&self) {
        // Also after a test that panicked while it held the lock.
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.state.1.notify_all();
    }

    /// Waits until `count` requests are held.
    pub fn wait_held(&self, count: usize) {
        let state = self.state.0.lock().unwrap();
        let (state, timed_out) =
            self.state.1.wait_timeout_while(state, LONG, |state| state.held < count).unwrap();
        assert!(!timed_out.timed_out(), "only {} of {count} requests came", state.held);
    }

    /// Waits until the kernel has reported `count` signals.
    pub fn wait_signals(&self, count: u64) {
        let state = self.state.0.lock().unwrap();
        let (_state, timed_out) =
            self.state.1.wait_timeout_while(state, LONG, |state| state.signals < count).unwrap();
        assert!(!timed_out.timed_out(), "the kernel reported no signal");
    }

    /// Requests that are held now.
    pub fn held(&self) -> usize {
        self.state.0.lock().unwrap().held
    }

    /// `true`: released; `false`: interrupted.
    pub fn pass(&self, interrupt: &Interrupt, fate: Fate) -> bool {
        let shared = Arc::clone(&self.state);
        let _guard = interrupt.on_signal(move || {
            shared.0.lock().unwrap().signals += 1;
            shared.1.notify_all();
        });
        let interrupted = || match fate {
            Fate::Hold => interrupt.signalled(),
            Fate::HoldUntilKilled => interrupt.killed(),
            _ => false,
        };
        let mut state = self.state.0.lock().unwrap();
        state.held += 1;
        self.state.1.notify_all();
        let mut state =
            self.state.1.wait_while(state, |state| !state.open && !interrupted()).unwrap();
        state.held -= 1;
        self.state.1.notify_all();
        !interrupted()
    }
}
