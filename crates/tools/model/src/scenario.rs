//! The worlds that are explored, and the ways in which the protocol is broken to see that the
//! checks notice it.

use braid_client::lease::LeaseOf;
use braid_wire::message::lease::LeaseMode;

use crate::world::{Budget, CLIENTS, DIR, FILE, Want};

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What the shared lease covers: the directory's names, or the file's layout.
    pub of: LeaseOf,
    /// What the first client has done before the exploration begins. It has used a write lease.
    pub before: &'static [Want],
    /// What each client does, in order.
    pub wants: [&'static [Want]; CLIENTS],
    /// Calls that each client has pending at a time.
    pub at_once: usize,
    /// What may fail.
    pub budget: Budget,
}

/// The correct protocol, or a broken one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// As it is.
    Sound,
    /// Numbers are ignored: a late grant is trusted, a late return ends what came after it.
    NoNumbers,
    /// While a change is carried out, the lease that was recalled for it is granted again.
    GrantWhileDone,
    /// An expired session loses its leases immediately, whatever its own clock says.
    OneClock,
    /// After a restart nobody waits for sessions that may still assume leases valid.
    NoGrace,
    /// An answer is cached because the lease is held when it arrives.
    NoContinuity,
}

const NOTHING: Budget =
    Budget { losses: 0, repeats: 0, ticks: 0, drifts: 0, restarts: 0, deaths: 0, returns: 0 };
const NAMES: LeaseOf = LeaseOf::Names(DIR);
const LAYOUT: LeaseOf = LeaseOf::Layout(FILE);
const READ: Want = Want::Data(LeaseMode::Read);
const WRITE: Want = Want::Data(LeaseMode::Write);

/// The worlds.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "names: grants and recalls cross",
        of: NAMES,
        before: &[],
        wants: [&[Want::Shared, Want::Look, Want::Shared], &[Want::Change]],
        at_once: 2,
        budget: Budget { returns: 1, ..NOTHING },
    },
    Scenario {
        name: "names: messages are lost",
        of: NAMES,
        before: &[],
        wants: [&[Want::Shared, Want::Look], &[Want::Change, Want::Change]],
        at_once: 1,
        budget: Budget { losses: 2, ..NOTHING },
    },
    Scenario {
        name: "names: messages are repeated",
        of: NAMES,
        before: &[],
        wants: [&[Want::Shared, Want::Look], &[Want::Change]],
        at_once: 1,
        budget: Budget { repeats: 2, ..NOTHING },
    },
    Scenario {
        name: "names: both cache, both change",
        of: NAMES,
        before: &[],
        wants: [
            &[Want::Shared, Want::Look, Want::Change],
            &[Want::Shared, Want::Look, Want::Change],
        ],
        at_once: 1,
        budget: Budget { losses: 1, ..NOTHING },
    },
    Scenario {
        name: "names: a holder is partitioned, the clocks go on",
        of: NAMES,
        before: &[Want::Shared, Want::Look],
        wants: [&[], &[Want::Change]],
        at_once: 1,
        budget: Budget { ticks: 4, drifts: 1, ..NOTHING },
    },
    Scenario {
        name: "names: a holder dies, the clocks go on",
        of: NAMES,
        before: &[Want::Shared, Want::Look],
        wants: [&[Want::Look], &[Want::Change]],
        at_once: 1,
        budget: Budget { ticks: 3, deaths: 1, ..NOTHING },
    },
    Scenario {
        name: "names: the server restarts",
        of: NAMES,
        before: &[Want::Shared, Want::Look],
        wants: [&[Want::Shared], &[Want::Change]],
        at_once: 1,
        budget: Budget { ticks: 2, restarts: 1, ..NOTHING },
    },
    Scenario {
        name: "layout: grants and recalls cross, beside data",
        of: LAYOUT,
        before: &[],
        wants: [&[Want::Shared, READ, Want::Look], &[Want::Change, WRITE]],
        at_once: 1,
        budget: Budget { ..NOTHING },
    },
    Scenario {
        name: "layout: a holder takes its time, the clocks go on",
        of: LAYOUT,
        before: &[Want::Shared, Want::Look],
        wants: [&[], &[Want::Change]],
        at_once: 1,
        budget: Budget { ticks: 3, drifts: 1, ..NOTHING },
    },
    Scenario {
        name: "layout: the server restarts",
        of: LAYOUT,
        before: &[Want::Shared, Want::Look],
        wants: [&[Want::Shared], &[Want::Change]],
        at_once: 1,
        budget: Budget { ticks: 2, restarts: 1, ..NOTHING },
    },
    Scenario {
        name: "data: grants and recalls cross",
        of: NAMES,
        before: &[],
        wants: [&[WRITE, READ], &[READ, WRITE]],
        at_once: 1,
        budget: Budget { ..NOTHING },
    },
    Scenario {
        name: "data: messages are lost and repeated",
        of: NAMES,
        before: &[],
        wants: [&[WRITE], &[READ]],
        at_once: 1,
        budget: Budget { losses: 1, repeats: 1, ..NOTHING },
    },
    Scenario {
        name: "data: leases are returned without a recall",
        of: NAMES,
        before: &[WRITE],
        wants: [&[WRITE], &[WRITE]],
        at_once: 1,
        budget: Budget { returns: 1, ..NOTHING },
    },
    Scenario {
        name: "data: a holder is partitioned, the clocks go on",
        of: NAMES,
        before: &[WRITE],
        wants: [&[], &[READ]],
        at_once: 1,
        budget: Budget { ticks: 4, drifts: 1, ..NOTHING },
    },
    Scenario {
        name: "data: a holder dies, the clocks go on",
        of: NAMES,
        before: &[WRITE],
        wants: [&[], &[WRITE]],
        at_once: 1,
        budget: Budget { ticks: 3, deaths: 1, ..NOTHING },
    },
    Scenario {
        name: "data: the server restarts",
        of: NAMES,
        before: &[WRITE],
        wants: [&[], &[READ]],
        at_once: 1,
        budget: Budget { ticks: 2, restarts: 1, ..NOTHING },
    },
];
