//! Groups: the tasks of a parallel program. Tasks exchange bytes through a function of the program
//! (MPI, shared memory), or over TCP connections made here.
//!
//! ```text
//!   round 1   every task: the length of its bytes, and as many of them as fit   256 bytes of each
//!   task round 2   the remaining bytes, padded to the longest                        only if some
//!   task has any
//! ```
//!
//! Invariant: whether there is a second round, and its length, follows from the lengths in the
//! first round alone. So every task decides the same.

use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::{Arc, Mutex, TryLockError},
    time::Duration,
};

use braid_client::{Error, Group, Secret, Status, TcpGroup};

use crate::ffi::{
    Failure, Outcome, call,
    pointers::{array, memory, text, value},
    process,
};

/// Bytes of each task in the first round.
const ROUND_BYTES: usize = 256;
/// Payload bytes in the first round. The other bytes hold the length.
const HEAD_BYTES: usize = ROUND_BYTES - size_of::<u64>();
/// Maximum bytes of one task and of all tasks in an exchange (I9): the same as over TCP.
const TASK_BYTES_MAX: usize = 16 << 20;
const ALL_BYTES_MAX: usize = 256 << 20;
/// Maximum number of tasks, so that a first round stays below that.
const TASKS_MAX: u32 = (ALL_BYTES_MAX / ROUND_BYTES) as u32;

/// Sends the `bytes` bytes at `mine` to all tasks, and stores the bytes of each task at `all`, in
/// the order of ranks: as MPI_Allgather. `bytes` is the same in every task. Returns 0, or another
/// number when a task is lost. After that every later call of the group fails too.
#[allow(non_camel_case_types)]
pub type braid_all_gather = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        mine: *const c_void,
        bytes: usize,
        all: *mut c_void,
    ) -> c_int,
>;

/// One task of a parallel program, as a member of its group.
#[allow(non_camel_case_types)]
pub struct braid_group {
    group: Arc<dyn Group>,
    /// The process that made it.
    process: u32,
}

/// A group whose exchange is a function of the program. This is task `rank`, from 0, of `size`
/// tasks. `context` is passed on to all_gather. Returns NULL for a failure; free the group with
/// braid_group_free. All tasks make the same calls of a group in the same order, one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn braid_group_calling(
    rank: u32,
    size: u32,
    all_gather: braid_all_gather,
    context: *mut c_void,
) -> *mut braid_group {
    call(|| {
        let all_gather = all_gather.ok_or_else(|| {
            Failure::new(
                libc::EFAULT,
                "group: all_gather is NULL; try: a function like MPI_Allgather",
            )
        })?;
        if rank >= size || size > TASKS_MAX {
            let why = format!(
                "group: rank {rank} of {size} tasks; try: ranks from 0, at most {TASKS_MAX} tasks"
            );
            return Err(Failure::invalid(why));
        }
        Ok(into_raw_group(CallbackGroup {
            rank,
            size,
            all_gather,
            context: Context(context),
            exchange_lock: Mutex::new(()),
        }))
    })
}

/// A group over TCP, for programs without MPI. Task 0 listens at address, "host:port". The others
/// connect to it; they may start before it. secret: 32 random bytes from the launcher, the same for
/// all tasks. Returns when all tasks are connected, or NULL after timeout_ms milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_tcp(
    address: *const c_char,
    rank: u32,
    size: u32,
    secret: *const c_void,
    timeout_ms: u32,
) -> *mut braid_group {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`.
        let (address, secret) =
            unsafe { (text(address, "address")?, value::<[u8; 32]>(secret.cast(), "secret")?) };
        let address = String::from_utf8_lossy(address).into_owned();
        let secret = Secret::from_bytes(*secret);
        Ok(into_raw_group(TcpGroup::join(
            address,
            rank,
            size,
            &secret,
            Duration::from_millis(timeout_ms.into()),
        )?))
    })
}

/// Sends the `bytes` bytes at `mine` to all tasks, and stores the bytes of each task at `all`, in
/// the order of ranks. `bytes` is the same in every task. It may be 0: then the tasks only wait for
/// each other. timeout_ms: for groups over TCP. Returns 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_gather(
    group: *const braid_group,
    mine: *const c_void,
    bytes: usize,
    all: *mut c_void,
    timeout_ms: u32,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let (group, mine) =
            unsafe { (group_ref(group)?, array::<u8>(mine.cast(), bytes, "mine")?) };
        let total = bytes.saturating_mul(group.size() as usize);
        // SAFETY: as above.
        let all = unsafe { memory(all.cast(), total, "all") }?;
        let gathered = group.all_gather(mine, Duration::from_millis(timeout_ms.into()))?;
        if gathered.iter().any(|given| given.len() != bytes) {
            return Err(Failure::invalid(
                "gather: bytes differs between tasks; try: the same length in every task",
            ));
        }
        for (given, place) in gathered.iter().zip(all.chunks_exact_mut(bytes.max(1))) {
            place.copy_from_slice(given);
        }
        Ok(0)
    })
}

/// Leaves a group and frees it; NULL is ignored. Started calls of the group continue. In a group
/// over TCP, the other tasks see this task as lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_free(group: *mut braid_group) {
    if !group.is_null() {
        // SAFETY: the caller's promise: made by `into_raw_group` and not freed before.
        drop(unsafe { Box::from_raw(group) });
    }
}

/// The group of a pointer.
///
/// # Safety
/// NULL, or made by [`into_raw_group`] and not freed.
pub(crate) unsafe fn group_ref<'a>(group: *const braid_group) -> Outcome<&'a dyn Group> {
    // SAFETY: the caller's promise.
    let group = unsafe { value(group, "group") }?;
    if group.process != process::fork_generation() {
        return Err(Failure::new(
            libc::ECHILD,
            "group: it was made by the parent, before fork(); try: a new group in the child",
        ));
    }
    Ok(&*group.group)
}

/// The same, for a call that may outlive `braid_group_free`.
///
/// # Safety
/// As [`of`].
pub(crate) unsafe fn group_arc(group: *const braid_group) -> Outcome<Arc<dyn Group>> {
    // SAFETY: the caller's promise.
    unsafe { group_ref(group) }?;
    // SAFETY: as above; `of` has seen that it is not NULL.
    Ok(Arc::clone(&unsafe { &*group }.group))
}

fn into_raw_group(group: impl Group + 'static) -> *mut braid_group {
    ptr::from_mut(Box::leak(Box::new(braid_group {
        group: Arc::new(group),
        process: process::fork_generation(),
    })))
}

/// A group whose exchange is a function of the program.
struct CallbackGroup {
    rank: u32,
    size: u32,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int,
    context: Context,
    /// Held during an exchange.
    exchange_lock: Mutex<()>,
}

/// The argument of the program's function.
struct Context(*mut c_void);

// SAFETY: libbraid only passes it on. It does so on the thread that makes the call of the group.
// For a started call it does so on a thread of its own, as `braid_pread_all_start` documents.
unsafe impl Send for Context {}
// SAFETY: as above; `CallbackGroup::exchange_lock` lets only one thread use it at a time.
unsafe impl Sync for Context {}

impl CallbackGroup {
    /// One round: the same number of bytes of each task.
    fn round(&self, mine: &[u8]) -> Result<Vec<u8>, Error> {
        let mut all = vec![0; mine.len() * self.size as usize];
        // SAFETY: `mine` and `all` are as long as the documentation of the function type requires.
        // The C caller promises that the function follows it.
        let code = unsafe {
            (self.all_gather)(
                self.context.0,
                mine.as_ptr().cast(),
                mine.len(),
                all.as_mut_ptr().cast(),
            )
        };
        match code {
            0 => Ok(all),
            code => Err(Error::new(
                Status::ConnectionLost,
                format!("all_gather of the group returned {code}"),
            )),
        }
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let (head, rest) = mine.split_at(mine.len().min(HEAD_BYTES));
        let mut first = [0; ROUND_BYTES];
        first[..8].copy_from_slice(&(mine.len() as u64).to_le_bytes());
        first[8..8 + head.len()].copy_from_slice(head);
        let heads = self.round(&first)?;
        let given = |task: &[u8]| {
            let (length, head) = task.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            (length, head[..length.min(HEAD_BYTES)].to_vec())
        };
        let given: Vec<(usize, Vec<u8>)> = heads.chunks_exact(ROUND_BYTES).map(given).collect();
        let longest = given.iter().map(|(length, _)| *length).max().unwrap_or(0);
        if longest > TASK_BYTES_MAX || longest.saturating_mul(given.len()) > ALL_BYTES_MAX {
            let why = format!(
                "a task sends {longest} bytes; the limit is {TASK_BYTES_MAX} of one task, \
                 {ALL_BYTES_MAX} of all"
            );
            return Err(
                Error::new(Status::TooLarge, why).with_hint("views with shorter lists of extents")
            );
        }
        if longest <= HEAD_BYTES {
            return Ok(given.into_iter().map(|(_, head)| head).collect());
        }
        let mut padded = vec![0; longest - HEAD_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        let rests = self.round(&padded)?;
        let joined = given.into_iter().zip(rests.chunks_exact(padded.len())).map(
            |((length, mut head), rest)| {
                head.extend_from_slice(&rest[..length.saturating_sub(HEAD_BYTES)]);
                head
            },
        );
        Ok(joined.collect())
    }
}

impl Group for CallbackGroup {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    /// The program's function decides how long it waits.
    fn all_gather(&self, mine: &[u8], _time_max: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let gathered = match self.exchange_lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let busy = Error::new(
                    Status::Busy,
                    "another thread of this task runs a call of the group",
                );
                Err(busy.with_hint("one call after the other"))
            }
            // The lock guards no data that a panic could leave half changed.
            Ok(_) | Err(TryLockError::Poisoned(_)) => self.gather(mine),
        };
        gathered.map_err(|error| error.during("meet", "the other tasks"))
    }
}
