//! Signals to processes that wait for a reply.
//!
//! ```text
//!   request read ── register(unique) ──> table ── Reply answered or dropped ──> removed
//!                                          ^
//!   FUSE_INTERRUPT(unique) ── signalled ───+    not in the table: stored as `early`
//! ```
//!
//! 1. The kernel sends one INTERRUPT per request, at its first signal of any kind, also one that
//!    the program handles. It does *not* report a later SIGKILL. The process cannot die before the
//!    reply.
//! 2. So a wait without a time limit (a lock) ends with EINTR at any signal
//!    ([`Interrupt::signalled`]). A wait for a server ends with EINTR only when the process is
//!    being killed ([`Interrupt::killed`]): programs do not expect EINTR from a read of a file. A
//!    watcher thread checks signalled processes, since the kernel sends nothing more.
//! 3. When the process of a request that changes nothing is being killed, and the handler does not
//!    answer, the watcher replies EINTR. A change is waited for, within the client's deadline (I8):
//!    nobody may see it happen after its process is gone and others have continued. Over io_uring
//!    the kernel (Linux 6.18) does not report signals that came before the request was handed over.
//!    So requests that wait for long there are checked without an INTERRUPT
//!    ([`Interrupts::look_for_signals`]).
//! 4. A worker may read an INTERRUPT before another one has registered its request. It is stored as
//!    `early` and found by `register`. (The alternative, a reply of EAGAIN so that the kernel
//!    repeats it, spins. It also fails with several descriptors: the kernel looks the request up on
//!    the descriptor of the reply.)

mod process;
#[cfg(test)]
mod tests;

use super::channel::Channel;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Shards, so that requests register in parallel.
const SHARDS: usize = 16;
/// Early INTERRUPTs stored per shard. Those whose request had just been answered stay here until
/// others push them out. At most one per worker can matter, and there are far fewer workers than
/// `SHARDS * EARLY_MAX`.
const EARLY_MAX: usize = 256;
/// How often the watcher checks whether a signalled process is being killed.
pub(super) const WATCH: Duration = Duration::from_millis(100);

type Wake = Arc<dyn Fn() + Send + Sync>;

/// Whether the process that waits for a reply got a signal. Clones share their state.
#[derive(Clone)]
pub struct Interrupt {
    state: Arc<InterruptState>,
}

struct InterruptState {
    /// The thread that waits, as in `/proc`; 0: it cannot be seen.
    thread: u32,
    signalled: AtomicBool,
    killed: AtomicBool,
    answered: AtomicBool,
    /// If the watcher may reply: the channel and unique of the request.
    abandonable: Option<(Channel, u64)>,
    wakes: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    next: u64,
    list: Vec<(u64, Wake)>,
}

/// Removes the callback when dropped.
#[must_use = "dropping it removes the callback"]
pub struct SignalGuard {
    state: Arc<InterruptState>,
    number: u64,
}

impl Interrupt {
    /// `abandonable`: the channel and unique of a request that may be answered EINTR before its
    /// handler ends.
    pub(super) fn new(thread: u32, abandonable: Option<(Channel, u64)>) -> Self {
        let [signalled, killed, answered] = [const { AtomicBool::new(false) }; 3];
        Self {
            state: Arc::new(InterruptState {
                thread,
                signalled,
                killed,
                answered,
                abandonable,
                wakes: Mutex::default(),
            }),
        }
    }

    /// Claims the one reply. Whether the caller got it.
    pub(super) fn claim_answer(&self) -> bool {
        !self.state.answered.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.state.answered.load(Ordering::Acquire)
    }

    /// Whether a signal of any kind came.
    pub fn signalled(&self) -> bool {
        self.state.signalled.load(Ordering::Acquire)
    }

    /// Whether the process is being killed. Never true for a process of a pid namespace that cannot
    /// be seen from here.
    pub fn killed(&self) -> bool {
        self.state.killed.load(Ordering::Acquire)
    }

    /// Calls `wake` when a signal comes, and again when the process is being killed; immediately,
    /// if that was before. It runs on a thread of this module, and should only wake another thread.
    pub fn on_signal(&self, wake: impl Fn() + Send + Sync + 'static) -> SignalGuard {
        let wake: Wake = Arc::new(wake);
        let mut wakes = lock(&self.state.wakes);
        let number = wakes.next;
        wakes.next += 1;
        wakes.list.push((number, Arc::clone(&wake)));
        drop(wakes);
        if self.signalled() {
            wake();
        }
        SignalGuard { state: Arc::clone(&self.state), number }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (signalled, killed) = (self.signalled(), self.killed());
        f.debug_struct("Interrupt").field("signalled", &signalled).field("killed", &killed).finish()
    }
}

impl InterruptState {
    /// Records a signal. Whether the watcher must check the process.
    fn signal(&self) -> bool {
        let killed = process::is_being_killed(self.thread);
        self.killed.store(killed, Ordering::Release);
        self.signalled.store(true, Ordering::Release);
        self.wake();
        (!killed || self.abandonable.is_some()) && self.thread != 0
    }

    /// Checks the process again. Whether to check once more.
    fn look(&self) -> bool {
        if self.killed.load(Ordering::Acquire) {
            // The handler had time to answer by itself.
            self.desert();
            return false;
        }
        if !process::is_being_killed(self.thread) {
            return true;
        }
        self.killed.store(true, Ordering::Release);
        self.wake();
        self.abandonable.is_some()
    }

    fn desert(&self) {
        if let Some((channel, unique)) = &self.abandonable
            && !self.answered.swap(true, Ordering::AcqRel)
        {
            channel.answer_interrupted(*unique);
        }
    }

    fn wake(&self) {
        // Outside the lock: a callback may drop its guard.
        let wakes: Vec<Wake> =
            lock(&self.wakes).list.iter().map(|(_, wake)| Arc::clone(wake)).collect();
        for wake in wakes {
            wake();
        }
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        lock(&self.state.wakes).list.retain(|(number, _)| *number != self.number);
    }
}

impl fmt::Debug for SignalGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalGuard").finish_non_exhaustive()
    }
}

/// Every pending request, by its unique.
#[derive(Default)]
pub(super) struct Interrupts {
    shards: [Mutex<Shard>; SHARDS],
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Shard {
    waiting: HashMap<u64, Interrupt>,
    early: VecDeque<u64>,
}

#[derive(Default)]
struct Watched {
    running: bool,
    requests: Vec<u64>,
}

impl Interrupts {
    /// Before the handler sees the request.
    pub(super) fn register(self: &Arc<Self>, unique: u64, interrupt: &Interrupt) {
        let mut shard = self.shard(unique);
        shard.waiting.insert(unique, interrupt.clone());
        let early = shard.early.iter().position(|known| *known == unique);
        let early = early.and_then(|at| shard.early.remove(at));
        drop(shard);
        if early.is_some() {
            self.signal(unique, interrupt);
        }
    }

    /// The request was answered.
    pub(super) fn remove(&self, unique: u64) {
        self.shard(unique).waiting.remove(&unique);
    }

    /// FUSE_INTERRUPT.
    pub(super) fn interrupt(self: &Arc<Self>, unique: u64) {
        let mut shard = self.shard(unique);
        let found = shard.waiting.get(&unique).cloned();
        if found.is_none() {
            if shard.early.len() == EARLY_MAX {
                shard.early.pop_front();
            }
            shard.early.push_back(unique);
        }
        drop(shard);
        if let Some(interrupt) = found {
            self.signal(unique, &interrupt);
        }
    }

    fn signal(self: &Arc<Self>, unique: u64, interrupt: &Interrupt) {
        if interrupt.state.signal() {
            self.watch(unique);
        }
    }

    /// Makes the watcher check a request, and starts it if it is not running.
    fn watch(self: &Arc<Self>, unique: u64) {
        let mut watched = lock(&self.watched);
        watched.requests.push(unique);
        if watched.running {
            return;
        }
        let table = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("fuse-signals".into())
            .spawn(move || table.keep_watch());
        watched.running = started.is_ok();
    }

    /// The watcher: runs while there are requests to check.
    fn keep_watch(self: Arc<Self>) {
        loop {
            std::thread::sleep(WATCH);
            let requests = std::mem::take(&mut lock(&self.watched).requests);
            let left: Vec<u64> = requests.into_iter().filter(|unique| self.look(*unique)).collect();
            let mut watched = lock(&self.watched);
            watched.requests.extend(left);
            if watched.requests.is_empty() {
                watched.running = false;
                return;
            }
        }
    }

    /// Finds signals that the kernel did not report, to processes whose requests were pending at
    /// the last check (`before`). Returns the requests for the next check.
    pub(super) fn look_for_signals(self: &Arc<Self>, before: &HashSet<u64>) -> HashSet<u64> {
        let mut waiting = HashSet::new();
        for shard in &self.shards {
            // Files are read outside the lock.
            let requests: Vec<(u64, Interrupt)> = lock(shard)
                .waiting
                .iter()
                .map(|(unique, interrupt)| (*unique, interrupt.clone()))
                .collect();
            for (unique, interrupt) in requests {
                let thread = interrupt.state.thread;
                if interrupt.signalled() || thread == 0 {
                    continue;
                }
                match before.contains(&unique) && process::has_signal(thread) {
                    true => self.signal(unique, &interrupt),
                    false => drop(waiting.insert(unique)),
                }
            }
        }
        waiting
    }

    fn look(&self, unique: u64) -> bool {
        let interrupt = self.shard(unique).waiting.get(&unique).cloned();
        interrupt.is_some_and(|interrupt| interrupt.state.look())
    }

    fn shard(&self, unique: u64) -> MutexGuard<'_, Shard> {
        // Uniques are even.
        lock(&self.shards[(unique / 2 % SHARDS as u64) as usize])
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts").finish_non_exhaustive()
    }
}

/// Locks a mutex. Ends the process if a thread panicked while it held it (ADR 0035).
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}
