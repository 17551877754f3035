//! The lease table, one rule at a time; `braid-model` explores their combinations.

use std::time::Duration;

use braid_types::{FileIndex, MdsEpoch, SessionId};

use super::{AskOutcome, ClaimId, LeaseMode, LeaseOf, LeaseTable, Wait};

const X: SessionId = SessionId(1);
const Y: SessionId = SessionId(2);
const D: LeaseOf = LeaseOf::Names(FileIndex(10));
const F: LeaseOf = LeaseOf::Data(FileIndex(11));
const NOW: Duration = Duration::from_secs(100);
const WAITS: AskOutcome = AskOutcome::Waits(Wait::For(F));

fn table() -> LeaseTable {
    LeaseTable::new(MdsEpoch(3))
}

/// The newest recall of a session.
fn recall(table: &LeaseTable, session: SessionId) -> (u64, LeaseMode) {
    let all = table.recalls(session, 0, 10);
    let (number, recall) = all.last().expect("a recall");
    (*number, recall.keep)
}

#[test]
fn a_change_waits_until_the_names_lease_of_another_is_returned() {
    let mut table = table();
    let granted = table.grant_shared(D, X, NOW).unwrap();
    assert_eq!(table.claim(ClaimId(1), Y, &[(D, LeaseMode::Write)], NOW), Some(Wait::For(D)));
    assert_eq!(
        (table.take_recalled_sessions(), table.grant_shared(D, X, NOW)),
        (vec![X], None),
        "nor is it granted again meanwhile"
    );
    let (number, _) = recall(&table, X);
    assert!(number > granted);
    table.return_lease(X, D, number, LeaseMode::None);
    assert_eq!(table.take_freed(), [Wait::For(D)]);
    assert_eq!(table.claim(ClaimId(1), Y, &[(D, LeaseMode::Write)], NOW), None);
    assert_eq!(table.grant_shared(D, X, NOW), None, "the change is being carried out");
    assert!(table.grant_shared(D, Y, NOW).is_some(), "its own lease does not conflict");
    table.unclaim(ClaimId(1), &[D]);
    assert!(table.grant_shared(D, X, NOW).is_some());
}

#[test]
fn a_change_of_the_only_holder_recalls_nothing() {
    let mut table = table();
    table.grant_shared(D, X, NOW).unwrap();
    assert_eq!(table.claim(ClaimId(1), X, &[(D, LeaseMode::Write)], NOW), None);
    assert!(table.take_recalled_sessions().is_empty());
}

#[test]
fn a_return_that_was_sent_before_a_grant_does_not_end_it() {
    let mut table = table();
    let first = table.grant_shared(D, X, NOW).unwrap();
    let second = table.grant_shared(D, X, NOW).unwrap();
    table.return_lease(X, D, first, LeaseMode::None);
    assert_eq!(table.held(D, X), LeaseMode::Read);
    table.return_lease(X, D, second, LeaseMode::None);
    table.return_lease(X, D, second, LeaseMode::None);
    assert_eq!((table.held(D, X), table.count()), (LeaseMode::None, 0));
}

#[test]
fn a_recall_is_sent_until_it_is_returned() {
    let mut table = table();
    table.grant_shared(D, X, NOW).unwrap();
    table.claim(ClaimId(1), Y, &[(D, LeaseMode::Write)], NOW);
    table.claim(ClaimId(1), Y, &[(D, LeaseMode::Write)], NOW);
    let recalled = table.recalls(X, 0, 10);
    assert_eq!(recalled.len(), 1, "once, however often it is claimed");
    assert!(table.recalls(X, recalled[0].0, 10).is_empty(), "the client reports what it has seen");
    assert_eq!(
        (table.overdue(NOW), table.overdue(NOW - Duration::from_secs(1))),
        (vec![X], vec![])
    );
    table.return_lease(X, D, recalled[0].0, LeaseMode::None);
    assert!(table.recalls(X, 0, 10).is_empty() && table.overdue(NOW).is_empty());
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut table = table();
    let ask = |table: &mut LeaseTable, id, who, mode| {
        table.request_data(ClaimId(id), who, F, (mode, false), NOW)
    };
    assert!(matches!(
        ask(&mut table, 1, X, LeaseMode::Read),
        AskOutcome::Granted(LeaseMode::Read, _)
    ));
    assert!(matches!(
        ask(&mut table, 2, Y, LeaseMode::Read),
        AskOutcome::Granted(LeaseMode::Read, _)
    ));
    assert_eq!(ask(&mut table, 3, Y, LeaseMode::Write), WAITS);
    assert_eq!(
        ask(&mut table, 4, X, LeaseMode::Read),
        WAITS,
        "a recalled lease is not granted again"
    );
    let (number, keep) = recall(&table, X);
    assert_eq!(keep, LeaseMode::None);
    table.return_lease(X, F, number, keep);
    assert!(matches!(
        ask(&mut table, 3, Y, LeaseMode::Write),
        AskOutcome::Granted(LeaseMode::Write, _)
    ));
    assert_eq!(table.write_count(), 1);
    assert_eq!(ask(&mut table, 4, X, LeaseMode::Read), WAITS, "it came later");
    let (number, keep) = recall(&table, Y);
    assert_eq!(keep, LeaseMode::Read, "the writer may continue reading");
    table.return_lease(Y, F, number, keep);
    assert_eq!(table.take_freed().last(), Some(&Wait::For(F)));
    assert!(matches!(
        ask(&mut table, 4, X, LeaseMode::Read),
        AskOutcome::Granted(LeaseMode::Read, _)
    ));
    assert_eq!((table.held(F, Y), table.write_count()), (LeaseMode::Read, 0));
}

#[test]
fn two_writers_share_unless_one_must_be_alone() {
    let mut table = table();
    let ask = |table: &mut LeaseTable, id, who, alone| {
        table.request_data(ClaimId(id), who, F, (LeaseMode::Write, alone), NOW)
    };
    assert!(matches!(ask(&mut table, 1, X, false), AskOutcome::Granted(LeaseMode::Write, _)));
    assert_eq!(ask(&mut table, 2, Y, false), WAITS);
    let (number, keep) = recall(&table, X);
    assert_eq!(keep, LeaseMode::Shared);
    table.return_lease(X, F, number, keep);
    assert!(matches!(ask(&mut table, 2, Y, false), AskOutcome::Granted(LeaseMode::Shared, _)));
    assert_eq!(
        ask(&mut table, 3, X, true),
        WAITS,
        "an append waits until the other has returned it"
    );
    let (number, keep) = recall(&table, Y);
    assert_eq!(keep, LeaseMode::None);
    table.return_lease(Y, F, number, keep);
    assert!(matches!(ask(&mut table, 3, X, true), AskOutcome::Granted(LeaseMode::Write, _)));
}

#[test]
fn a_lease_that_changes_hands_often_becomes_shared() {
    let mut table = table();
    let mut modes = Vec::new();
    for n in 0..12 {
        let (who, wish) = if n % 2 == 0 { (X, LeaseMode::Write) } else { (Y, LeaseMode::Read) };
        let mode = loop {
            match table.request_data(ClaimId(n), who, F, (wish, false), NOW) {
                AskOutcome::Granted(mode, _) => break mode,
                AskOutcome::Waits(_) => {
                    let other = if who == X { Y } else { X };
                    let (number, keep) = recall(&table, other);
                    table.return_lease(other, F, number, keep);
                }
                AskOutcome::Full => panic!("the table has space"),
            }
        };
        modes.push(mode);
    }
    assert_eq!(modes[..2], [LeaseMode::Write, LeaseMode::Read]);
    assert_eq!(modes[10..], [LeaseMode::Shared, LeaseMode::Shared]);
}

#[test]
fn two_claims_with_different_needs_leave_a_writer_nothing() {
    let mut table = table();
    assert!(matches!(
        table.request_data(ClaimId(1), X, F, (LeaseMode::Write, false), NOW),
        AskOutcome::Granted(..)
    ));
    let look = [(F, LeaseMode::Look)];
    assert_eq!(table.claim(ClaimId(2), Y, &look, NOW), Some(Wait::For(F)));
    let (first, keep) = recall(&table, X);
    assert_eq!(keep, LeaseMode::Read);
    assert_eq!(
        table.claim(ClaimId(3), SessionId(3), &[(F, LeaseMode::Shared)], NOW),
        Some(Wait::For(F))
    );
    let (second, keep) = recall(&table, X);
    assert!(second > first && keep == LeaseMode::None);
    table.return_lease(X, F, first, LeaseMode::Read);
    assert_eq!((table.claim(ClaimId(2), Y, &look, NOW), table.held(F, X)), (None, LeaseMode::Read));
    table.return_lease(X, F, second, LeaseMode::None);
    assert_eq!((table.held(F, X), table.count()), (LeaseMode::None, 0));
}

#[test]
fn the_first_request_is_granted_first() {
    let mut table = table();
    let ask = |table: &mut LeaseTable, id, who| {
        table.request_data(ClaimId(id), who, F, (LeaseMode::Write, true), NOW)
    };
    let third = SessionId(3);
    assert!(matches!(ask(&mut table, 1, X), AskOutcome::Granted(..)));
    assert_eq!((ask(&mut table, 2, Y), ask(&mut table, 3, third)), (WAITS, WAITS));
    let (number, keep) = recall(&table, X);
    table.return_lease(X, F, number, keep);
    assert_eq!(ask(&mut table, 3, third), WAITS);
    table.unclaim(ClaimId(2), &[F]);
    assert_eq!(table.take_freed(), [Wait::For(F), Wait::For(F)], "one returned it, one ended");
    assert!(matches!(ask(&mut table, 3, third), AskOutcome::Granted(..)));
}

#[test]
fn an_open_gets_a_lease_only_if_nothing_conflicts() {
    let mut table = table();
    let (mode, _) = table.try_grant_data(X, F, LeaseMode::Write, NOW).unwrap();
    assert_eq!(mode, LeaseMode::Write);
    assert_eq!(table.try_grant_data(Y, F, LeaseMode::Read, NOW), None);
    assert!(table.take_recalled_sessions().is_empty(), "and nothing is recalled for it");
}

#[test]
fn the_end_of_a_session_frees_all_that_it_held() {
    let mut table = table();
    table.grant_shared(D, X, NOW).unwrap();
    assert!(matches!(
        table.request_data(ClaimId(1), X, F, (LeaseMode::Write, false), NOW),
        AskOutcome::Granted(..)
    ));
    assert_eq!(
        table.claim(ClaimId(2), Y, &[(D, LeaseMode::Write), (F, LeaseMode::Look)], NOW),
        Some(Wait::For(D))
    );
    table.end_session(X);
    assert_eq!(table.take_freed(), [Wait::For(D), Wait::For(F)]);
    assert_eq!((table.count(), table.write_count()), (0, 0));
    assert_eq!(
        table.claim(ClaimId(2), Y, &[(D, LeaseMode::Write), (F, LeaseMode::Look)], NOW),
        None
    );
}

#[test]
fn beyond_the_limit_what_was_granted_first_is_recalled() {
    let mut table = LeaseTable::with_limit(MdsEpoch(1), 128);
    let dir = |n: u64| LeaseOf::Names(FileIndex(n));
    for n in 0..128 {
        assert!(table.grant_shared(dir(n), X, NOW).is_some());
    }
    assert_eq!(table.grant_shared(dir(128), Y, NOW), None);
    let recalled: Vec<LeaseOf> =
        table.recalls(X, 0, 1000).into_iter().map(|(_, recall)| recall.of).collect();
    assert_eq!(recalled, [dir(0), dir(1), dir(2)]);
    for (number, recall) in table.recalls(X, 0, 1000) {
        table.return_lease(X, recall.of, number, LeaseMode::None);
    }
    assert!(table.grant_shared(dir(128), Y, NOW).is_some());
    assert_eq!(table.count(), 126);
}

#[test]
fn a_full_table_recalls_from_the_session_that_has_more_than_half() {
    let dir = |n: u64| LeaseOf::Names(FileIndex(n));
    for (of_y, from_y) in [(20, false), (64, true)] {
        let mut table = LeaseTable::with_limit(MdsEpoch(1), 128);
        for n in 0..128 {
            assert!(table.grant_shared(dir(n), if n < of_y { Y } else { X }, NOW).is_some());
        }
        assert_eq!(table.grant_shared(dir(128), Y, NOW), None);
        let is_recalled = |session| !table.recalls(session, 0, 1000).is_empty();
        assert_eq!(
            (is_recalled(X), is_recalled(Y)),
            (!from_y, from_y),
            "Y had {of_y} of 128, the oldest"
        );
    }
}

#[test]
fn a_lease_takes_about_a_hundred_bytes() {
    let each = size_of::<LeaseOf>() + size_of::<super::table::LeaseEntry>();
    assert!(
        each <= 72,
        "{each} bytes; the hash table is 44 to 87 percent full, which may double that"
    );
}

#[test]
fn leases_of_an_expired_session_stand_until_its_fence_and_its_time() {
    let mut table = table();
    table.grant_shared(D, X, NOW).unwrap();
    let needs = [(D, LeaseMode::Write)];
    let second = Duration::from_secs(1);
    table.end_session_later(X, NOW);
    table.expire(NOW + second);
    assert_eq!(table.claim(ClaimId(1), Y, &needs, NOW), Some(Wait::For(D)), "it is not fenced");
    table.sessions_fenced(&[X]);
    table.expire(NOW - second);
    assert_eq!(
        table.claim(ClaimId(1), Y, &needs, NOW),
        Some(Wait::For(D)),
        "it may assume its lease valid"
    );
    table.expire(NOW);
    assert_eq!(table.claim(ClaimId(1), Y, &needs, NOW), None);
}

#[test]
fn after_a_restart_others_wait_for_those_that_may_believe() {
    let mut table = table();
    let needs = [(D, LeaseMode::Write)];
    table.set_unreclaimed([X, Y].into(), NOW);
    assert_eq!(table.claim(ClaimId(1), Y, &needs, NOW), Some(Wait::Restart));
    assert_eq!(
        table.request_data(ClaimId(2), Y, F, (LeaseMode::Read, false), NOW),
        AskOutcome::Waits(Wait::Restart)
    );
    table.session_released(X);
    assert_eq!(table.take_freed(), [Wait::Restart]);
    assert_eq!(table.claim(ClaimId(1), Y, &needs, NOW), None, "its own leases do not conflict");
    assert_eq!(table.claim(ClaimId(3), X, &[(F, LeaseMode::Look)], NOW), Some(Wait::Restart));
    table.expire(NOW);
    assert_eq!(table.claim(ClaimId(3), X, &[(F, LeaseMode::Look)], NOW), None);
}

#[test]
fn layout_leases_are_shared_and_recalled_for_a_change_of_the_layout_alone() {
    let mut table = table();
    let layout = LeaseOf::Layout(FileIndex(11));
    let (first, second) =
        (table.grant_shared(layout, X, NOW).unwrap(), table.grant_shared(layout, Y, NOW).unwrap());
    assert!(second > first && table.take_recalled_sessions().is_empty(), "any number may hold it");
    assert_eq!(
        table.claim(ClaimId(1), Y, &[(F, LeaseMode::Shared)], NOW),
        None,
        "the bytes are another item"
    );
    assert_eq!(
        table.claim(ClaimId(2), Y, &[(layout, LeaseMode::Write)], NOW),
        Some(Wait::For(layout))
    );
    assert_eq!(
        (table.take_recalled_sessions(), table.grant_shared(layout, SessionId(3), NOW)),
        (vec![X], None)
    );
    let (number, keep) = recall(&table, X);
    table.return_lease(X, layout, number, keep);
    assert_eq!(
        table.claim(ClaimId(2), Y, &[(layout, LeaseMode::Write)], NOW),
        None,
        "its own lease does not conflict"
    );
    table.unclaim(ClaimId(2), &[layout]);
    assert!(table.grant_shared(layout, X, NOW).is_some());
}
