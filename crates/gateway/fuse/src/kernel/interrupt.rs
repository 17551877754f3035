//! Signals to processes that wait for an answer.
//!
//! ```text
//!   request read ── register(unique) ──> table ── Reply answered or dropped ──> gone
//!                                          ^
//!   FUSE_INTERRUPT(unique) ── signalled ───+    not in the table: kept as `early`
//! ```
//!
//! 1. The kernel sends one INTERRUPT per request, at its first signal of any kind, also one that the
//!    program handles; a later SIGKILL is *not* told. Until the answer comes the process cannot die.
//! 2. So: a wait that may last for ever by its nature (a lock) ends with EINTR at any signal
//!    ([`Interrupt::signalled`]). A wait for a server ends with EINTR only when the process is being
//!    killed ([`Interrupt::killed`]): programs do not expect EINTR of a read of a file. A watcher thread
//!    looks at those that were signalled, since the kernel stays silent.
//! 3. A request that changes nothing is answered EINTR by the watcher, when its process is being killed and
//!    the handler does not answer by itself. A change is waited for, within the client's time bound (I8):
//!    nobody may see it happen after its process is gone and others went on.
//!    Over io_uring the kernel (Linux 6.18) tells of no signal that came before the request was handed over. So what waits for long there
//!    is looked at by itself ([`Interrupts::look_for_signals`]).
//! 4. An INTERRUPT may be read by another worker before its request is registered. It is kept as `early`
//!    and found by `register`. (The other way, to answer EAGAIN so that the kernel repeats it, spins, and
//!    fails with several descriptors: the kernel looks the request up on the descriptor that answers.)

mod process;
#[cfg(test)]
mod tests;

use super::channel::Channel;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests register side by side.
const SHARDS: usize = 16;
/// Early INTERRUPTs kept per shard. Those whose request had just been answered stay here until pushed
/// out; at most one per worker can matter, and workers are far fewer than `SHARDS * EARLY_MAX`.
const EARLY_MAX: usize = 256;
/// How often the watcher looks whether a signalled process is being killed.
pub(super) const WATCH: Duration = Duration::from_millis(100);

type Wake = Arc<dyn Fn() + Send + Sync>;

/// Whether the process that waits for an answer got a signal. Clones are the same.
#[derive(Clone)]
pub struct Interrupt {
    state: Arc<State>,
}

struct State {
    /// The thread that waits, as `/proc` names it; 0: none that can be seen.
    thread: u32,
    signalled: AtomicBool,
    killed: AtomicBool,
    answered: AtomicBool,
    /// Where the watcher may answer.
    deserts: Option<(Channel, u64)>,
    wakes: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    next: u64,
    list: Vec<(u64, Wake)>,
}

/// Takes the call-back away when dropped.
#[must_use = "the call-back is gone with this"]
pub struct SignalGuard {
    state: Arc<State>,
    number: u64,
}

impl Interrupt {
    /// `deserts`: the way of the answer and the unique of a request that may be left by who waits for it.
    pub(super) fn new(thread: u32, deserts: Option<(Channel, u64)>) -> Self {
        let [signalled, killed, answered] = [const { AtomicBool::new(false) }; 3];
        Self {
            state: Arc::new(State {
                thread,
                signalled,
                killed,
                answered,
                deserts,
                wakes: Mutex::default(),
            }),
        }
    }

    /// Takes the right to answer; there is one.
    pub(super) fn claim_answer(&self) -> bool {
        !self.state.answered.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_answered(&self) -> bool {
        self.state.answered.load(Ordering::Acquire)
    }

    /// A signal came, of any kind.
    pub fn signalled(&self) -> bool {
        self.state.signalled.load(Ordering::Acquire)
    }

    /// The process is being killed. Never true for a process of a pid namespace that is not seen from here.
    pub fn killed(&self) -> bool {
        self.state.killed.load(Ordering::Acquire)
    }

    /// Calls `wake` when a signal comes and again when it turns out that the process is being killed; at
    /// once, if that was before. It runs on a thread of this layer: it should only wake somebody.
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

impl State {
    /// Takes in a signal; whether the watcher must go on looking.
    fn signal(&self) -> bool {
        let killed = process::is_being_killed(self.thread);
        self.killed.store(killed, Ordering::Release);
        self.signalled.store(true, Ordering::Release);
        self.wake();
        (!killed || self.deserts.is_some()) && self.thread != 0
    }

    /// Looks again; whether to look once more.
    fn look(&self) -> bool {
        if self.killed.load(Ordering::Acquire) {
            // The handler had its time.
            self.desert();
            return false;
        }
        if !process::is_being_killed(self.thread) {
            return true;
        }
        self.killed.store(true, Ordering::Release);
        self.wake();
        self.deserts.is_some()
    }

    fn desert(&self) {
        if let Some((channel, unique)) = &self.deserts
            && !self.answered.swap(true, Ordering::AcqRel)
        {
            channel.desert(*unique);
        }
    }

    fn wake(&self) {
        // Outside the lock: a call-back may drop its guard.
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

/// Every request under way, by its unique.
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

    /// The request is answered.
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

    /// Has the watcher look at a request, and starts it if there is none.
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

    /// Runs while there is something to look at.
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

    /// Takes in signals that the kernel did not tell of, to processes whose requests were there at the last look. The
    /// requests that are to be looked at the next time.
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
        // Uniques are even, and steps of 2 apart.
        lock(&self.shards[(unique / 2 % SHARDS as u64) as usize])
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts").finish_non_exhaustive()
    }
}

/// Nothing here panics under a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
