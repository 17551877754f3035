//! Sizes of files: where a read passes the end of the object, the metadata server knows whether
//! that is a hole or the end of the file.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use braid_net::{Blocking, Driver, Endpoint, SharedConnection, block_on};
use braid_types::{Failure, FileIndex, Status};
use braid_wire::{
    Call, Wire, decode_outcome,
    message::mds::{Envelope, FileSizeReply, GetFileSize},
};

/// How long a read waits for the size. The client repeats the read after an error.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Asks the metadata server, over one connection for all reads.
#[derive(Debug)]
pub(super) struct FileSizes {
    driver: Blocking,
    endpoint: Endpoint,
    connection: Mutex<Option<Arc<SharedConnection>>>,
}

impl FileSizes {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { driver: Blocking::new(), endpoint, connection: Mutex::new(None) }
    }

    /// The size of a file in bytes.
    ///
    /// # Errors
    /// [`Status::TryAgain`] if the metadata server does not answer; what it refuses.
    pub(super) fn size(&self, file: FileIndex) -> Result<u64, Failure> {
        let deadline = self.driver.now() + ANSWER_WAIT;
        let connection = self.connection(deadline)?;
        let mut body = Envelope::PLAIN.to_bytes();
        GetFileSize { file }.encode(&mut body);
        let answer = block_on(self.driver.call(&connection, GetFileSize::OP, &body, deadline));
        let answer = answer.map_err(|why| {
            // The next read connects again.
            *self.lock() = None;
            unanswered(&why)
        })?;
        let outcome: Result<FileSizeReply, Failure> =
            decode_outcome(&answer.body).map_err(|why| unanswered(&why))?;
        outcome.map(|reply| reply.bytes.0)
    }

    fn connection(&self, deadline: Duration) -> Result<Arc<SharedConnection>, Failure> {
        // While one read connects, the others wait for it.
        let mut connection = self.lock();
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let made = block_on(self.driver.connect_shared(&self.endpoint, deadline));
        let made = Arc::new(made.map_err(|why| unanswered(&why))?);
        Ok(connection.insert(made).clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<SharedConnection>>> {
        self.connection.lock().unwrap_or_else(braid_types::poisoned)
    }
}

fn unanswered(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Status::TryAgain, format!("asking the metadata server for a size: {why}"))
}
