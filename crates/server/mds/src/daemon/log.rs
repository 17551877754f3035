//! The thread that syncs the log. Calls that wait share a sync, so one thread is enough, and its
//! queue holds at most the next one.

use std::{
    io,
    sync::{
        Mutex,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
};

use braid_types::EndProcessOnPanic;

use crate::Spawner;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait: the core has one at a time, and each spawns the next.
const JOBS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct LogThread {
    jobs: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LogThread {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(JOBS_MAX);
        let run = move || {
            let _guard = EndProcessOnPanic;
            queue.into_iter().for_each(|job| job());
        };
        let thread = thread::Builder::new().name("mds-log".into()).spawn(run)?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread once the waiting jobs are done.
    pub(super) fn stop(&self) {
        drop(self.jobs.lock().unwrap_or_else(braid_types::poisoned).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(braid_types::poisoned).take() {
            let _ = thread.join(); // a job that panicked has ended the process
        }
    }
}

impl Spawner for LogThread {
    fn spawn(&self, job: Job) {
        let jobs = self.jobs.lock().unwrap_or_else(braid_types::poisoned).clone();
        // After the stop, a dropped job drops its responders, which answer that the server stopped.
        if let Some(jobs) = jobs {
            let _ = jobs.send(job);
        }
    }
}
