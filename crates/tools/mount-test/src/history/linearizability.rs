//! Finds an order of these calls that the object allows and that respects "returned before the
//! other began".
//!
//! ```text
//!   thread 1   |--- write 1 ---|        |-- read 2 --|
//!   thread 2         |------ write 2 ------|               order: write 1, write 2, read 2
//!              ─────────────────────────────────────► time
//! ```
//!
//! The search walks along the times. A *configuration* is a state of the object and the set of
//! calls in flight that have taken effect already. When a call returns, it must have taken effect:
//! each configuration is advanced by letting calls in flight take effect in every order that the
//! object allows. Without a configuration there is no order (Wing and Gong 1993; the walk along the
//! times is Lowe's, 2017). It is exponential only in the number of calls in flight at one time.
//!
//! Invariants:
//!
//! 1. It accepts exactly the histories that are linearizable to the specification.
//! 2. A call with an unknown outcome (the server died) may have taken effect at any time after it
//!    began, or never.
//! 3. With too many configurations it returns `TooMany` and never guesses.
//!
//! No assertion checks these: the tests give it histories with an order and without one (1, 2), and
//! the search returns when it reaches the limit (3).

use std::{
    collections::HashSet,
    fmt::{self, Debug},
    hash::Hash,
};

/// The end of a call that has not returned, or whose outcome is unknown.
pub const NEVER: u64 = u64::MAX;
/// Number of configurations at which the search gives up: some hundred MiB.
const CONFIGURATIONS_MAX: usize = 1 << 20;
/// Maximum number of calls in flight at one time, with those of unknown outcome.
const UNDER_WAY_MAX: usize = 64;
/// Number of calls that are printed before the one that fits nowhere.
const SHOWN: usize = 12;

/// The behaviour of an object.
pub trait Specification {
    /// Its state.
    type State: Clone + Eq + Hash + Debug;
    /// A call, and its result if it is known.
    type Call: Debug;

    /// The states that the call may lead to; empty when it cannot have this result in this state.
    fn next(state: &Self::State, call: &Self::Call) -> Vec<Self::State>;
}

/// A call and its times, in nanoseconds of one clock.
#[derive(Clone, Debug)]
pub struct TimedCall<C> {
    /// The number of the object among those of its kind.
    pub object: usize,
    /// The thread that called.
    pub thread: usize,
    /// When it began.
    pub invoked: u64,
    /// `NEVER` when the outcome is unknown.
    pub returned: u64,
    /// The call and its result.
    pub call: C,
}

/// Why a history is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckFailure {
    /// No order explains this call; with a description for people.
    NoOrder(String),
    /// Too many calls were in flight at one time.
    TooMany {
        /// How many states with calls in flight were possible.
        configurations: usize,
    },
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOrder(story) => write!(out, "no order explains it:\n{story}"),
            Self::TooMany { configurations } => {
                write!(out, "undecided: over {configurations} configurations")
            }
        }
    }
}

/// Searches for an order of the calls on one object.
pub fn find_order<S: Specification>(
    initial: S::State,
    calls: &[&TimedCall<S::Call>],
) -> Result<(), CheckFailure> {
    let mut search =
        Search::<S> { calls, slots: Vec::new(), configurations: HashSet::from([(initial, 0)]) };
    for (_, is_return, call) in moments(calls) {
        if is_return { search.returned(call)? } else { search.invoked(call)? }
    }
    Ok(())
}

/// Begins and ends of calls in the order of time. At equal times a begin comes first, which allows
/// more orders.
fn moments<C>(calls: &[&TimedCall<C>]) -> Vec<(u64, bool, usize)> {
    let begins = calls.iter().enumerate().map(|(at, call)| (call.invoked, false, at));
    let ends = calls.iter().enumerate().filter(|(_, call)| call.returned != NEVER);
    let mut moments: Vec<_> =
        begins.chain(ends.map(|(at, call)| (call.returned, true, at))).collect();
    moments.sort_unstable();
    moments
}

struct Search<'a, S: Specification> {
    calls: &'a [&'a TimedCall<S::Call>],
    /// Calls in flight. A bit of a configuration's mask means that the call in this slot has taken
    /// effect.
    slots: Vec<Option<usize>>,
    configurations: HashSet<(S::State, u64)>,
}

impl<S: Specification> Search<'_, S> {
    fn invoked(&mut self, call: usize) -> Result<(), CheckFailure> {
        match self.slots.iter().position(Option::is_none) {
            Some(free) => self.slots[free] = Some(call),
            None if self.slots.len() < UNDER_WAY_MAX => self.slots.push(Some(call)),
            None => {
                return Err(CheckFailure::TooMany { configurations: self.configurations.len() });
            }
        }
        Ok(())
    }

    fn returned(&mut self, call: usize) -> Result<(), CheckFailure> {
        let slot =
            self.slots.iter().position(|held| *held == Some(call)).expect("it was invoked before");
        let mut after = HashSet::new();
        let mut seen: HashSet<(S::State, u64)> = HashSet::new();
        let mut open: Vec<(S::State, u64)> = self.configurations.iter().cloned().collect();
        while let Some((state, mask)) = open.pop() {
            if mask & (1 << slot) != 0 {
                after.insert((state, mask & !(1 << slot)));
                continue;
            }
            if !seen.insert((state.clone(), mask)) {
                continue;
            }
            if seen.len() > CONFIGURATIONS_MAX {
                return Err(CheckFailure::TooMany { configurations: seen.len() });
            }
            open.extend(self.steps(&state, mask));
        }
        if after.is_empty() {
            return Err(CheckFailure::NoOrder(self.story(call)));
        }
        self.slots[slot] = None;
        self.configurations = after;
        Ok(())
    }

    /// Every way for one more call in flight to take effect.
    fn steps(&self, state: &S::State, mask: u64) -> Vec<(S::State, u64)> {
        let waiting = self.slots.iter().enumerate().filter(|(slot, _)| mask & (1 << slot) == 0);
        let waiting = waiting.filter_map(|(slot, call)| Some((slot, (*call)?)));
        let next = waiting.flat_map(|(slot, call)| {
            S::next(state, &self.calls[call].call)
                .into_iter()
                .map(move |state| (state, mask | 1 << slot))
        });
        next.collect()
    }

    fn story(&self, call: usize) -> String {
        let it = self.calls[call];
        let mut before: Vec<&TimedCall<S::Call>> =
            self.calls.iter().copied().filter(|c| c.invoked < it.returned).collect();
        before.sort_by_key(|call| call.invoked);
        let lines = before[before.len().saturating_sub(SHOWN)..]
            .iter()
            .map(|call| line(call, call.invoked == it.invoked));
        let states: Vec<String> =
            self.configurations.iter().take(4).map(|(state, _)| format!("{state:?}")).collect();
        let before = lines.collect::<Vec<_>>().join("\n");
        format!("{}\n  the object was: {}\n{before}", line(it, true), states.join(" or "))
    }
}

fn line<C: Debug>(call: &TimedCall<C>, marked: bool) -> String {
    let us = |time: u64| {
        if time == NEVER { "?".to_owned() } else { format!("{:.1}", time as f64 / 1e3) }
    };
    let mark = if marked { ">>" } else { "  " };
    let times = format!("[{}, {}] us", us(call.invoked), us(call.returned));
    format!("{mark}thread {} object {} {times:>28} {:?}", call.thread, call.object, call.call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::register::{Call, Register};

    fn timed(invoked: u64, returned: u64, call: Call) -> TimedCall<Call> {
        TimedCall { object: 0, thread: 0, invoked, returned, call }
    }

    fn check(calls: &[TimedCall<Call>]) -> Result<(), CheckFailure> {
        find_order::<Register>(0, &calls.iter().collect::<Vec<_>>())
    }

    fn refused(calls: &[TimedCall<Call>]) -> bool {
        matches!(check(calls), Err(CheckFailure::NoOrder(_)))
    }

    #[test]
    fn a_read_under_way_beside_a_write_may_see_it_or_not() {
        for seen in [0, 1] {
            check(&[timed(0, 10, Call::Write(1)), timed(5, 15, Call::Read(seen))]).unwrap();
        }
    }

    #[test]
    fn a_stale_read_has_no_order() {
        assert!(refused(&[timed(0, 10, Call::Write(1)), timed(11, 15, Call::Read(0))]));
        assert!(refused(&[
            timed(0, 10, Call::Write(1)),
            timed(11, 20, Call::Write(2)),
            timed(21, 22, Call::Read(1))
        ]));
    }

    #[test]
    fn new_then_old_has_no_order_even_while_the_write_is_under_way() {
        assert!(refused(&[
            timed(0, 100, Call::Write(1)),
            timed(10, 20, Call::Read(1)),
            timed(30, 40, Call::Read(0)),
        ]));
    }

    #[test]
    fn a_write_of_unknown_outcome_may_show_late_or_never_but_not_vanish() {
        let unknown = timed(0, NEVER, Call::Write(1));
        check(&[unknown.clone(), timed(10, 20, Call::Read(0)), timed(30, 40, Call::Read(1))])
            .unwrap();
        check(&[unknown.clone(), timed(10, 20, Call::Read(0))]).unwrap();
        assert!(refused(&[unknown, timed(10, 20, Call::Read(1)), timed(30, 40, Call::Read(0))]));
    }

    #[test]
    fn two_readers_must_agree_on_the_order_of_two_writes() {
        assert!(refused(&[
            timed(0, 100, Call::Write(1)),
            timed(0, 100, Call::Write(2)),
            timed(10, 20, Call::Read(1)),
            timed(21, 30, Call::Read(2)),
            timed(31, 40, Call::Read(1)),
        ]));
    }
}
