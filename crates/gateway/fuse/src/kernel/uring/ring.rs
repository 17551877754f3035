//! An io_uring with entries of a FUSE queue: a worker waits in it with one, a reserve thread with
//! several.
#![allow(unsafe_code)]

use super::memory::EntryMemory;
use super::wire::{self, COMMIT_AND_FETCH, HEADER_BYTES, REGISTER};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The position of `len` in `io_uring_sqe`: the number of memory areas that a registration names.
const LEN_AT: std::ops::Range<usize> = 24..28;
const SQE_BYTES: usize = 128;

const _: () = assert!(size_of::<squeue::Entry128>() == SQE_BYTES);

/// Belongs to the thread that enabled it (`IORING_SETUP_SINGLE_ISSUER`).
pub(super) struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// The wait of an idle worker must not count as I/O wait.
    wait_flags: EnterFlags,
    /// Completions that were read and not returned yet: tag and result.
    seen: VecDeque<(u64, i32)>,
}

/// The result of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// A request is in the memory with this tag.
    Request(u64),
    /// The time is over. The memory belongs to the thread until it waits again.
    Nothing,
    /// The kernel has removed the entry with this tag.
    Failed(u64, Errno),
}

impl Ring {
    /// A ring of this thread, for this number of entries.
    pub(super) fn new(entries: u32) -> io::Result<Self> {
        let mut ring = Self::disabled(entries)?;
        ring.enable()?;
        Ok(ring)
    }

    /// As `new`, for the thread that will enable it.
    pub(super) fn disabled(entries: u32) -> io::Result<Self> {
        let mut builder = IoUring::<squeue::Entry128, cqueue::Entry>::builder();
        builder
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled();
        let ring = builder.build(entries)?;
        let no_iowait = ring.params().is_feature_no_iowait();
        let wait_flags = if no_iowait { EnterFlags::NO_IOWAIT } else { EnterFlags::empty() };
        Ok(Self { ring, wait_flags, seen: VecDeque::new() })
    }

    /// It belongs to this thread from now on.
    pub(super) fn enable(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        // Without it each call looks up the descriptor, which works, too.
        let _ = self.ring.submitter().register_ring_fd();
        Ok(())
    }

    /// Registers memory for a queue, under a tag. From now on the kernel fills it in calls of this
    /// thread.
    pub(super) fn register(
        &mut self,
        at: (RawFd, u16),
        memory: &EntryMemory,
        tag: u64,
    ) -> Result<(), Errno> {
        let pieces = [
            libc::iovec { iov_base: memory.header_address().cast(), iov_len: HEADER_BYTES },
            libc::iovec {
                iov_base: memory.payload_address().cast(),
                iov_len: memory.payload_bytes(),
            },
        ];
        self.register_pieces(at, &pieces, tag)
    }

    /// Makes the kernel refuse a registration. It then sends all requests through the device;
    /// otherwise it would wait for the promised queues.
    pub(super) fn decline(&mut self, device: RawFd) {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let _ = self.register_pieces((device, 0), &[nothing, nothing], 0);
    }

    fn register_pieces(
        &mut self,
        (device, queue): (RawFd, u16),
        pieces: &[libc::iovec; 2],
        tag: u64,
    ) -> Result<(), Errno> {
        let command = opcode::UringCmd80::new(Fd(device), REGISTER).cmd(wire::command(queue, 0));
        let entry = command.addr(Some(pieces.as_ptr() as u64)).build().user_data(tag);
        // SAFETY: an Entry128 is the kernel's `io_uring_sqe` of 128 bytes (repr(C), its size is
        // asserted above): plain numbers.
        let mut bytes: [u8; SQE_BYTES] = unsafe { std::mem::transmute(entry) };
        bytes[LEN_AT].copy_from_slice(&2u32.to_ne_bytes());
        // SAFETY: as above.
        let entry: squeue::Entry128 = unsafe { std::mem::transmute(bytes) };
        // SAFETY: the kernel reads `pieces` before `submit` returns. It writes to the memory that
        // they name only in calls of this thread, which keeps that memory (`EntryMemory`).
        unsafe { self.push(&entry) }?;
        self.submit(tag)
    }

    /// Submits the reply in the memory, in this call. `Err`: the kernel did not accept it.
    pub(super) fn commit(
        &mut self,
        at: (RawFd, u16),
        commit_id: u64,
        tag: u64,
    ) -> Result<(), Errno> {
        self.prepare_commit(at, commit_id, tag)?;
        self.submit(tag)
    }

    /// As `commit`, in the call that waits for the next request.
    pub(super) fn prepare_commit(
        &mut self,
        (device, queue): (RawFd, u16),
        commit_id: u64,
        tag: u64,
    ) -> Result<(), Errno> {
        let command = opcode::UringCmd80::new(Fd(device), COMMIT_AND_FETCH)
            .cmd(wire::command(queue, commit_id));
        // SAFETY: it names only the entry's memory, which was registered.
        unsafe { self.push(&command.build().user_data(tag)) }
    }

    /// # Safety
    /// The memory that the entry names is valid until the kernel has accepted the entry.
    unsafe fn push(&mut self, entry: &squeue::Entry128) -> Result<(), Errno> {
        // SAFETY: the caller ensures it.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // Full: an earlier command was not submitted. This cannot happen, since each is submitted
        // before the next.
        pushed.map_err(|_| Errno::BUSY)
    }

    /// Submits the command, and returns its error if it fails immediately.
    fn submit(&mut self, tag: u64) -> Result<(), Errno> {
        loop {
            match self.ring.submit() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        self.look();
        let failed = self.seen.iter().position(|(owner, result)| *owner == tag && *result < 0);
        match failed.and_then(|at| self.seen.remove(at)) {
            Some((_, result)) => Err(Errno::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    fn look(&mut self) {
        let completions = self.ring.completion();
        self.seen
            .extend(completions.map(|completion| (completion.user_data(), completion.result())));
    }

    /// How many requests have come and were not returned by `wait`.
    pub(super) fn unhandled(&mut self) -> usize {
        // The kernel copies them to the memory, and completes them, during a call.
        let _ = self.ring.submit();
        self.look();
        self.seen.len()
    }

    /// Waits for a request, or until the time is over.
    pub(super) fn wait(&mut self, time: Option<Duration>) -> Waited {
        let timespec = time.map(Timespec::from);
        loop {
            self.look();
            if let Some((tag, result)) = self.seen.pop_front() {
                let failed = |number: i32| Waited::Failed(tag, Errno::from_raw_os_error(number));
                return if result < 0 { failed(-result) } else { Waited::Request(tag) };
            }
            let arguments = SubmitArgs::new();
            let waited = match &timespec {
                Some(time) => {
                    let arguments = arguments.timespec(time);
                    self.ring.submitter().submit_with_args_and_flags(1, &arguments, self.wait_flags)
                }
                None => {
                    self.ring.submitter().submit_with_args_and_flags(1, &arguments, self.wait_flags)
                }
            };
            match waited {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::TIME.raw_os_error()) => {
                    self.look();
                    if self.seen.is_empty() {
                        return Waited::Nothing;
                    }
                }
                Err(error) => {
                    return Waited::Failed(0, Errno::from_io_error(&error).unwrap_or(Errno::IO));
                }
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("seen", &self.seen).finish_non_exhaustive()
    }
}
