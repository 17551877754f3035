//! Threads that only drop pages and expire names: the only threads of a mount that the kernel may
//! block.
//!
//! ```text
//!   any thread ── work ──> queue ──> invalidator ── write ──> its own clone of /dev/fuse
//!        ^ waits on a condition       |  in D state while a page is locked by a READ, or a
//!        | and can be killed          |  directory by a change, that this mount has not answered
//!        +──────────── result ────────+  (bounded: Bounds)
//! ```
//!
//! The kernel waits for a locked page or directory and ignores signals meanwhile. A thread that it
//! blocks there outlives a SIGKILL of its process, and would keep the process's descriptors open.
//! The kernel ends the requests that were read from a device when that device is closed. So the
//! READ, the invalidation and the program that reads would wait for each other forever (I8).
//! Hence:
//!
//! 1. Only invalidators do such work; every other thread of the mount ends when it is killed.
//! 2. An invalidator has a descriptor table of its own, with one clone of the device and nothing
//!    else. When the process is killed, the table of all other threads is closed. Requests that
//!    were read from its device end, pages are unlocked, the invalidator continues and ends, its
//!    clone is closed as the last descriptor, and the connection is aborted.
//! 3. Requests that were not read yet, or that arrive in that moment, do not end so. Another
//!    process must abort them, by [`Abort`](super::mount::Abort) (`braid mount` has one).
//! 4. A mount has one invalidator of each kind from its beginning, so that they continue to work
//!    whatever resources the process lacks later.

mod table;

use super::device::Device;
use super::notify::{Expiry, Range, invalidate};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use std::{fmt, io, thread};

/// Threads that drop pages at most. Each that the kernel blocks delays the return of a lease; a
/// client carries out a few recalls at the same time.
pub const INVALIDATORS_MAX: usize = 8;

/// The limits of one kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    threads: usize,
    /// Jobs that wait for a thread. A caller with a further job waits.
    jobs: usize,
}

impl Bounds {
    pub(super) const PAGES: Self = Self { threads: INVALIDATORS_MAX, jobs: 256 };
    /// A thread is blocked for as long as a directory is locked, and no caller waits that long: one
    /// for each directory in which a program may be creating a file.
    pub(super) const NAMES: Self = Self { threads: 64, jobs: 65_536 };
}
/// Enough for messages of 56 bytes and a name.
const STACK_BYTES: usize = 256 << 10;

/// The threads of one mount; they end with it.
pub(super) struct Invalidators {
    device: Arc<Device>,
    shared: Arc<Shared>,
}

/// The state that threads and callers share. It must not own a descriptor: a thread that dropped it
/// would close an unrelated one in its own table.
struct Shared {
    bounds: Bounds,
    queue: Mutex<Queue>,
    work: Condvar,
    space: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    threads: usize,
    idle: usize,
    over: bool,
}

/// The work for one caller.
pub(super) enum Work {
    Pages(Range),
    Names(Expiry),
}

/// Work that has begun.
#[derive(Debug)]
pub struct Invalidation(Arc<Job>);

struct Job {
    work: Work,
    /// Messages that the kernel has accepted.
    sent: AtomicUsize,
    result: Mutex<Option<Result<(), Errno>>>,
    done: Condvar,
}

impl Invalidators {
    /// Starts the first thread.
    pub(super) fn start(device: &Arc<Device>, bounds: Bounds) -> io::Result<Self> {
        let invalidators =
            Self { device: Arc::clone(device), shared: Arc::new(Shared::new(bounds)) };
        invalidators.shared.lock().threads = 1;
        invalidators.spawn()?;
        Ok(invalidators)
    }

    /// Gives work to one of the threads.
    pub(super) fn begin(&self, work: Work) -> Invalidation {
        let job = Arc::new(Job::new(work));
        if self.shared.put(&job)
            && let Err(error) = self.spawn()
        {
            self.shared.lock().threads -= 1;
            tracing::warn!(
                %error,
                "starting a thread for an invalidation failed: it waits for the others"
            );
        }
        Invalidation(job)
    }

    /// Returns when the thread does not use this process's descriptor table any more.
    fn spawn(&self) -> io::Result<()> {
        let (shared, main) = (Arc::clone(&self.shared), self.device.fd().as_raw_fd());
        let (entered, result) = sync_channel(1);
        // It gets only the number, which is valid while `self` is borrowed.
        let body = move || match table::enter(main) {
            Ok((device, shares)) => {
                let _ = entered.send(Ok(shares));
                shared.serve(&device);
            }
            Err(error) => drop(entered.send(Err(error))),
        };
        thread::Builder::new()
            .name("fuse-invalidate".into())
            .stack_size(STACK_BYTES)
            .spawn(body)?;
        if let Some(error) = result.recv().map_err(io::Error::other)?? {
            tracing::warn!(
                %error,
                "opening a descriptor for invalidations failed: programs may hang if this process \
                 is killed"
            );
        }
        Ok(())
    }
}

impl Drop for Invalidators {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.work.notify_all();
    }
}

impl fmt::Debug for Invalidators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invalidators")
            .field("threads", &self.shared.lock().threads)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn new(bounds: Bounds) -> Self {
        Self { bounds, queue: Mutex::default(), work: Condvar::new(), space: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(braid_types::poisoned)
    }

    /// Queues a job. Whether another thread is needed; it is counted already.
    fn put(&self, job: &Arc<Job>) -> bool {
        let full = self.space.wait_while(self.lock(), |queue| queue.jobs.len() >= self.bounds.jobs);
        let mut queue = full.unwrap_or_else(braid_types::poisoned);
        queue.jobs.push_back(Arc::clone(job));
        self.work.notify_one();
        let more = queue.jobs.len() > queue.idle && queue.threads < self.bounds.threads;
        queue.threads += usize::from(more);
        more
    }

    /// Waits for a job. `None`: the mount has ended.
    fn take(&self) -> Option<Arc<Job>> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                self.space.notify_one();
                return Some(job);
            }
            if queue.over {
                return None;
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(braid_types::poisoned);
            queue.idle -= 1;
        }
    }

    fn serve(&self, device: &Device) {
        while let Some(job) = self.take() {
            job.finish(job.work.carry_out(device, &job.sent));
        }
    }
}

impl Work {
    fn carry_out(&self, device: &Device, sent: &AtomicUsize) -> Result<(), Errno> {
        match self {
            Self::Pages(range) => invalidate(device, *range),
            Self::Names(expiry) => expiry.carry_out(device, sent),
        }
    }
}

impl Invalidation {
    /// Waits until it is done.
    pub(super) fn wait(&self) -> Result<(), Errno> {
        let result = self.0.done.wait_while(self.0.result(), |result| result.is_none());
        result.unwrap_or_else(braid_types::poisoned).unwrap_or(Ok(()))
    }

    /// Waits no longer than this. `None`: it is not done yet. ENODEV and the like: the mount has
    /// ended.
    pub fn wait_for(&self, time: Duration) -> Option<Result<(), Errno>> {
        let waited =
            self.0.done.wait_timeout_while(self.0.result(), time, |result| result.is_none());
        *waited.unwrap_or_else(braid_types::poisoned).0
    }

    /// How many of its messages the kernel has accepted. It does not rise while the work waits for
    /// a thread or the kernel waits for a lock.
    pub fn sent(&self) -> usize {
        self.0.sent.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("result", &*self.result()).finish_non_exhaustive()
    }
}

impl Job {
    fn new(work: Work) -> Self {
        Self { work, sent: AtomicUsize::new(0), result: Mutex::default(), done: Condvar::new() }
    }

    fn result(&self) -> MutexGuard<'_, Option<Result<(), Errno>>> {
        self.result.lock().unwrap_or_else(braid_types::poisoned)
    }

    fn finish(&self, result: Result<(), Errno>) {
        *self.result() = Some(result);
        self.done.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Arc<Job> {
        Arc::new(Job::new(Work::Pages(Range { node: 1, offset: 0, length: 0 })))
    }

    #[test]
    fn threads_are_made_while_all_are_busy_and_never_more_than_the_limit() {
        let shared = Shared::new(Bounds::PAGES);
        let made = (0..2 * INVALIDATORS_MAX).filter(|_| shared.put(&job())).count();
        assert_eq!((made, shared.lock().threads), (INVALIDATORS_MAX, INVALIDATORS_MAX));
    }

    #[test]
    fn no_thread_is_made_for_a_job_that_an_idle_one_takes() {
        let shared = Shared::new(Bounds::PAGES);
        shared.lock().idle = 1;
        assert!(!shared.put(&job()));
        assert!(shared.put(&job()), "the idle one has its job already");
    }

    #[test]
    fn jobs_are_taken_in_their_order_and_the_rest_before_the_end() {
        let shared = Shared::new(Bounds::PAGES);
        let (first, second) = (job(), job());
        shared.put(&first);
        shared.put(&second);
        shared.lock().over = true;
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &first));
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &second));
        assert!(shared.take().is_none());
    }

    #[test]
    fn a_job_for_a_full_queue_waits_for_space() {
        let shared = Arc::new(Shared::new(Bounds::PAGES));
        assert_eq!(
            (0..Bounds::PAGES.jobs).filter(|_| shared.put(&job())).count(),
            INVALIDATORS_MAX
        );
        let (late, waiting) = (job(), Arc::clone(&shared));
        let put = thread::spawn({
            let late = Arc::clone(&late);
            move || waiting.put(&late)
        });
        // Whenever the late job arrives, it is behind all earlier ones.
        (0..Bounds::PAGES.jobs).for_each(|_| assert!(!Arc::ptr_eq(&shared.take().unwrap(), &late)));
        put.join().unwrap();
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &late));
    }

    #[test]
    fn a_result_reaches_the_waiting_thread() {
        let job = job();
        let waiter = thread::spawn({
            let job = Arc::clone(&job);
            move || Invalidation(job).wait()
        });
        assert_eq!(Invalidation(Arc::clone(&job)).wait_for(Duration::from_millis(1)), None);
        job.finish(Err(Errno::NODEV));
        assert_eq!(waiter.join().unwrap(), Err(Errno::NODEV));
        assert_eq!(Invalidation(job).wait_for(Duration::ZERO), Some(Err(Errno::NODEV)));
    }
}
