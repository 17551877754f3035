//! Threads that do nothing but drop pages: the only ones of a mount that the kernel may hold.
//!
//! ```text
//!   any thread ── drop_pages ──> queue ──> invalidator ── write ──> its own clone of /dev/fuse
//!        ^ waits on a condition,              |  in D state while a page is locked by a READ
//!        | and can be killed                  |  that this mount has not answered
//!        +──────────── result ────────────────+  (bounded: INVALIDATORS_MAX)
//! ```
//!
//! The kernel waits for a locked page without listening to signals. A thread that it holds there outlives a SIGKILL of
//! its process, and would keep the process's descriptors open: the kernel ends the requests that were read from a
//! device when that device is closed, so the READ, the invalidation and the program that reads would wait
//! for each other for ever (I8). Hence:
//!
//! 1. Pages are dropped by invalidators alone; every other thread of the mount ends when it is killed.
//! 2. An invalidator has a descriptor table of its own, in which there is one clone of the device and nothing else. When the
//!    process is killed, the table of all others is closed: what was read from its device ends, pages are unlocked,
//!    the invalidator goes on and ends, its clone is closed as the last, and the connection is aborted.
//! 3. What was not read yet, or is asked for anew in that moment, is not ended so: another process must do it, by
//!    [`Abort`](super::mount::Abort) (`braid mount` has one).
//! 4. A mount has one invalidator from its beginning, so that pages can be dropped whatever the process lacks later.

mod table;

use super::device::Device;
use super::notify::{Range, invalidate};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, thread};

/// Threads at most. Each that the kernel holds keeps a lease waiting, of which a client carries out a few at once.
pub const INVALIDATORS_MAX: usize = 8;
/// Jobs that wait for a thread; who comes later waits for room.
const JOBS_MAX: usize = 256;
/// A message of 56 bytes is all that they make.
const STACK_BYTES: usize = 256 << 10;

/// The threads of one mount; they end with it.
pub(super) struct Invalidators {
    device: Arc<Device>,
    shared: Arc<Shared>,
}

/// What threads and callers share. Nothing that has a descriptor: dropped by a thread, it would close another one.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    threads: usize,
    idle: usize,
    over: bool,
}

struct Job {
    range: Range,
    result: Mutex<Option<Result<(), Errno>>>,
    done: Condvar,
}

impl Invalidators {
    /// With one thread.
    pub(super) fn start(device: &Arc<Device>) -> io::Result<Self> {
        let invalidators = Self { device: Arc::clone(device), shared: Arc::default() };
        invalidators.shared.lock().threads = 1;
        invalidators.spawn()?;
        Ok(invalidators)
    }

    /// Waits until the kernel has dropped them.
    pub(super) fn drop_pages(&self, range: Range) -> Result<(), Errno> {
        let job = Arc::new(Job { range, result: Mutex::default(), done: Condvar::new() });
        if self.shared.put(&job)
            && let Err(error) = self.spawn()
        {
            self.shared.lock().threads -= 1;
            tracing::warn!(%error, "no thread for another invalidation: it waits for the others");
        }
        job.wait()
    }

    /// Returns when the thread needs nothing of this process's table any more.
    fn spawn(&self) -> io::Result<()> {
        let (shared, main) = (Arc::clone(&self.shared), self.device.fd().as_raw_fd());
        let (tell, told) = sync_channel(1);
        // It gets the number alone, which is good while `self` is borrowed.
        let body = move || match table::enter(main) {
            Ok((device, shares)) => {
                let _ = tell.send(Ok(shares));
                shared.serve(&device);
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        thread::Builder::new().name("fuse-invalidate".into()).stack_size(STACK_BYTES).spawn(body)?;
        if let Some(error) = told.recv().map_err(io::Error::other)?? {
            tracing::warn!(%error, "no descriptor for invalidations: programs may hang if this process is killed");
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
        f.debug_struct("Invalidators").field("threads", &self.shared.lock().threads).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it needs another thread, which is counted already.
    fn put(&self, job: &Arc<Job>) -> bool {
        let full = self.room.wait_while(self.lock(), |queue| queue.jobs.len() >= JOBS_MAX);
        let mut queue = full.unwrap_or_else(PoisonError::into_inner);
        queue.jobs.push_back(Arc::clone(job));
        self.work.notify_one();
        let more = queue.jobs.len() > queue.idle && queue.threads < INVALIDATORS_MAX;
        queue.threads += usize::from(more);
        more
    }

    /// `None`: the mount is over.
    fn take(&self) -> Option<Arc<Job>> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                self.room.notify_one();
                return Some(job);
            }
            if queue.over {
                return None;
            }
            queue.idle += 1;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn serve(&self, device: &Device) {
        while let Some(job) = self.take() {
            job.finish(invalidate(device, job.range));
        }
    }
}

impl Job {
    fn finish(&self, result: Result<(), Errno>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.done.notify_one();
    }

    fn wait(&self) -> Result<(), Errno> {
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *result {
                Some(result) => return result,
                None => result = self.done.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Arc<Job> {
        let range = Range { node: 1, offset: 0, length: 0 };
        Arc::new(Job { range, result: Mutex::default(), done: Condvar::new() })
    }

    #[test]
    fn threads_are_made_while_all_are_busy_and_never_more_than_the_limit() {
        let shared = Shared::default();
        let made = (0..2 * INVALIDATORS_MAX).filter(|_| shared.put(&job())).count();
        assert_eq!((made, shared.lock().threads), (INVALIDATORS_MAX, INVALIDATORS_MAX));
    }

    #[test]
    fn no_thread_is_made_for_a_job_that_an_idle_one_takes() {
        let shared = Shared::default();
        shared.lock().idle = 1;
        assert!(!shared.put(&job()));
        assert!(shared.put(&job()), "the idle one has its job already");
    }

    #[test]
    fn jobs_are_taken_in_their_order_and_the_rest_before_the_end() {
        let shared = Shared::default();
        let (first, second) = (job(), job());
        shared.put(&first);
        shared.put(&second);
        shared.lock().over = true;
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &first));
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &second));
        assert!(shared.take().is_none());
    }

    #[test]
    fn who_comes_to_a_full_queue_waits_for_room() {
        let shared = Arc::new(Shared::default());
        assert_eq!((0..JOBS_MAX).filter(|_| shared.put(&job())).count(), INVALIDATORS_MAX);
        let (late, waiting) = (job(), Arc::clone(&shared));
        let put = thread::spawn({
            let late = Arc::clone(&late);
            move || waiting.put(&late)
        });
        // Whenever the late one comes, it is behind all that were there.
        (0..JOBS_MAX).for_each(|_| assert!(!Arc::ptr_eq(&shared.take().unwrap(), &late)));
        put.join().unwrap();
        assert!(Arc::ptr_eq(&shared.take().unwrap(), &late));
    }

    #[test]
    fn a_result_reaches_who_waits() {
        let job = job();
        let waiter = thread::spawn({
            let job = Arc::clone(&job);
            move || job.wait()
        });
        job.finish(Err(Errno::NODEV));
        assert_eq!(waiter.join().unwrap(), Err(Errno::NODEV));
    }
}
