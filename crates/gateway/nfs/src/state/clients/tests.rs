use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use braid_nfs_wire::nfs4::{ClientId, NfsStatus, SessionId, Verifier};
use bytes::Bytes;

use super::*;
use crate::state::{Moment, Principal};

const LEASE: Duration = Duration::from_secs(60);
const START: Moment = Moment(1000);
const ALICE: Principal = Principal::Unix { uid: 1 };
const BOB: Principal = Principal::Unix { uid: 2 };

/// Data of a client: whether it has state.
#[derive(Debug, Default)]
struct Data(AtomicBool);

impl ClientData for Data {
    fn has_state(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

type Table = ClientTable<Data, u32>;

fn table() -> Table {
    ClientTable::new(7, LEASE, CLIENTS_MAX)
}

fn request(owner: &'static str, verifier: u8, update: bool) -> ExchangeRequest {
    ExchangeRequest {
        owner: Bytes::from_static(owner.as_bytes()),
        verifier: Verifier([verifier; 8]),
        update,
        protection: Protection::None,
    }
}

fn exchange(table: &mut Table, owner: &'static str, verifier: u8, who: &Principal) -> ClientId {
    let exchanged = table.exchange_id(&request(owner, verifier, false), who, START).unwrap();
    exchanged.client.id()
}

/// CREATE_SESSION with the number after the last one; confirms the client if needed.
fn create(table: &mut Table, id: ClientId, sequence: u32, now: Moment) -> Vec<Removed<Data>> {
    let who = table.client(id).unwrap().principal().clone();
    let begun = table.begin_session(id, sequence, &who, now).unwrap();
    let BeginSession::Create(client) = begun else { panic!("{begun:?}") };
    let removed = match client.data() {
        Some(_) => Vec::new(),
        None => table.confirm(id, Data::default(), now).unwrap(),
    };
    table.finish_session(id, session(id, sequence), sequence).unwrap();
    removed
}

fn session(id: ClientId, sequence: u32) -> SessionId {
    SessionId(u128::from(id.0 ^ u64::from(sequence) << 40).to_be_bytes())
}

/// A confirmed client with one session.
fn confirmed(table: &mut Table, owner: &'static str, verifier: u8, who: &Principal) -> ClientId {
    let id = exchange(table, owner, verifier, who);
    create(table, id, 1, START);
    id
}

fn update(table: &mut Table, verifier: u8, who: &Principal) -> Result<ClientId, NfsStatus> {
    let exchanged = table.exchange_id(&request("a", verifier, true), who, START)?;
    assert!(exchanged.confirmed);
    Ok(exchanged.client.id())
}

#[test]
fn case_1_new_owner_gets_an_unconfirmed_record() {
    let mut table = table();
    let exchanged = table.exchange_id(&request("a", 1, false), &ALICE, START).unwrap();
    assert!(!exchanged.confirmed && exchanged.removed.is_none());
    assert_eq!(exchanged.sequence, 1);
    assert_eq!(exchanged.client.id(), ClientId(7 << 32 | 1));
    assert_eq!(table.confirmed(), 0);
    assert_ne!(exchange(&mut table, "b", 1, &ALICE), exchanged.client.id());
}

#[test]
fn case_2_same_instance_gets_its_confirmed_record() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    let exchanged = table.exchange_id(&request("a", 1, false), &ALICE, START).unwrap();
    assert!(exchanged.confirmed);
    assert_eq!((exchanged.client.id(), exchanged.sequence), (id, 2));
}

#[test]
fn case_3_owner_of_another_principal_is_in_use() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    let refused = table.exchange_id(&request("a", 1, false), &BOB, START).unwrap_err();
    assert_eq!(refused, NfsStatus::ClidInUse);

    // Opens are state as sessions are.
    table.forget_session(id, session(id, 1));
    table.client(id).unwrap().data().unwrap().0.store(true, Ordering::Relaxed);
    let refused = table.exchange_id(&request("a", 1, false), &BOB, START).unwrap_err();
    assert_eq!(refused, NfsStatus::ClidInUse);

    table.client(id).unwrap().data().unwrap().0.store(false, Ordering::Relaxed);
    let exchanged = table.exchange_id(&request("a", 1, false), &BOB, START).unwrap();
    assert_eq!(exchanged.removed.unwrap().client.id(), id);
    assert!(!exchanged.confirmed && table.client(id).is_none());
}

#[test]
fn case_3_expired_owner_is_replaced_with_its_state() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    let last = START + LEASE;
    let refused = table.exchange_id(&request("a", 1, false), &BOB, last).unwrap_err();
    assert_eq!(refused, NfsStatus::ClidInUse);
    let late = last + Duration::from_millis(1);
    let exchanged = table.exchange_id(&request("a", 1, false), &BOB, late).unwrap();
    let removed = exchanged.removed.unwrap();
    assert_eq!((removed.client.id(), removed.sessions), (id, vec![session(id, 1)]));
}

#[test]
fn case_4_unconfirmed_record_is_replaced() {
    for (verifier, who) in [(1, &ALICE), (2, &ALICE), (1, &BOB), (2, &BOB)] {
        let mut table = table();
        let old = exchange(&mut table, "a", 1, &ALICE);
        let new = exchange(&mut table, "a", verifier, who);
        assert_ne!(old, new);
        assert!(table.client(old).is_none());
        let stale = table.begin_session(old, 1, &ALICE, START).unwrap_err();
        assert_eq!(stale, NfsStatus::StaleClientId);
    }
}

#[test]
fn case_5_former_instance_lives_until_the_new_one_is_confirmed() {
    let mut table = table();
    let old = confirmed(&mut table, "a", 1, &ALICE);
    let new = exchange(&mut table, "a", 2, &ALICE);
    assert_ne!(old, new);
    assert!(table.client(old).is_some());
    let removed = create(&mut table, new, 1, START);
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].client.id(), old);
    assert_eq!(removed[0].sessions, [session(old, 1)]);
    assert!(table.client(old).is_none());
    assert_eq!(table.confirmed(), 1);
}

#[test]
fn case_6_update_finds_the_confirmed_record() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    assert_eq!(update(&mut table, 1, &ALICE), Ok(id));
}

#[test]
fn case_7_update_without_a_confirmed_record() {
    let mut table = table();
    assert_eq!(update(&mut table, 1, &ALICE), Err(NfsStatus::NoEnt));
    exchange(&mut table, "a", 1, &ALICE);
    assert_eq!(update(&mut table, 1, &ALICE), Err(NfsStatus::NoEnt));
}

#[test]
fn case_8_update_with_the_wrong_verifier() {
    let mut table = table();
    confirmed(&mut table, "a", 1, &ALICE);
    assert_eq!(update(&mut table, 2, &ALICE), Err(NfsStatus::NotSame));
}

#[test]
fn case_9_update_with_the_wrong_principal() {
    let mut table = table();
    confirmed(&mut table, "a", 1, &ALICE);
    assert_eq!(update(&mut table, 1, &BOB), Err(NfsStatus::Perm));
}

#[test]
fn create_session_repeats_its_last_reply() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    for _ in 0..2 {
        let replay = table.begin_session(id, 1, &ALICE, START).unwrap();
        assert!(matches!(replay, BeginSession::Replay(1)));
    }
    create(&mut table, id, 2, START);
    let replay = table.begin_session(id, 2, &ALICE, START).unwrap();
    assert!(matches!(replay, BeginSession::Replay(2)));
}

#[test]
fn create_session_out_of_order_is_refused() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    for sequence in [0, 2, u32::MAX] {
        let refused = table.begin_session(id, sequence, &ALICE, START).unwrap_err();
        assert_eq!(refused, NfsStatus::SeqMisordered, "sequence {sequence}");
    }
    create(&mut table, id, 1, START);
    for sequence in [0, 3] {
        let refused = table.begin_session(id, sequence, &ALICE, START).unwrap_err();
        assert_eq!(refused, NfsStatus::SeqMisordered, "sequence {sequence}");
    }
}

#[test]
fn only_the_principal_of_the_record_confirms_it() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    let refused = table.begin_session(id, 1, &BOB, START).unwrap_err();
    assert_eq!(refused, NfsStatus::ClidInUse);
    create(&mut table, id, 1, START);
    let begun = table.begin_session(id, 2, &BOB, START);
    assert!(matches!(begun, Ok(BeginSession::Create(_))));
}

#[test]
fn abandoned_create_session_leaves_its_number() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    assert!(table.begin_session(id, 1, &ALICE, START).is_ok());
    let second = table.begin_session(id, 1, &ALICE, START).unwrap_err();
    assert_eq!(second, NfsStatus::Delay, "while the first one runs");
    assert_eq!(table.destroy(id).unwrap_err(), NfsStatus::ClientIdBusy);
    table.abandon_session(id);
    create(&mut table, id, 1, START);
}

#[test]
fn record_replaced_while_it_is_confirmed_is_stale() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    assert!(table.begin_session(id, 1, &ALICE, START).is_ok());
    exchange(&mut table, "a", 2, &ALICE);
    let (status, _) = table.confirm(id, Data::default(), START).unwrap_err();
    assert_eq!(status, NfsStatus::StaleClientId);
}

#[test]
fn unconfirmed_records_expire() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    let late = START + LEASE + Duration::from_millis(1);
    let stale = table.begin_session(id, 1, &ALICE, late).unwrap_err();
    assert_eq!(stale, NfsStatus::StaleClientId);
    assert!(table.client(id).is_none());

    let id = exchange(&mut table, "a", 1, &ALICE);
    table.remove_unconfirmed_expired(START + LEASE);
    assert!(table.client(id).is_some());
    table.remove_unconfirmed_expired(late);
    assert!(table.client(id).is_none());
}

#[test]
fn expired_client_keeps_its_state_until_a_conflict() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    let late = START + LEASE + Duration::from_millis(1);
    table.remove_unconfirmed_expired(late);
    assert!(table.client(id).is_some(), "courtesy");
    assert!(table.remove_if_expired(id, START + LEASE).is_none());
    table.client(id).unwrap().renew(late);
    assert!(table.remove_if_expired(id, late).is_none(), "it came back");
    let removed = table.remove_if_expired(id, late + LEASE + LEASE).unwrap();
    assert_eq!(removed.sessions, [session(id, 1)]);
    assert!(table.client(id).is_none());
}

#[test]
fn flood_of_unconfirmed_clients_replaces_the_oldest() {
    let mut table = table();
    let confirmed = confirmed(&mut table, "kept", 1, &ALICE);
    let mut ids = Vec::new();
    for number in 0..=UNCONFIRMED_CLIENTS_MAX {
        let request = ExchangeRequest {
            owner: Bytes::from(format!("owner {number}")),
            ..request("", 1, false)
        };
        let exchanged = table.exchange_id(&request, &ALICE, START).unwrap();
        ids.push(exchanged.client.id());
    }
    assert!(table.client(ids[0]).is_none());
    assert!(ids[1..].iter().all(|id| table.client(*id).is_some()));
    assert!(table.client(confirmed).is_some());
}

#[test]
fn client_over_the_limit_takes_the_place_of_an_expired_one() {
    let mut table = ClientTable::new(7, LEASE, 2);
    let first = confirmed(&mut table, "a", 1, &ALICE);
    let second = confirmed(&mut table, "b", 1, &ALICE);
    let third = exchange(&mut table, "c", 1, &ALICE);
    assert!(table.begin_session(third, 1, &ALICE, START).is_ok());
    let (status, _) = table.confirm(third, Data::default(), START).unwrap_err();
    assert_eq!(status, NfsStatus::Delay, "all leases are valid");
    table.abandon_session(third);

    let later = START + Duration::from_secs(50);
    table.client(first).unwrap().renew(later);
    table.client(third).unwrap().renew(later);
    let removed = create(&mut table, third, 1, START + LEASE + Duration::from_millis(1));
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].client.id(), second);
    assert_eq!(table.confirmed(), 2);
}

#[test]
fn new_instance_needs_no_place_of_its_own() {
    let mut table = ClientTable::new(7, LEASE, 1);
    confirmed(&mut table, "a", 1, &ALICE);
    let new = exchange(&mut table, "a", 2, &ALICE);
    assert_eq!(create(&mut table, new, 1, START).len(), 1);
}

#[test]
fn sessions_of_a_client_are_limited() {
    let mut table = table();
    let id = exchange(&mut table, "a", 1, &ALICE);
    let most = SESSIONS_PER_CLIENT_MAX as u32;
    for sequence in 1..=most {
        create(&mut table, id, sequence, START);
    }
    let refused = table.begin_session(id, most + 1, &ALICE, START).unwrap_err();
    assert_eq!(refused, NfsStatus::Delay);
    table.forget_session(id, session(id, 1));
    create(&mut table, id, most + 1, START);
}

#[test]
fn client_with_state_is_not_destroyed() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    assert_eq!(table.destroy(id).unwrap_err(), NfsStatus::ClientIdBusy);
    table.forget_session(id, session(id, 1));
    let client = Arc::clone(table.client(id).unwrap());
    client.data().unwrap().0.store(true, Ordering::Relaxed);
    assert_eq!(table.destroy(id).unwrap_err(), NfsStatus::ClientIdBusy);
    client.data().unwrap().0.store(false, Ordering::Relaxed);
    assert_eq!(table.destroy(id).unwrap().client.id(), id);
    assert_eq!(table.destroy(id).unwrap_err(), NfsStatus::StaleClientId);
    assert_eq!(table.destroy(ClientId(0)).unwrap_err(), NfsStatus::StaleClientId);
}

#[test]
fn reclaim_is_completed_once() {
    let mut table = table();
    let id = confirmed(&mut table, "a", 1, &ALICE);
    let client = table.client(id).unwrap();
    assert!(!client.has_reclaimed() && client.complete_reclaim());
    assert!(client.has_reclaimed() && !client.complete_reclaim());
}

#[test]
fn durable_records_have_what_recognises_a_client() {
    for principal in
        [Principal::Nobody, ALICE, Principal::Gss { name: Bytes::from_static(b"host/a@B") }]
    {
        let mut table = table();
        let exchanged = table.exchange_id(&request("a", 9, false), &principal, START).unwrap();
        let record = Bytes::from(encode_record(&exchanged.client));
        let expected = DurableClient {
            owner: Bytes::from_static(b"a"),
            verifier: Verifier([9; 8]),
            principal,
        };
        assert_eq!(decode_record(record.clone()), Ok(expected));
        for length in 0..record.len() {
            assert!(decode_record(record.slice(..length)).is_err());
        }
    }
}
