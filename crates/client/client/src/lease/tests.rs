//! The holder, one rule at a time; `braid-model` explores how they meet.

use std::time::Duration;

use braid_types::{FileIndex, MdsEpoch, SessionId, limits::LEASE_STOP_MS};
use braid_wire::message::lease::{LeaseGrant, LeaseKind, LeaseMode, Recall};

use super::{LeaseOf, LeaseState, LeaseTicket, RequiredAction, ServerEpoch};

const DIR: LeaseOf = LeaseOf::Names(FileIndex(7));
const FILE: LeaseOf = LeaseOf::Data(FileIndex(8));
const NOW: Duration = Duration::from_secs(100);
const STOP: Duration = Duration::from_millis(LEASE_STOP_MS);

fn run(epoch: u64) -> ServerEpoch {
    ServerEpoch { session: SessionId(1), epoch: MdsEpoch(epoch) }
}

fn holding() -> LeaseState {
    let mut holding = LeaseState::new();
    holding.set_epoch(run(1));
    holding
}

fn granted(
    holding: &mut LeaseState,
    of: LeaseOf,
    mode: LeaseMode,
    number: u64,
) -> Option<LeaseTicket> {
    let ask = holding.begin_request(NOW);
    holding.answered(ask, run(1), Some((of, LeaseGrant { mode, number, ..LeaseGrant::NONE })), NOW)
}

fn recall(number: u64, of: LeaseOf) -> Recall {
    let kind = if matches!(of, LeaseOf::Names(_)) { LeaseKind::Names } else { LeaseKind::Data };
    Recall { number, kind, file: of.file(), keep: LeaseMode::None }
}

#[test]
fn a_ticket_holds_until_the_lease_is_recalled_and_a_new_one_is_another() {
    let mut holding = holding();
    let ticket = granted(&mut holding, DIR, LeaseMode::Read, 1).unwrap();
    assert!(holding.is_valid(&ticket, NOW));
    let again = granted(&mut holding, DIR, LeaseMode::Read, 2).unwrap();
    assert_eq!(again, ticket, "granted again without a break");
    let recalled = holding.recalls(run(1), &[recall(3, DIR)], NOW);
    assert!(recalled[0].held && !holding.is_valid(&ticket, NOW));
    holding.carried_out(&recalled[0], LeaseMode::None);
    let new = granted(&mut holding, DIR, LeaseMode::Read, 4).unwrap();
    assert!(new != ticket && !holding.is_valid(&ticket, NOW));
}

#[test]
fn a_grant_that_a_recall_has_overtaken_is_void() {
    let mut holding = holding();
    let ask = holding.begin_request(NOW);
    let recalled = holding.recalls(run(1), &[recall(5, DIR)], NOW);
    assert!(!recalled[0].held, "there is nothing to carry out");
    let late = holding.answered(
        ask,
        run(1),
        Some((DIR, LeaseGrant { mode: LeaseMode::Read, number: 4, ..LeaseGrant::NONE })),
        NOW,
    );
    assert_eq!(late, None);
    assert!(granted(&mut holding, DIR, LeaseMode::Read, 6).is_some());
}

#[test]
fn a_recall_of_another_lease_does_not_void_a_grant() {
    let mut holding = holding();
    let ask = holding.begin_request(NOW);
    holding.recalls(run(1), &[recall(5, FILE)], NOW);
    let grant = LeaseGrant { mode: LeaseMode::Read, number: 4, ..LeaseGrant::NONE };
    assert!(holding.answered(ask, run(1), Some((DIR, grant)), NOW).is_some());
}

#[test]
fn a_grant_before_a_return_is_void_also_behind_an_older_recall() {
    let mut holding = holding();
    let ask = holding.begin_request(NOW);
    granted(&mut holding, FILE, LeaseMode::Read, 10).unwrap();
    holding.return_lease(FILE).unwrap();
    holding.recalls(run(1), &[recall(5, DIR)], NOW);
    let grant = LeaseGrant { mode: LeaseMode::Read, number: 7, ..LeaseGrant::NONE };
    assert_eq!(holding.answered(ask, run(1), Some((FILE, grant)), NOW), None);
}

#[test]
fn leases_expire_and_none_is_valid_before_all_caches_are_dropped() {
    let mut holding = holding();
    let ticket = granted(&mut holding, DIR, LeaseMode::Read, 1).unwrap();
    let second = Duration::from_secs(1);
    holding.renewed(run(1), NOW + second, NOW + STOP - second);
    assert!(holding.is_valid(&ticket, NOW + STOP));
    assert!(!holding.is_valid(&ticket, NOW + STOP + second));
    assert!(matches!(holding.required_action(NOW + STOP + second), RequiredAction::Invalidate(1)));
    let ask = holding.begin_request(NOW + STOP + second);
    let grant = Some((DIR, LeaseGrant { mode: LeaseMode::Read, number: 2, ..LeaseGrant::NONE }));
    assert_eq!(holding.answered(ask, run(1), grant, NOW + STOP + second), None);
    holding.all_invalidated(1);
    assert!(matches!(
        holding.required_action(NOW + STOP + second),
        RequiredAction::AwaitRecalls(0, None)
    ));
}

#[test]
fn a_recall_after_expiry_is_not_returned_before_all_is_dropped() {
    let mut holding = holding();
    granted(&mut holding, DIR, LeaseMode::Read, 1).unwrap();
    let recalls = [recall(2, DIR)];
    assert_eq!(holding.recalls(run(1), &recalls, NOW + STOP), []);
    holding.all_invalidated(1);
    assert!(
        matches!(holding.required_action(NOW + STOP), RequiredAction::AwaitRecalls(0, None)),
        "the recall was not applied, so the server sends it again"
    );
    assert_eq!(holding.recalls(run(1), &recalls, NOW + STOP).len(), 1);
}

#[test]
fn a_new_epoch_of_the_server_ends_all_leases() {
    let mut holding = holding();
    let ticket = granted(&mut holding, DIR, LeaseMode::Read, 1).unwrap();
    let ask = holding.begin_request(NOW);
    assert!(holding.set_epoch(run(2)) && !holding.is_valid(&ticket, NOW));
    let before = holding.answered(
        ask,
        run(1),
        Some((FILE, LeaseGrant { mode: LeaseMode::Read, number: 9, ..LeaseGrant::NONE })),
        NOW,
    );
    assert_eq!(before, None, "a grant of the run before");
    assert!(!holding.set_epoch(run(2)) || holding.must_invalidate());
}

#[test]
fn a_data_lease_is_held_until_its_recall_is_carried_out() {
    let mut holding = holding();
    let ticket = granted(&mut holding, FILE, LeaseMode::Write, 1).unwrap();
    let recalled =
        holding.recalls(run(1), &[Recall { keep: LeaseMode::Read, ..recall(2, FILE) }], NOW);
    assert!(holding.is_valid(&ticket, NOW));
    let returned = holding.carried_out(&recalled[0], LeaseMode::Read);
    assert_eq!((returned.number, returned.keep), (2, LeaseMode::Read));
    assert!(!holding.is_valid(&ticket, NOW), "it allows less");
    assert_eq!(holding.ticket(FILE, NOW).map(|ticket| ticket.mode()), Some(LeaseMode::Read));
}

#[test]
fn a_lease_kept_after_a_recall_has_a_new_ticket() {
    let mut holding = holding();
    let ticket = granted(&mut holding, FILE, LeaseMode::Read, 1).unwrap();
    // The server had granted more, which this recall overtook.
    let recalled =
        holding.recalls(run(1), &[Recall { keep: LeaseMode::Read, ..recall(3, FILE) }], NOW);
    holding.carried_out(&recalled[0], LeaseMode::Read);
    let held = holding.ticket(FILE, NOW).unwrap();
    assert_eq!(held.mode(), LeaseMode::Read);
    assert!(
        held != ticket && !holding.is_valid(&ticket, NOW),
        "its holder had stopped using that one"
    );
}

#[test]
fn a_grant_that_a_lease_given_back_was_granted_after_is_void() {
    let mut holding = holding();
    let ask = holding.begin_request(NOW);
    granted(&mut holding, FILE, LeaseMode::Write, 5).unwrap();
    assert_eq!(
        holding.return_lease(FILE).unwrap().number,
        5,
        "the server frees what it granted up to this"
    );
    let late = holding.answered(
        ask,
        run(1),
        Some((FILE, LeaseGrant { mode: LeaseMode::Write, number: 4, ..LeaseGrant::NONE })),
        NOW,
    );
    assert_eq!(late, None);
    assert!(granted(&mut holding, FILE, LeaseMode::Write, 6).is_some());
}

#[test]
fn a_recall_of_before_a_grant_leaves_its_ticket() {
    let mut holding = holding();
    let ticket = granted(&mut holding, FILE, LeaseMode::Write, 5).unwrap();
    let recalled = holding.recalls(run(1), &[recall(4, FILE)], NOW);
    assert!(!recalled[0].held);
    holding.carried_out(&recalled[0], LeaseMode::None);
    assert!(holding.is_valid(&ticket, NOW), "what the holder cached under it stays valid");
}
