//! Calls that are started now and waited for later, while the program computes.
//!
//! Threads of the library do them: the blocking engine sends and receives on the calling thread, so that a call under way needs
//! one of its own. They are made when there is work, at most `THREADS_MAX` (a program has as many connections to a daemon), and
//! end when there has been none for `IDLE`.

use std::{
    collections::VecDeque,
    ffi::{c_int, c_void},
    io::{IoSlice, IoSliceMut},
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use libc::ssize_t;

use crate::{
    border::{
        Failure, Outcome, call,
        pointers::{array, memory, position, value},
        process, table,
    },
    file::{readable, writable},
    list::{self, braid_piece},
};

/// Calls that are under way at once.
const THREADS_MAX: usize = 16;
/// Calls that wait for a thread (I9); more are EAGAIN.
const WAITING_MAX: usize = 65_536;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() -> Outcome<ssize_t> + Send>;

/// A call that was started.
#[allow(non_camel_case_types)]
pub struct braid_request {
    slot: Arc<Slot>,
    /// The process whose threads do it.
    process: u32,
}

/// Where the result appears.
#[derive(Default)]
struct Slot {
    result: Mutex<Option<Outcome<ssize_t>>>,
    done: Condvar,
}

/// The threads of a process and what waits for them.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Work, Arc<Slot>)>,
    threads: usize,
    idle: usize,
}

/// Memory of the program that a started call uses: until it is waited for it is not the program's.
struct Lent<T>(T);

// SAFETY: the pointers in it are used by one thread at a time: C's caller leaves the memory alone until braid_wait.
unsafe impl<T> Send for Lent<T> {}

/// Starts braid_pread. The memory is the library's until braid_wait. Returns a request for braid_test and braid_wait, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pread_start(
    file: c_int,
    buffer: *mut c_void,
    bytes: usize,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (file, at) = (readable(file)?.file(), position(at, "position")?);
        // SAFETY: the promise of C's caller, see `pointers`, until the request is waited for; also below.
        let lent = Lent(unsafe { memory(buffer.cast(), bytes, "buffer") }?);
        start(move || {
            let Lent(buffer) = { lent };
            Ok(file.read_vectored_at(&mut [IoSliceMut::new(buffer)], at)? as ssize_t)
        })
    })
}

/// Starts braid_pwrite; otherwise as braid_pread_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pwrite_start(
    file: c_int,
    buffer: *const c_void,
    bytes: usize,
    at: i64,
) -> *mut braid_request {
    call(|| {
        let (file, at) = (writable(file)?.file(), position(at, "position")?);
        // SAFETY: as above.
        let buffer: &'static [u8] = unsafe { array(buffer.cast(), bytes, "buffer") }?;
        start(move || Ok(file.write_vectored_at(&[IoSlice::new(buffer)], at)? as ssize_t))
    })
}

/// Starts braid_read_list. The array of pieces is the program's again at once, their memory after braid_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_read_list_start(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> *mut braid_request {
    call(|| {
        let open = readable(file)?;
        // SAFETY: as above.
        let lent = Lent(unsafe { array(pieces, count, "pieces") }?.to_vec());
        start(move || {
            let Lent(pieces) = { lent };
            // SAFETY: as above.
            unsafe { list::read(&open, &pieces) }
        })
    })
}

/// Starts braid_write_list; otherwise as braid_read_list_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_write_list_start(
    file: c_int,
    pieces: *const braid_piece,
    count: usize,
) -> *mut braid_request {
    call(|| {
        let open = writable(file)?;
        // SAFETY: as above.
        let lent = Lent(unsafe { array(pieces, count, "pieces") }?.to_vec());
        start(move || {
            let Lent(pieces) = { lent };
            // SAFETY: as above.
            unsafe { list::write(&open, &pieces) }
        })
    })
}

/// Starts braid_fsync: of what was written before it was started.
#[unsafe(no_mangle)]
pub extern "C" fn braid_fsync_start(file: c_int) -> *mut braid_request {
    call(|| {
        let file = table::file(file)?.file();
        start(move || {
            file.sync()?;
            Ok(0)
        })
    })
}

/// Whether a request is done: 1, or 0 when it is still under way. It must be waited for all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_test(request: *const braid_request) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller: NULL, or started and not waited for.
        let request = unsafe { value(request, "request") }?;
        check_process(request)?;
        Ok(request.slot.lock().is_some().into())
    })
}

/// Waits for a request and frees it. Returns what the call would have returned, with errno and message on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_wait(request: *mut braid_request) -> ssize_t {
    call(|| {
        // SAFETY: as above.
        check_process(unsafe { value(request, "request") }?)?;
        // SAFETY: as above; it was made from a box by `start`.
        let request = unsafe { Box::from_raw(request) };
        let mut result = request.slot.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => result = request.slot.done.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    })
}

fn check_process(request: &braid_request) -> Outcome<()> {
    match request.process == process::mark() {
        true => Ok(()),
        false => {
            Err(Failure::new(libc::ECHILD, "the request was started before fork(), by the parent, and is the parent's"))
        }
    }
}

fn start(work: impl FnOnce() -> Outcome<ssize_t> + Send + 'static) -> Outcome<*mut braid_request> {
    let slot = Arc::<Slot>::default();
    process::table().workers.add(Box::new(work), Arc::clone(&slot))?;
    let request = braid_request { slot, process: process::mark() };
    Ok(ptr::from_mut(Box::leak(Box::new(request))))
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome<ssize_t>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, work: Work, slot: Arc<Slot>) -> Outcome<()> {
        let mut state = self.lock();
        if state.waiting.len() >= WAITING_MAX {
            return Err(Failure::new(libc::EAGAIN, format!("{WAITING_MAX} calls wait to be done; try: braid_wait")));
        }
        state.waiting.push_back((work, slot));
        if state.idle >= state.waiting.len() || state.threads >= THREADS_MAX {
            self.work.notify_one();
            return Ok(());
        }
        let made = thread::Builder::new().name("braid-async".into()).spawn(move || self.serve());
        match made {
            Ok(_) => state.threads += 1,
            // The others come to it.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                state.waiting.pop_back();
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((work, slot)) = state.waiting.pop_front() {
                drop(state);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                let panicked =
                    |_| Err(Failure::new(libc::EIO, "internal error: a started call panicked; try: a report of it"));
                *slot.lock() = Some(outcome.unwrap_or_else(panicked));
                slot.done.notify_all();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (again, waited) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
