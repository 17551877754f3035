//! The state of one thread: its mount, its random choices, the clock, and its open files.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{File, OpenOptions},
    io::Result,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use braid_types::Random;

use super::linearizability::{NEVER, TimedCall};

/// One clock for all threads.
#[derive(Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts now.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// The call that a thread makes, for the thread that watches it.
#[derive(Debug, Default)]
pub struct CallInProgress {
    /// When the call in flight began, by the clock; 0 when there is none.
    began: AtomicU64,
    what: Mutex<String>,
}

impl CallInProgress {
    /// The call that has been in flight for longer than `limit`, if any.
    pub fn overdue(&self, clock: &Clock, limit: Duration) -> Option<String> {
        let began = self.began.load(Ordering::Acquire);
        let overdue = began != 0 && clock.now().saturating_sub(began) > limit.as_nanos() as u64;
        overdue.then(|| self.what.lock().map(|what| what.clone()).unwrap_or_default())
    }
}

/// The result of a call.
pub struct FinishedCall<T> {
    invoked: u64,
    returned: u64,
    pub result: Result<T>,
}

impl<T> FinishedCall<T> {
    /// A record of the call.
    pub fn timed<C>(
        &self,
        player: &TestThread,
        object: usize,
        call: C,
        known: bool,
    ) -> TimedCall<C> {
        let returned = if known { self.returned } else { NEVER };
        TimedCall { object, thread: player.thread, invoked: self.invoked, returned, call }
    }
}

/// One thread of the test.
pub struct TestThread {
    pub thread: usize,
    /// The directory of the round, through this thread's mount.
    pub dir: PathBuf,
    pub random: Random,
    pub clock: Arc<Clock>,
    pub watched: Arc<CallInProgress>,
    /// One read in this many returns an older value.
    pub plant: Option<u64>,
    /// Whether writes are synced before they return: what a client buffers is lost with it.
    pub durable: bool,
    /// Calls that failed with errors that no specification allows.
    pub errors: BTreeMap<String, u64>,
    pub longest: Duration,
    pub calls: u64,
    files: HashMap<String, File>,
    remembered: HashMap<String, Vec<u64>>,
    next_tag: u64,
}

impl TestThread {
    /// A thread on the mount of `dir`.
    pub fn new(thread: usize, dir: PathBuf, random: Random, clock: Arc<Clock>) -> Self {
        Self {
            thread,
            dir,
            random,
            clock,
            watched: Arc::default(),
            plant: None,
            durable: false,
            errors: BTreeMap::new(),
            longest: Duration::ZERO,
            calls: 0,
            files: HashMap::new(),
            remembered: HashMap::new(),
            next_tag: 0,
        }
    }

    /// A number that no other call writes: the thread, and a sequence number.
    pub fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        (self.thread as u64 + 1) << 32 | self.next_tag
    }

    /// Makes a call and records its times.
    pub fn call<T>(&mut self, what: &str, call: impl FnOnce() -> Result<T>) -> FinishedCall<T> {
        if let Ok(mut doing) = self.watched.what.lock() {
            *doing = format!("thread {}: {what}", self.thread);
        }
        let invoked = self.clock.now();
        self.watched.began.store(invoked.max(1), Ordering::Release);
        let result = call();
        let returned = self.clock.now();
        self.watched.began.store(0, Ordering::Release);
        self.calls += 1;
        self.longest = self.longest.max(Duration::from_nanos(returned - invoked));
        FinishedCall { invoked, returned, result }
    }

    /// Records a failure that leaves the outcome unknown.
    pub fn failed(&mut self, what: &str, error: &std::io::Error) {
        *self.errors.entry(format!("{what}: {error}")).or_default() += 1;
        // Open files of a mount that died are unusable.
        self.files.clear();
    }

    /// An open file, reused for the next calls. A failure is recorded.
    pub fn file(&mut self, name: &str, append: bool) -> Option<File> {
        let key = format!("{name} {append}");
        if self.random.below(8) == 0 {
            self.files.remove(&key);
        }
        if !self.files.contains_key(&key) {
            let path = self.dir.join(name);
            let flags = if self.durable { libc::O_DSYNC } else { 0 };
            let mut options = OpenOptions::new();
            options.read(true).write(!append).append(append).custom_flags(flags);
            let opened = self.call("open", || options.open(path));
            match opened.result {
                Ok(file) => drop(self.files.insert(key.clone(), file)),
                Err(error) => self.failed("open", &error),
            }
        }
        self.files.get(&key)?.try_clone().ok()
    }

    /// The value read; where a fault is planted, the previous value read at this place.
    pub fn with_planted_fault(&mut self, place: String, seen: Vec<u64>) -> Vec<u64> {
        let Some(rarity) = self.plant else { return seen };
        let before = self.remembered.insert(place, seen.clone());
        match before {
            Some(before) if self.random.below(rarity) == 0 => before,
            _ => seen,
        }
    }
}
