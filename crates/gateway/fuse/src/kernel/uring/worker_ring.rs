//! The ring of a worker's thread and the memory of its entry, which belongs to the thread except
//! during its calls.
//!
//! They are stored with the thread and not in a reply: a reply may move to another thread, a ring
//! may not.
#![allow(unsafe_code)]

use super::memory::EntryMemory;
use super::ring::{Ring, Waited};
use super::ring_entry::{Answer, AnswerData};
use super::wire::{self, HEADER_BYTES};
use crate::kernel::abi::OUT_HEADER_BYTES;
use crate::kernel::device::Device;
use crate::kernel::encode::Message;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static LANE: RefCell<Option<WorkerRing>> = const { RefCell::new(None) };
}

/// See the module.
pub(super) struct WorkerRing {
    ring: Ring,
    device: Arc<Device>,
    memory: Arc<EntryMemory>,
    queue: u16,
    /// The commit id of the request in the memory.
    commit_id: u64,
    /// The error of a reply that the kernel refused, for the next `wait`.
    failed: Option<Errno>,
    header: [u8; HEADER_BYTES],
}

/// A worker's ring has one entry.
const TAG: u64 = 0;

impl WorkerRing {
    pub(super) fn new(
        ring: Ring,
        device: Arc<Device>,
        memory: Arc<EntryMemory>,
        queue: u16,
    ) -> Self {
        Self { ring, device, memory, queue, commit_id: 0, failed: None, header: [0; HEADER_BYTES] }
    }

    /// Gives the memory to the queue.
    pub(super) fn register(&mut self) -> Result<(), Errno> {
        let at = self.at();
        self.ring.register(at, &self.memory, TAG)
    }

    /// Reads the header of the request in the memory.
    pub(super) fn take(&mut self) {
        // SAFETY: its previous owner has handed the memory over, and the kernel waits for the
        // reply.
        self.header = unsafe { self.memory.header() };
    }

    /// Answers the request of another worker, whose entry this one has taken over.
    pub(super) fn adopt(&mut self, message: Message, commit_id: u64) -> Result<(), Errno> {
        self.commit_id = commit_id;
        self.take();
        self.commit(message, &[])
    }

    fn at(&self) -> (RawFd, u16) {
        (self.device.fd().as_raw_fd(), self.queue)
    }

    /// Waits for a request.
    pub(super) fn wait(&mut self, time: Option<Duration>) -> Waited {
        if let Some(error) = self.failed.take() {
            return Waited::Failed(TAG, error);
        }
        let waited = self.ring.wait(time);
        if let Waited::Request(_) = waited {
            // The kernel has filled the memory, and waits for the reply.
            self.take();
        }
        waited
    }

    /// Whether the last reply fetched a request immediately.
    pub(super) fn has_next(&mut self) -> bool {
        self.ring.unhandled() > 0
    }

    /// The header of the current request.
    pub(super) fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    pub(super) fn serves(&mut self, commit_id: u64) {
        self.commit_id = commit_id;
    }

    /// Writes the reply and submits it, in this call.
    fn commit(&mut self, message: Message, data: &[IoSlice<'_>]) -> Result<(), Errno> {
        let put = self.put(message, data);
        let (at, commit_id) = (self.at(), self.commit_id);
        let committed = self.ring.commit(at, commit_id, TAG);
        self.failed = committed.err();
        committed.and(put)
    }

    /// As `commit`, in the call that waits for the next request.
    pub(super) fn prepare(&mut self, answer: Answer) -> Result<(), Errno> {
        let put = match answer.data {
            AnswerData::Copied(data) => self.put(answer.message, &[IoSlice::new(&data)]),
            AnswerData::InPlace(bytes) => self.put_header(answer.message, bytes),
        };
        let (at, commit_id) = (self.at(), self.commit_id);
        self.ring.prepare_commit(at, commit_id, TAG).and(put)
    }

    /// A reply whose data is in the payload.
    fn put_header(&mut self, mut message: Message, bytes: usize) -> Result<(), Errno> {
        let whole = message.finish(bytes);
        // The reply to a READ has no fixed part.
        debug_assert_eq!(whole.len(), OUT_HEADER_BYTES);
        let header = whole.first_chunk().copied().unwrap_or_default();
        self.set(&header, bytes);
        Ok(())
    }

    fn put(&mut self, mut message: Message, data: &[IoSlice<'_>]) -> Result<(), Errno> {
        let bytes = data.iter().map(|slice| slice.len()).sum();
        let (header, fixed) =
            message.finish(bytes).split_first_chunk::<OUT_HEADER_BYTES>().ok_or(Errno::INVAL)?;
        let whole = fixed.len() + bytes;
        if whole > self.memory.payload_bytes() {
            // More than was asked for: the kernel would refuse it, too.
            let mut refused = *header;
            refused[4..8].copy_from_slice(&(-Errno::IO.raw_os_error()).to_ne_bytes());
            self.set(&refused, 0);
            return Err(Errno::INVAL);
        }
        // SAFETY: the reply is being written, so the handler has no reference into this memory.
        // With `AnswerTime::Now` it has copies, and with `AnswerTime::Afterwards` it has returned.
        let payload = unsafe { self.memory.payload_mut() };
        let mut at = 0;
        for piece in std::iter::once(fixed).chain(data.iter().map(|slice| &**slice)) {
            payload[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        self.set(header, whole);
        Ok(())
    }

    fn set(&mut self, header: &[u8; OUT_HEADER_BYTES], payload_bytes: usize) {
        wire::put_answer(
            &mut self.header,
            header,
            u32::try_from(payload_bytes).unwrap_or(u32::MAX),
        );
        // SAFETY: the memory belongs to this thread until the commit.
        unsafe { self.memory.set_header(&self.header) };
    }

    /// Releases the payload's pages.
    pub(super) fn release(&mut self) {
        // SAFETY: it has no request: the kernel fills it in calls of this thread only.
        unsafe { self.memory.release() };
    }
}

/// Sets the ring of this thread.
pub(super) fn enter(ring: WorkerRing) {
    LANE.set(Some(ring));
}

/// Drops the ring of this thread.
pub(super) fn leave() {
    LANE.set(None);
}

/// Uses the ring of this thread. `None`: it has none.
pub(super) fn with<R>(use_it: impl FnOnce(&mut WorkerRing) -> R) -> Option<R> {
    LANE.with_borrow_mut(|ring| ring.as_mut().map(use_it))
}

/// Answers the request that this thread serves.
pub(super) fn commit(message: Message, data: &[IoSlice<'_>]) -> Result<(), Errno> {
    with(|ring| ring.commit(message, data)).unwrap_or(Err(Errno::NODEV))
}
