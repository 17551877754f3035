//! Appending: at the end of the file, wherever it is.
//!
//! Where the end is nobody knows but the objects, and it is wrong as soon as it was asked, unless no other append is
//! under way: in this mount under a lock of this process, between mounts under one at the metadata server. Two appends never
//! land on the same bytes and none is torn; a plain write past the end may come between.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use braid_client::{Client, FileIndex, LockRange, LockRequest, LockSpace, Status};
use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

use super::lock::LockWait;
use crate::{
    error::{Error, Result},
    files::OpenFile,
    vfs::Vfs,
};

/// A byte that no file has: locks on it are those of appends, and no program's.
const APPEND_BYTE: u64 = 1 << 63;
/// The mount itself. A kernel's owners are drawn at random from 64 bits.
const APPEND_OWNER: u64 = u64::MAX;
/// How long an append waits for those of other mounts (I8).
const WAIT_MAX: Duration = Duration::from_secs(TIMEOUT_SECONDS_DEFAULT);

impl Vfs {
    pub(super) fn append(&self, open: &OpenFile, bytes: &[u8]) -> Result<usize> {
        let _alone_here = open.shared.append_lock();
        let _alone = Alone::begin(self.client(), open.file.index())?;
        let end = open.file.size()?;
        Ok(open.file.write_at(bytes, end)?)
    }
}

/// No other mount appends to the file while this lives.
struct Alone<'c> {
    client: &'c Client,
    file: FileIndex,
}

impl<'c> Alone<'c> {
    fn begin(client: &'c Client, file: FileIndex) -> Result<Self> {
        let (owner, space, start, last) = (APPEND_OWNER, LockSpace::Range, APPEND_BYTE, APPEND_BYTE);
        let wanted = LockRequest { file, space, owner, pid: 0, start, last, exclusive: true };
        if client.try_lock_range(&wanted)?.is_some() {
            wait(client, &wanted)?;
        }
        Ok(Self { client, file })
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let (owner, space, start, last) = (APPEND_OWNER, LockSpace::Range, APPEND_BYTE, APPEND_BYTE);
        // What could not be told goes with the session, or with the next append.
        let _ = self.client.unlock_range(&LockRange { file: self.file, space, owner, start, last });
    }
}

/// Waits for the other mounts' appends, bounded: another thread ends the wait when its time is over.
fn wait(client: &Client, wanted: &LockRequest) -> Result<()> {
    let cancel = LockWait::new();
    let (theirs, canceller) = (cancel.clone(), client.clone());
    let (done, waiting) = mpsc::channel::<()>();
    let watch = move || {
        if waiting.recv_timeout(WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
            let _ = canceller.cancel_lock(&theirs);
        }
    };
    thread::Builder::new().name("vfs-append".into()).spawn(watch).map_err(|_| Error::of(Status::TooManyOpen))?;
    let taken = client.lock_range(wanted, &cancel);
    drop(done);
    taken.map_err(|error| match error.status() {
        Status::Interrupted => {
            braid_client::Error::new(Status::Unreachable, IN_THE_WAY).during("append to", wanted.file)
        }
        _ => error,
    })?;
    Ok(())
}

const IN_THE_WAY: &str = "another client appends to the file and does not end";
