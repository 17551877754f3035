//! The same for the pages of one file that two kernels keep: what may begin when, and who waits for whom.
//!
//! ```text
//!   program ── page locked ── READ ── Gate: go │ wait │ ask ──> read at the daemon ── given, unlocked
//!                  ^                              └ Call, Answer, Recalls, Return: the real Holding and Table
//!                  └── whoever drops the page waits for that lock: a recall, a loss, a direct write, an open for writing
//! ```
//!
//! `Gate`, `Holding` and `Table` are the code that runs. Written here again, a step for each hold of a lock: how
//! `data/mod.rs` of `braid-vfs` waits (`begin`), asks by another thread (`ask_elsewhere`), drains (`drain`, `drop_all`), drops
//! what was written (`drop_written`), opens and closes for writing (`writer`), appends; how `promise.rs` and the library
//! carry a recall out, on up to four threads; a kernel's pages, with their locks; and daemons that are one array.
//!
//! Taken together in one step: to look whether pages were given, and to begin to drop what was written; to unlock what
//! serializes the dropping, and what comes before it; to await recalls, which are under way as soon as there are any.

mod check;
mod client;
mod drops;
mod event;
mod program;
mod scenario;
mod server;
mod world;

use crate::explore::{Outcome, search};
pub use scenario::{SCENARIOS, Scenario, Variant};

/// Looks at every state of a world, or at this many.
pub fn explore(scenario: &Scenario, variant: Variant, states_max: usize) -> Outcome {
    let mut world = world::World::new(scenario);
    world.recalls_at_once = variant == Variant::RecallsAtOnce;
    search(&world, variant, states_max)
}
