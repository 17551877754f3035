//! The deadline of a program's call: all work for the call, at any server, ends by this time (I8).
//!
//! ```text
//!   program's call ── CallDeadline::begin ── stage 1 ── stage 2 ── … ── dropped
//!                          └────── one deadline for all of them ─────────┘
//! ```
//!
//! The blocking driver works on the calling thread, so the deadline belongs to the thread. A thread
//! that works for another one's call enters its deadline ([`CallDeadline::current`],
//! [`CallDeadline::enter`]).
//!
//! Invariants:
//! 1. Within a deadline, no wait ends later than the deadline.
//! 2. Only servers that move bytes extend it ([`crate::Driver::extend_call_deadline`]).
//! 3. Without a deadline, each call to a server has its own time-out. Programs that use the library
//!    directly work like this.
//!
//! No assertion checks these: the clock goes on while a thread sleeps. `begin` takes the earlier of
//! two deadlines (1), and `extend` is the only way to a later one (2).

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    time::Duration,
};

use super::clock::since_boot;
use crate::driver::CallTimeLimit;

thread_local! {
    /// On the clock of [`since_boot`].
    static BOUND: Cell<Option<CallTimeLimit>> = const { Cell::new(None) };
    /// The server that the call last waited for without success.
    static BLAMED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The deadline of the calling thread, until this is dropped. Then the previous deadline holds
/// again.
#[derive(Debug)]
#[must_use = "the deadline ends when this is dropped"]
pub struct CallDeadline {
    before: Option<CallTimeLimit>,
    blamed_before: Option<String>,
    /// Makes it `!Send`: it belongs to this thread.
    _here: PhantomData<*const ()>,
}

/// A deadline that another thread can enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallDeadlineHandle(Option<CallTimeLimit>);

impl CallDeadline {
    /// All waits of this thread end within `time`. Within another deadline, the earlier one holds.
    pub fn begin(time: Duration) -> Self {
        let own = CallTimeLimit { until: since_boot().saturating_add(time), time };
        Self::set(Some(BOUND.get().filter(|outer| outer.until <= own.until).unwrap_or(own)))
    }

    /// This thread works for a call that has this deadline.
    pub fn enter(until: CallDeadlineHandle) -> Self {
        Self::set(until.0)
    }

    /// Until this is dropped, no deadline holds. For bytes of earlier calls: they must not be lost
    /// because this call waited for something else.
    pub fn suspend() -> Self {
        Self::set(None)
    }

    /// The present deadline of this thread.
    pub fn current() -> CallDeadlineHandle {
        CallDeadlineHandle(BOUND.get())
    }

    /// The time that this thread has left; `None` without a deadline.
    pub fn time_left() -> Option<Duration> {
        BOUND.get().map(|limit| limit.until.saturating_sub(since_boot()))
    }

    /// Restarts the time of the deadline, if there is one, after slow work has succeeded.
    pub fn restart() {
        if let Some(limit) = BOUND.get() {
            extend(since_boot().saturating_add(limit.time));
        }
    }

    /// Records that the call waited for this server without success. An error for lack of time
    /// names this server.
    pub fn blame(server: &str) {
        if BOUND.get().is_some() {
            BLAMED.replace(Some(server.to_owned()));
        }
    }

    fn set(limit: Option<CallTimeLimit>) -> Self {
        Self { before: BOUND.replace(limit), blamed_before: BLAMED.take(), _here: PhantomData }
    }
}

impl Drop for CallDeadline {
    fn drop(&mut self) {
        BOUND.set(self.before);
        let outer = self.blamed_before.take();
        // The outer deadline also remembers which server used up the time.
        BLAMED.with_borrow_mut(|blamed| {
            if outer.is_some() || self.before.is_none() {
                *blamed = outer;
            }
        });
    }
}

pub(super) fn current() -> Option<CallTimeLimit> {
    BOUND.get()
}

pub(super) fn extend(until: Duration) {
    if let Some(limit) = BOUND.get() {
        BOUND.set(Some(CallTimeLimit { until: limit.until.max(until), ..limit }));
    }
}

pub(super) fn blamed() -> Option<String> {
    BLAMED.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const LONGER: Duration = Duration::from_secs(7200);

    #[test]
    fn an_inner_deadline_ends_no_later_than_the_outer_one() {
        assert_eq!(CallDeadline::time_left(), None);
        let outer = CallDeadline::begin(LONG);
        let until = CallDeadline::current();
        {
            let _inner = CallDeadline::begin(LONGER);
            assert_eq!(CallDeadline::current(), until);
            let _shorter = CallDeadline::begin(Duration::ZERO);
            assert_eq!(CallDeadline::time_left(), Some(Duration::ZERO));
        }
        assert_eq!(CallDeadline::current(), until);
        drop(outer);
        assert_eq!(CallDeadline::time_left(), None);
    }

    #[test]
    fn another_thread_has_only_the_deadline_that_it_enters() {
        let _bound = CallDeadline::begin(LONG);
        let until = CallDeadline::current();
        let (none, entered) = std::thread::spawn(move || {
            let none = CallDeadline::time_left();
            let _entered = CallDeadline::enter(until);
            (none, CallDeadline::current())
        })
        .join()
        .unwrap();
        assert_eq!((none, entered), (None, until));
    }

    #[test]
    fn moved_bytes_extend_the_deadline_and_a_suspended_one_does_not_hold() {
        let _bound = CallDeadline::begin(LONG);
        let until = CallDeadline::current();
        {
            let _apart = CallDeadline::suspend();
            assert_eq!(CallDeadline::time_left(), None);
            extend(since_boot() + LONGER);
            assert_eq!(CallDeadline::time_left(), None, "there is no deadline to extend");
        }
        assert_eq!(CallDeadline::current(), until);
        extend(since_boot() + LONGER);
        assert!(CallDeadline::time_left().is_some_and(|left| left > LONG));
        let until = CallDeadline::current();
        CallDeadline::restart();
        assert_eq!(CallDeadline::current(), until, "a deadline never moves back");
    }

    #[test]
    fn the_blamed_server_is_known_until_the_outermost_deadline_ends() {
        let outer = CallDeadline::begin(LONG);
        {
            let _inner = CallDeadline::begin(LONG);
            CallDeadline::blame("I/O daemon 2 at h:1");
        }
        assert_eq!(blamed().as_deref(), Some("I/O daemon 2 at h:1"));
        drop(outer);
        assert_eq!(blamed(), None);
        CallDeadline::blame("outside of any deadline");
        assert_eq!(blamed(), None);
    }
}
