use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::nfs4::{NfsStatus, SessionId, Verifier};
use braid_nfs_wire::xdr::Segment;
use bytes::Bytes;

use super::*;
use crate::state::clients::{Client, ClientData, ClientTable, ExchangeRequest, Protection};
use crate::state::{Moment, Principal};

fn reply(text: &'static str) -> CachedReply {
    CachedReply::Whole(vec![Segment::Bytes(Bytes::from_static(text.as_bytes()))])
}

/// A request on slot 0.
fn begin(slots: &mut SlotTable, sequence: u32, fingerprint: u64) -> Result<Begun, NfsStatus> {
    slots.begin(0, sequence, 0, fingerprint)
}

#[test]
fn first_request_of_a_slot_has_number_1() {
    for sequence in [0, 2, u32::MAX] {
        let mut slots = SlotTable::new(1);
        assert_eq!(begin(&mut slots, sequence, 5), Err(NfsStatus::SeqMisordered));
        assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::New));
    }
}

#[test]
fn retry_gets_the_cached_reply() {
    let mut slots = SlotTable::new(1);
    assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::New));
    slots.finish(0, reply("one"));
    for _ in 0..2 {
        assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::Retry(reply("one"))));
    }
    assert_eq!(begin(&mut slots, 2, 6), Ok(Begun::New));
    slots.finish(0, CachedReply::NotCached);
    assert_eq!(begin(&mut slots, 2, 6), Ok(Begun::Retry(CachedReply::NotCached)));
    assert_eq!(begin(&mut slots, 1, 5), Err(NfsStatus::SeqMisordered));
}

#[test]
fn retry_that_differs_is_a_false_one() {
    let mut slots = SlotTable::new(1);
    assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::New));
    assert_eq!(begin(&mut slots, 1, 6), Err(NfsStatus::SeqFalseRetry));
    slots.finish(0, reply("one"));
    assert_eq!(begin(&mut slots, 1, 6), Err(NfsStatus::SeqFalseRetry));
    assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::Retry(reply("one"))));
}

#[test]
fn retry_of_a_running_request_is_delayed() {
    let mut slots = SlotTable::new(1);
    assert_eq!(begin(&mut slots, 1, 5), Ok(Begun::New));
    assert_eq!(begin(&mut slots, 1, 5), Err(NfsStatus::Delay));
    assert_eq!(begin(&mut slots, 2, 5), Err(NfsStatus::SeqMisordered));
}

#[test]
fn numbers_of_a_slot_rise_by_1_and_wrap() {
    let mut slots = SlotTable::new(1);
    slots.set_sequence(0, u32::MAX - 1);
    assert_eq!(begin(&mut slots, u32::MAX, 5), Ok(Begun::New));
    slots.finish(0, CachedReply::NotCached);
    assert_eq!(begin(&mut slots, 1, 5), Err(NfsStatus::SeqMisordered));
    assert_eq!(begin(&mut slots, u32::MAX - 1, 5), Err(NfsStatus::SeqMisordered));
    assert_eq!(begin(&mut slots, 0, 6), Ok(Begun::New));
    slots.finish(0, CachedReply::NotCached);
    assert_eq!(begin(&mut slots, u32::MAX, 5), Err(NfsStatus::SeqMisordered));
}

#[test]
fn slots_that_do_not_exist_are_refused() {
    let mut slots = SlotTable::new(8);
    assert_eq!(slots.highest(), 7);
    assert_eq!(slots.begin(8, 1, 8, 5), Err(NfsStatus::BadSlot));
    assert_eq!(slots.begin(u32::MAX, 1, 0, 5), Err(NfsStatus::BadSlot));
    assert_eq!(slots.begin(7, 1, 8, 5), Err(NfsStatus::BadHighSlot));
    assert_eq!(slots.begin(7, 1, 7, 5), Ok(Begun::New));
    assert_eq!(slots.begin(6, 1, 7, 5), Ok(Begun::New), "slots are independent");
}

#[test]
fn busy_slots_are_seen_except_ones_own() {
    let mut slots = SlotTable::new(2);
    assert!(!slots.is_busy(None));
    assert_eq!(slots.begin(1, 1, 1, 5), Ok(Begun::New));
    assert!(slots.is_busy(None) && slots.is_busy(Some(0)) && !slots.is_busy(Some(1)));
    slots.finish(1, CachedReply::NotCached);
    assert!(!slots.is_busy(None));
}

#[test]
fn cached_bytes_are_counted_and_released() {
    let mut slots = SlotTable::new(2);
    for (slot, text) in [(0, "four"), (1, "eightish")] {
        assert_eq!(slots.begin(slot, 1, 1, 5), Ok(Begun::New));
        slots.finish(slot, reply(text));
    }
    assert_eq!(slots.cached_bytes(), 12);
    assert_eq!(slots.begin(1, 2, 1, 5), Ok(Begun::New));
    assert_eq!(slots.cached_bytes(), 4);
    slots.finish(1, CachedReply::NotCached);
    assert_eq!(slots.cached_bytes(), 4);
}

const ASKED: ChannelLimits = ChannelLimits {
    request_bytes: 1 << 20,
    reply_bytes: 1 << 20,
    cached_reply_bytes: 3000,
    operations: 8,
    slots: 30,
};

#[test]
fn fore_channel_gets_what_it_asks_within_limits() {
    assert_eq!(negotiate_fore(ASKED, 2 << 20, SLOTS_MAX), Ok(ASKED));
    let much = ChannelLimits {
        request_bytes: u32::MAX,
        reply_bytes: u32::MAX,
        cached_reply_bytes: u32::MAX,
        operations: u32::MAX,
        slots: u32::MAX,
    };
    let most = ChannelLimits {
        request_bytes: 2 << 20,
        reply_bytes: 2 << 20,
        cached_reply_bytes: CACHED_REPLY_BYTES_MAX,
        operations: OPERATIONS_MAX,
        slots: SLOTS_MAX,
    };
    assert_eq!(negotiate_fore(much, 2 << 20, SLOTS_MAX), Ok(most));
    assert_eq!(negotiate_fore(much, 2 << 20, SLOTS_MIN).unwrap().slots, SLOTS_MIN);
    let none = ChannelLimits { slots: 0, operations: 0, ..ASKED };
    let granted = negotiate_fore(none, 2 << 20, SLOTS_MAX).unwrap();
    assert_eq!((granted.slots, granted.operations), (1, 1));
}

#[test]
fn channels_too_small_for_any_message_are_refused() {
    let least = CHANNEL_BYTES_MIN;
    for (request_bytes, reply_bytes, fits) in
        [(least, least, true), (least - 1, least, false), (least, least - 1, false)]
    {
        let asked = ChannelLimits { request_bytes, reply_bytes, ..ASKED };
        assert_eq!(negotiate_fore(asked, 1 << 20, SLOTS_MAX).is_ok(), fits);
        assert_eq!(negotiate_back(asked).is_ok(), fits);
    }
    let one_operation = ChannelLimits { operations: 1, ..ASKED };
    assert_eq!(negotiate_back(one_operation), Err(NfsStatus::TooSmall));
}

#[derive(Debug)]
struct Data;

impl ClientData for Data {
    fn has_state(&self) -> bool {
        false
    }
}

fn client() -> Arc<Client<Data>> {
    let mut table = ClientTable::<Data, ()>::new(1, Duration::from_secs(1), 1);
    let request = ExchangeRequest {
        owner: Bytes::from_static(b"a"),
        verifier: Verifier([0; 8]),
        update: false,
        protection: Protection::None,
    };
    table.exchange_id(&request, &Principal::Nobody, Moment(0)).unwrap().client
}

#[test]
fn sessions_get_few_slots_when_the_cache_is_promised_away() {
    let mut table = SessionTable::default();
    let client = client();
    let mut number = 0u128;
    let fore = negotiate_fore(
        ChannelLimits { slots: SLOTS_MAX, cached_reply_bytes: CACHED_REPLY_BYTES_MAX, ..ASKED },
        1 << 20,
        SLOTS_MAX,
    )
    .unwrap();
    let mut ids = Vec::new();
    while table.slots_max() == SLOTS_MAX {
        number += 1;
        let id = SessionId(number.to_be_bytes());
        table.insert(Arc::new(Session::new(id, Arc::clone(&client), fore, ())));
        ids.push(id);
    }
    let each = u64::from(fore.slots) * u64::from(fore.cached_reply_bytes);
    assert_eq!(ids.len() as u64, CACHED_REPLY_BYTES_TOTAL_MAX.div_ceil(each));
    assert_eq!(table.slots_max(), SLOTS_MIN);
    let removed = table.remove(&ids[0]).unwrap();
    assert!(removed.is_destroyed() && table.session(&ids[0]).is_none());
    assert!(table.remove(&ids[0]).is_none());
    assert_eq!(table.slots_max(), SLOTS_MAX);
}
