//! A model of the pages of one file that two kernels cache, explored in the same way: what may
//! begin when, and what waits for what.
//!
//! ```text
//!   program ── page locked ── READ ── lease state: go │ wait │ ask ──> read at the daemon ── reply
//!                  ^              └ Call, Answer, Recalls, Return: the real Holding, LeaseTable
//!                  └── a drop of the page waits for its lock: for a recall, a lease loss,
//!                      a direct write, an open for writing
//! ```
//!
//! `DataLeaseState`, `Holding` and `LeaseTable` are the code that runs. The following is written
//! here again, with one step for each time that a lock is held:
//!
//! - how `data/mod.rs` of `braid-vfs` waits (`begin`), asks in another thread (`ask_elsewhere`),
//!   drains (`drain`, `drop_all`), drops written pages (`drop_written`), opens and closes for
//!   writing (`writer`), and appends;
//! - how `names_lease.rs` and the library carry out a recall, on up to four threads;
//! - a kernel's pages with their locks, and daemons that are one array;
//! - small buffered writes, what flushes them, and closes that leave them to the mount
//!   (`write_buffer.rs`);
//! - how the server handles a size query and an open, and how it reduces leases while a client
//!   without leases has the file open (`server.rs`, `leaseless.rs`).
//!
//! Several actions are one step: to check whether pages were given to the kernel, and to begin to
//! drop written ones; to unlock what serializes the drops, and what comes before it; to request
//! recalls, which are in flight as soon as there are any.

mod check;
mod client;
mod drops;
mod event;
mod leaseless;
mod program;
mod scenario;
mod server;
mod world;
mod write_buffer;

use crate::explore::{Outcome, search};
pub use scenario::{SCENARIOS, Scenario, Variant};

/// Visits every state of a world, or at most this many.
pub fn explore(scenario: &Scenario, variant: Variant, states_max: usize) -> Outcome {
    let mut world = world::World::new(scenario);
    world.recalls_at_once = variant == Variant::RecallsAtOnce;
    world.lessens_held = variant == Variant::ReducesHeldLease;
    world.returns_at_close = variant == Variant::ReturnsLeaseAtClose;
    world.forgets_closed_loss = variant == Variant::ForgetsClosedLoss;
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
    fn catches(variant: Variant, name: &str, expected: &str) {
        let (why, steps) =
            explore(scenario(name), variant, STATES).wrong.expect("the broken mount is caught");
        assert!(why.contains(expected), "{why}: {steps:#?}");
    }

    #[test]
    fn pages_that_wait_for_a_drop_hang() {
        catches(Variant::PagesWaitForDrops, "pages: one reads, the other writes", "hangs");
    }

    #[test]
    fn a_page_read_that_requests_its_own_lease_hangs() {
        catches(
            Variant::AsksInPageThread,
            "pages: opened with a lease while one is asked for",
            "hangs",
        );
    }

    #[test]
    fn a_page_that_arrives_during_a_drop_is_stale() {
        catches(Variant::OneRound, "pages: one reads, the other writes", "was written");
    }

    #[test]
    fn two_concurrent_recalls_of_a_lease_leave_a_stale_page() {
        catches(Variant::RecallsAtOnce, "pages: recalled twice", "was written");
    }

    #[test]
    fn a_retained_lease_needs_a_new_ticket() {
        catches(Variant::SameTicket, "pages: recalled while more is granted", "never end");
    }

    #[test]
    fn a_lease_returned_before_its_flush_is_caught() {
        catches(
            Variant::NoFlushOnDrain,
            "buffered: one writes, the other reads and queries",
            "buffered, and no lease",
        );
        catches(
            Variant::FlushesAfterReturn,
            "buffered: one writes, the other reads and queries",
            "buffered, and no lease",
        );
        catches(
            Variant::EndsBefore,
            "buffered: one writes, the other reads and queries",
            "buffered, and no lease",
        );
    }

    #[test]
    fn a_write_must_flush_the_buffer_of_others() {
        catches(Variant::NoFlushBeforeWrite, "buffered: requested", "was written");
    }

    #[test]
    fn a_size_queried_while_bytes_are_buffered_is_stale() {
        catches(
            Variant::StampsAfterBuffering,
            "buffered: cached sizes",
            "ends at 1, 2 was written",
        );
    }

    #[test]
    fn a_lease_reduced_while_in_use_is_shared() {
        catches(
            Variant::ReducesHeldLease,
            "buffered: opened beside a client without leases",
            "may write",
        );
    }

    #[test]
    fn a_lease_returned_at_the_close_before_the_bytes_is_caught() {
        catches(
            Variant::ReturnsLeaseAtClose,
            "buffered: closed with bytes left",
            "buffered, and no lease",
        );
    }

    #[test]
    fn a_loss_after_a_close_that_no_sync_reports_is_caught() {
        catches(Variant::ForgetsClosedLoss, "buffered: lost after a close", "lost after a close");
    }

    #[test]
    fn buffered_writes_of_two_programs_are_seen_by_all() {
        let outcome = explore(scenario("buffered: requested"), Variant::Sound, STATES);
        assert!(outcome.wrong.is_none() && outcome.complete, "{outcome:#?}");
    }

    #[test]
    fn bytes_left_at_a_close_are_seen_by_all_or_reported_lost() {
        for name in [
            "buffered: closed with bytes left on two mounts",
            "buffered: closed with bytes left beside a client without leases",
            "buffered: lost after a close",
        ] {
            let outcome = explore(scenario(name), Variant::Sound, STATES);
            assert!(outcome.wrong.is_none() && outcome.complete, "{name}: {outcome:#?}");
        }
    }

    #[test]
    fn a_reader_and_a_writer_see_current_pages_and_never_hang() {
        let outcome =
            explore(scenario("pages: one reads, the other writes"), Variant::Sound, STATES);
        assert!(outcome.wrong.is_none() && outcome.complete, "{outcome:#?}");
    }
}
