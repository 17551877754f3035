//! The time of one program's call: all that is done for it, at whatever server, ends by one moment (I8).
//!
//! ```text
//!   program's call ── Bound::begin ── stage 1 ── stage 2 ── … ── dropped
//!                          └────── one deadline for all of them ──────┘
//! ```
//!
//! The blocking driver does everything on the thread that calls, so the bound belongs to the thread. A thread that does a
//! part of the call for another enters its bound ([`Bound::current`], [`Bound::enter`]).
//!
//! Invariants: (1) inside a bound no wait has a later deadline than the bound's; (2) only servers that move bytes push it
//! on ([`crate::Driver::extend_bound`]); (3) without a bound each call has its own time, as a program of the library wants.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    time::Duration,
};

use super::clock::since_boot;
use crate::driver::CallBound;

thread_local! {
    /// In the time of [`since_boot`].
    static BOUND: Cell<Option<CallBound>> = const { Cell::new(None) };
    /// The server that was waited for in vain within the bound.
    static BLAMED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The bound of the calling thread until it is dropped; then the one before holds again.
#[derive(Debug)]
#[must_use = "the bound ends when this is dropped"]
pub struct Bound {
    before: Option<CallBound>,
    blamed_before: Option<String>,
    /// It is of this thread.
    _here: PhantomData<*const ()>,
}

/// A bound, to be entered by another thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundUntil(Option<CallBound>);

impl Bound {
    /// All waits of this thread end within `time`. Inside another bound the earlier of the two ends holds.
    pub fn begin(time: Duration) -> Self {
        let own = CallBound { until: since_boot().saturating_add(time), time };
        Self::set(Some(BOUND.get().filter(|outer| outer.until <= own.until).unwrap_or(own)))
    }

    /// This thread does a part of what another thread's bound is for.
    pub fn enter(until: BoundUntil) -> Self {
        Self::set(until.0)
    }

    /// What follows is not a part of the call, and has its own time: for bytes of earlier calls, which must not be lost since
    /// this one has waited for something else.
    pub fn apart() -> Self {
        Self::set(None)
    }

    /// The bound of this thread now.
    pub fn current() -> BoundUntil {
        BoundUntil(BOUND.get())
    }

    /// How much time this thread has left; `None` outside of any bound.
    pub fn left() -> Option<Duration> {
        BOUND.get().map(|bound| bound.until.saturating_sub(since_boot()))
    }

    /// The bound's time begins anew, if there is one: what took long was done.
    pub fn renew() {
        if let Some(bound) = BOUND.get() {
            extend(since_boot().saturating_add(bound.time));
        }
    }

    /// Time was spent on this server in vain: what finds no time left within the bound names it.
    pub fn blame(server: &str) {
        if BOUND.get().is_some() {
            BLAMED.replace(Some(server.to_owned()));
        }
    }

    fn set(bound: Option<CallBound>) -> Self {
        Self { before: BOUND.replace(bound), blamed_before: BLAMED.take(), _here: PhantomData }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        BOUND.set(self.before);
        let outer = self.blamed_before.take();
        // Who used the time up is known to what follows within the outer bound, too.
        BLAMED.with_borrow_mut(|blamed| {
            if outer.is_some() || self.before.is_none() {
                *blamed = outer;
            }
        });
    }
}

pub(super) fn current() -> Option<CallBound> {
    BOUND.get()
}

pub(super) fn extend(until: Duration) {
    if let Some(bound) = BOUND.get() {
        BOUND.set(Some(CallBound { until: bound.until.max(until), ..bound }));
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
    fn an_inner_bound_ends_no_later_than_the_outer_one() {
        assert_eq!(Bound::left(), None);
        let outer = Bound::begin(LONG);
        let until = Bound::current();
        {
            let _inner = Bound::begin(LONGER);
            assert_eq!(Bound::current(), until);
            let _shorter = Bound::begin(Duration::ZERO);
            assert_eq!(Bound::left(), Some(Duration::ZERO));
        }
        assert_eq!(Bound::current(), until);
        drop(outer);
        assert_eq!(Bound::left(), None);
    }

    #[test]
    fn another_thread_has_the_bound_that_it_enters_and_no_other() {
        let _bound = Bound::begin(LONG);
        let until = Bound::current();
        let (none, entered) = std::thread::spawn(move || {
            let none = Bound::left();
            let _entered = Bound::enter(until);
            (none, Bound::current())
        })
        .join()
        .unwrap();
        assert_eq!((none, entered), (None, until));
    }

    #[test]
    fn what_moves_pushes_the_bound_on_and_what_is_apart_has_none() {
        let _bound = Bound::begin(LONG);
        let until = Bound::current();
        {
            let _apart = Bound::apart();
            assert_eq!(Bound::left(), None);
            extend(since_boot() + LONGER);
            assert_eq!(Bound::left(), None, "there is none to be pushed on");
        }
        assert_eq!(Bound::current(), until);
        extend(since_boot() + LONGER);
        assert!(Bound::left().is_some_and(|left| left > LONG));
        let until = Bound::current();
        Bound::renew();
        assert_eq!(Bound::current(), until, "never back");
    }

    #[test]
    fn who_is_to_blame_is_known_until_the_outermost_bound_ends() {
        let outer = Bound::begin(LONG);
        {
            let _inner = Bound::begin(LONG);
            Bound::blame("I/O daemon 2 at h:1");
        }
        assert_eq!(blamed().as_deref(), Some("I/O daemon 2 at h:1"));
        drop(outer);
        assert_eq!(blamed(), None);
        Bound::blame("outside of any bound");
        assert_eq!(blamed(), None);
    }
}
