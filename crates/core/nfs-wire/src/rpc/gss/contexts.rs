//! The server's table of contexts, with bounds on their number and age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::window::SequenceWindow;

/// Length of a context's handle, which the caller's random numbers fill: the handle of another
/// client's context cannot be guessed.
pub const HANDLE_BYTES: usize = 16;

/// A context's handle.
pub(super) type Handle = [u8; HANDLE_BYTES];

/// Bounds of a server's contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GssLimits {
    /// Most established contexts, at least 1. Beyond it the least recently used one is removed; its
    /// client makes another when it needs one. A context of Kerberos takes about 4 KiB.
    pub established_max: usize,
    /// Most contexts whose creation is not complete, at least 1; beyond it the oldest is removed.
    /// Kerberos needs no second step.
    pub pending_max: usize,
    /// How long the next step of a context's creation may take.
    pub pending_lifetime: Duration,
    /// Longest lifetime of an established context; the mechanism's may be shorter.
    pub established_lifetime: Duration,
}

impl Default for GssLimits {
    fn default() -> Self {
        Self {
            established_max: 16_384,
            pending_max: 256,
            pending_lifetime: Duration::from_secs(30),
            established_lifetime: Duration::from_secs(24 * 3600),
        }
    }
}

/// An established context.
#[derive(Debug)]
pub(super) struct Established<C> {
    pub context: C,
    pub window: Mutex<SequenceWindow>,
    expires: Duration,
    /// Nanoseconds of the caller's clock.
    used: AtomicU64,
}

/// A context whose creation is not complete.
#[derive(Debug)]
struct Pending<P> {
    state: P,
    expires: Duration,
}

/// All contexts of a server.
#[derive(Debug)]
pub(super) struct Contexts<P, C> {
    established: HashMap<Handle, Arc<Established<C>>>,
    pending: HashMap<Handle, Pending<P>>,
}

impl<P, C> Contexts<P, C> {
    pub fn new() -> Self {
        Self { established: HashMap::new(), pending: HashMap::new() }
    }

    /// The established context of a handle, which counts as used.
    pub fn find(&mut self, handle: &[u8], now: Duration) -> Option<Arc<Established<C>>> {
        let handle = Handle::try_from(handle).ok()?;
        let found = self.established.get(&handle)?;
        if found.expires <= now {
            self.established.remove(&handle);
            return None;
        }
        found.used.store(nanoseconds(now), Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    /// Removes an established context.
    pub fn remove(&mut self, handle: &[u8]) {
        if let Ok(handle) = Handle::try_from(handle) {
            self.established.remove(&handle);
        }
    }

    /// Removes and returns the state of a context's creation.
    pub fn take_pending(&mut self, handle: &[u8], now: Duration) -> Option<(Handle, P)> {
        let handle = Handle::try_from(handle).ok()?;
        let pending = self.pending.remove(&handle)?;
        (pending.expires > now).then_some((handle, pending.state))
    }

    /// Adds an established context, which the mechanism declares valid for `lifetime`.
    pub fn add(
        &mut self,
        handle: Handle,
        context: C,
        lifetime: Duration,
        now: Duration,
        limits: &GssLimits,
    ) {
        if self.established.len() >= limits.established_max.max(1) {
            self.established.retain(|_, context| context.expires > now);
        }
        while self.established.len() >= limits.established_max.max(1) {
            let used =
                |(_, context): &(_, &Arc<Established<C>>)| context.used.load(Ordering::Relaxed);
            let Some((&oldest, _)) = self.established.iter().min_by_key(used) else { break };
            self.established.remove(&oldest);
        }
        let context = Established {
            context,
            window: Mutex::new(SequenceWindow::new()),
            expires: now.saturating_add(lifetime.min(limits.established_lifetime)),
            used: AtomicU64::new(nanoseconds(now)),
        };
        self.established.insert(handle, Arc::new(context));
    }

    /// Adds the state of a context's creation.
    pub fn add_pending(&mut self, handle: Handle, state: P, now: Duration, limits: &GssLimits) {
        if self.pending.len() >= limits.pending_max.max(1) {
            self.pending.retain(|_, pending| pending.expires > now);
        }
        while self.pending.len() >= limits.pending_max.max(1) {
            let oldest = self.pending.iter().min_by_key(|(_, pending)| pending.expires);
            let Some((&oldest, _)) = oldest else { break };
            self.pending.remove(&oldest);
        }
        let expires = now.saturating_add(limits.pending_lifetime);
        self.pending.insert(handle, Pending { state, expires });
    }

    /// Numbers of established contexts and of those in creation.
    pub fn counts(&self) -> (usize, usize) {
        (self.established.len(), self.pending.len())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
