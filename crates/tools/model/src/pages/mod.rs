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
//! So are: small writes that are gathered, and who settles them (`gather.rs`); and how the server serves a look at a file's size
//! and an open, and what it leaves of leases beside a client that takes none (`server.rs`, `plain.rs`).
//!
//! Taken together in one step: to look whether pages were given, and to begin to drop what was written; to unlock what
//! serializes the dropping, and what comes before it; to await recalls, which are under way as soon as there are any.

mod check;
mod client;
mod drops;
mod event;
mod gather;
mod plain;
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
    world.lessens_held = variant == Variant::LessensHeld;
    search(&world, variant, states_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: usize = 400_000;

    fn scenario(name: &str) -> &'static Scenario {
        SCENARIOS.iter().find(|scenario| scenario.name == name).expect("a scenario")
    }

    #[track_caller]
    fn catches(variant: Variant, name: &str, says: &str) {
        let (why, steps) =
            explore(scenario(name), variant, STATES).wrong.expect("the broken mount is caught");
        assert!(why.contains(says), "{why}: {steps:#?}");
    }

    #[test]
    fn pages_that_wait_while_pages_are_dropped_wait_for_ever() {
        catches(Variant::NoServing, "pages: one reads, the other writes", "waits for ever");
    }

    #[test]
    fn who_wants_a_page_and_asks_itself_waits_for_ever() {
        catches(
            Variant::AskHere,
            "pages: opened with a lease while one is asked for",
            "waits for ever",
        );
    }

    #[test]
    fn a_page_that_was_given_while_pages_were_dropped_is_old_when_it_stays() {
        catches(Variant::OneRound, "pages: one reads, the other writes", "was written");
    }

    #[test]
    fn two_recalls_of_one_lease_at_once_leave_an_old_page() {
        catches(Variant::RecallsAtOnce, "pages: wanted back twice", "was written");
    }

    #[test]
    fn a_lease_that_is_kept_and_not_known_from_the_one_before_is_asked_for_without_end() {
        catches(Variant::SameTicket, "pages: wanted back while more is granted", "for ever");
    }

    #[test]
    fn a_lease_that_goes_before_what_was_gathered_under_it_is_written_is_caught() {
        catches(
            Variant::NoDrainSettles,
            "gather: one writes, the other reads and looks",
            "gathered, and no lease",
        );
        catches(
            Variant::SettlesAfter,
            "gather: one writes, the other reads and looks",
            "gathered, and no lease",
        );
        catches(
            Variant::EndsBefore,
            "gather: one writes, the other reads and looks",
            "gathered, and no lease",
        );
    }

    #[test]
    fn a_write_that_leaves_what_others_gathered_is_written_over_by_it() {
        catches(Variant::NoWriteSettles, "gather: wished for", "was written");
    }

    #[test]
    fn a_size_that_was_asked_for_while_bytes_were_gathered_is_old_when_it_is_kept() {
        catches(Variant::MarksAfter, "gather: sizes that are kept", "ends at 1, 2 was written");
    }

    #[test]
    fn a_lease_that_is_lessened_while_it_is_used_is_shared() {
        catches(Variant::LessensHeld, "gather: opened beside a client without leases", "may write");
    }

    #[test]
    fn what_is_gathered_is_seen_by_everybody_where_two_programs_of_a_mount_write() {
        let outcome = explore(scenario("gather: wished for"), Variant::Sound, STATES);
        assert!(outcome.wrong.is_none() && outcome.complete, "{outcome:#?}");
    }

    #[test]
    fn pages_are_true_and_nobody_waits_for_ever_where_one_reads_and_the_other_writes() {
        let outcome =
            explore(scenario("pages: one reads, the other writes"), Variant::Sound, STATES);
        assert!(outcome.wrong.is_none() && outcome.complete, "{outcome:#?}");
    }
}
