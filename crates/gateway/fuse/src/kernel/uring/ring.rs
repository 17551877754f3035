//! An io_uring with entries of a FUSE queue: what a worker waits in with one, and who stands by with several.
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

/// Where `io_uring_sqe` has its `len`: the number of pieces of memory that a registration names.
const LEN_AT: std::ops::Range<usize> = 24..28;
const SQE_BYTES: usize = 128;

const _: () = assert!(size_of::<squeue::Entry128>() == SQE_BYTES);

/// Belongs to the thread that enabled it (`IORING_SETUP_SINGLE_ISSUER`).
pub(super) struct Ring {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// An idle worker is no disk that somebody waits for.
    wait_flags: EnterFlags,
    /// Completions that were seen and not yet waited for: whose, and how.
    seen: VecDeque<(u64, i32)>,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// A request lies in the memory with this tag.
    Request(u64),
    /// The time is over, and the memory is the thread's own until it waits again.
    Nothing,
    /// The kernel does not know this entry any more.
    Failed(u64, Errno),
}

impl Ring {
    /// For so many entries at a time, of this thread.
    pub(super) fn new(entries: u32) -> io::Result<Self> {
        let mut ring = Self::disabled(entries)?;
        ring.enable()?;
        Ok(ring)
    }

    /// As `new`, for the thread that enables it.
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
        // Without it each call looks the descriptor up; it works as well.
        let _ = self.ring.submitter().register_ring_fd();
        Ok(())
    }

    /// Gives memory to a queue, under a tag. It is the kernel's to fill in calls of this thread from now on.
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

    /// Has the kernel refuse a registration: it then sends all requests by the device (it would else wait for
    /// the queues that it was promised).
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
        // SAFETY: an Entry128 is the kernel's `io_uring_sqe` of 128 bytes (repr(C), its size is asserted above), plain numbers.
        let mut bytes: [u8; SQE_BYTES] = unsafe { std::mem::transmute(entry) };
        bytes[LEN_AT].copy_from_slice(&2u32.to_ne_bytes());
        // SAFETY: as above.
        let entry: squeue::Entry128 = unsafe { std::mem::transmute(bytes) };
        // SAFETY: the kernel reads `pieces` while it takes the command, before `submit` returns; what they name is the kernel's only
        // within calls of this thread, which keeps it (`EntryMemory`).
        unsafe { self.push(&entry) }?;
        self.submit(tag)
    }

    /// Answers what lies in the memory, in this call. `Err`: the kernel did not take it.
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
        // SAFETY: it names no memory but the entry's, which was registered.
        unsafe { self.push(&command.build().user_data(tag)) }
    }

    /// # Safety
    /// What the entry names is valid until the kernel has taken it.
    unsafe fn push(&mut self, entry: &squeue::Entry128) -> Result<(), Errno> {
        // SAFETY: the caller's word.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // Full: a command that was not taken is under way. It cannot be while each is handed to the kernel before the next.
        pushed.map_err(|_| Errno::BUSY)
    }

    /// Hands the command to the kernel; one that fails does so here.
    fn submit(&mut self, tag: u64) -> Result<(), Errno> {
        loop {
            match self.ring.submit() {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }
        }
        self.look();
        let failed = self.seen.iter().position(|(whose, result)| *whose == tag && *result < 0);
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

    /// Requests that came and were not waited for.
    pub(super) fn unhandled(&mut self) -> usize {
        // They are copied to the memory, and seen, in a call.
        let _ = self.ring.submit();
        self.look();
        self.seen.len()
    }

    /// Waits for a request, or for so long.
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
