//! A few threads that block on the disk, so that no connection's thread has to.
//!
//! The queue is bounded (I9). When it is full, the connection's own thread does the work, which
//! delays only the client that asks for too much.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use braid_store::LocalStore;
use braid_types::{Failure, Status};

use super::clock::Clock;
use crate::{frame_sink::Answer, iod_core::IodCore, ops::BlockingWork};

/// Works in the queue of each pool.
const QUEUE_MAX: usize = 256;

type Reply = Box<dyn FnOnce(Answer) + Send>;

/// A pool of workers.
#[derive(Debug)]
pub(super) struct Workers {
    queue: Mutex<Option<SyncSender<QueuedWork>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    worker: Worker,
}

/// The state of each worker.
#[derive(Clone, Debug)]
struct Worker {
    core: Arc<IodCore<LocalStore>>,
    clock: Clock,
}

struct QueuedWork {
    work: BlockingWork<LocalStore>,
    reply: Reply,
}

impl Workers {
    pub(super) fn start(
        name: &str,
        count: usize,
        core: &Arc<IodCore<LocalStore>>,
        clock: Clock,
    ) -> io::Result<Self> {
        let (queue, tasks) = sync_channel(QUEUE_MAX);
        let tasks = Arc::new(Mutex::new(tasks));
        let worker = Worker { core: core.clone(), clock };
        let start = |_| {
            let (worker, tasks) = (worker.clone(), tasks.clone());
            thread::Builder::new().name(format!("iod-{name}")).spawn(move || worker.serve(&tasks))
        };
        let threads = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { queue: Mutex::new(Some(queue)), threads: Mutex::new(threads), worker })
    }

    /// Queues the work; its reply is passed to `reply`.
    pub(super) fn submit(
        &self,
        work: BlockingWork<LocalStore>,
        reply: impl FnOnce(Answer) + Send + 'static,
    ) {
        let task = QueuedWork { work, reply: Box::new(reply) };
        let queue = self.queue.lock().unwrap_or_else(braid_types::poisoned).clone();
        let refused = match queue {
            Some(queue) => queue.try_send(task).err(),
            None => Some(TrySendError::Disconnected(task)),
        };
        if let Some(TrySendError::Full(task) | TrySendError::Disconnected(task)) = refused {
            self.worker.run(task);
        }
    }

    /// Waits until the workers have finished the queue, and ends them.
    pub(super) fn stop(&self) {
        self.queue.lock().unwrap_or_else(braid_types::poisoned).take();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(braid_types::poisoned));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Worker {
    fn serve(&self, tasks: &Mutex<Receiver<QueuedWork>>) {
        loop {
            let task = tasks.lock().unwrap_or_else(braid_types::poisoned).recv();
            match task {
                Ok(task) => self.run(task),
                Err(_) => return,
            }
        }
    }

    /// A panic becomes a reply: a bug in one operation must not cost the pool a thread.
    fn run(&self, QueuedWork { work, reply }: QueuedWork) {
        let done = catch_unwind(AssertUnwindSafe(|| work.run(&self.core, &|| self.clock.now())));
        let internal =
            |_| Answer::failure(&Failure::new(Status::Internal, "a bug ended the operation"));
        reply(done.unwrap_or_else(internal));
    }
}
