//! CB_GETATTR: attributes of a file whose write delegation another client holds. RFC 8881 10.4.3.

use std::time::Duration;

use braid_nfs::NfsConfig;
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::{CallbackArgOp, CallbackResOp, HOLDER_ATTRIBUTES};
use braid_nfs_wire::nfs4::results::GetAttrResult;
use braid_nfs_wire::nfs4::*;
use braid_share::FILE_BYTES_MAX;

use crate::client::Callback;
use crate::delegations::{BOTH, DONE, deleg_return, delegated, delegating, recalled, two_clients};
use crate::last;
use crate::mount::*;

/// What the clients compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    change: u64,
    size: u64,
}

const SEEN: [u32; 2] = [attribute::CHANGE, attribute::SIZE];

impl Seen {
    fn of(attributes: &Attributes) -> Self {
        Self { change: attributes.change.unwrap(), size: attributes.size.unwrap() }
    }

    /// The answer of a holder.
    fn answer(self) -> CallbackResOp {
        let Self { change, size } = self;
        let known = Attributes { change: Some(change), size: Some(size), ..Attributes::default() };
        CallbackResOp::GetAttr(Ok(GetAttrResult { attributes: encoded(&known) }))
    }
}

fn get_attr(file: &OpenFile) -> [ArgOp; 2] {
    file.op(ArgOp::GetAttr(GetAttrArgs { attributes: Bitmap::of(&SEEN) }))
}

/// Sends GETATTR. Returns the transaction.
async fn ask(mount: &mut Mount, file: &OpenFile) -> u32 {
    let ops = mount.session.ops(get_attr(file));
    mount.connection.send(&ops).await
}

async fn seen(mount: &mut Mount, call: u32) -> Seen {
    let result = last!(GetAttr, mount.connection.receive_compound(call).await);
    Seen::of(&Attributes::from_encoded(&result.attributes).unwrap())
}

/// The holder gets CB_GETATTR for the file.
async fn asked(holder: &mut Mount, file: &OpenFile) -> Callback {
    let callback = holder.connection.callback().await;
    let CallbackArgOp::GetAttr(args) = &callback.op else { panic!("{callback:?}") };
    assert_eq!((&args.handle, args.attributes), (&file.handle, HOLDER_ATTRIBUTES));
    callback
}

/// What `other` sees when the holder gives this answer.
async fn seen_by(other: &mut Mount, holder: &mut Mount, file: &OpenFile, answer: Seen) -> Seen {
    let call = ask(other, file).await;
    let callback = asked(holder, file).await;
    holder.connection.answer(&callback, NfsStatus::Ok, &answer.answer()).await;
    seen(other, call).await
}

async fn own(mount: &mut Mount, file: &OpenFile) -> Seen {
    Seen::of(&mount.attributes(&file.handle, &SEEN).await)
}

#[tokio::test]
async fn an_unmodified_file_has_the_attributes_of_the_server() {
    let (server, mut a, mut b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    let granted = own(&mut a, &file).await;
    assert_eq!(seen_by(&mut b, &mut a, &file, granted).await, granted);
    // The holder flushes, and buffers nothing more: its size is an old one.
    assert_eq!(a.status(file.op(write(id, 0, b"12345"))).await, NfsStatus::Ok);
    let flushed = own(&mut a, &file).await;
    assert_eq!(seen_by(&mut b, &mut a, &file, granted).await, flushed);
    assert_eq!(flushed.size, 5);
    assert_eq!(server.share.delegation_count(), 1);
}

#[tokio::test]
async fn a_modified_file_has_the_size_of_its_holder_and_a_new_change() {
    let (server, mut a, mut b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    let granted = own(&mut a, &file).await;
    // RFC 8881 10.4.3: the holder may give the same higher number for all modifications.
    let modified = Seen { change: granted.change + 1, size: 5 };
    let first = seen_by(&mut b, &mut a, &file, modified).await;
    assert_eq!(first.size, 5);
    assert!(first.change > granted.change);
    let modified = Seen { size: 7, ..modified };
    let second = seen_by(&mut b, &mut a, &file, modified).await;
    assert_eq!(second.size, 7);
    assert!(second.change > first.change);
    assert_eq!(server.share.delegation_count(), 1);
    // The holder loses what it has buffered.
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    let lost = own(&mut b, &file).await;
    assert_eq!(lost.size, 0);
    assert!(lost.change >= second.change);
}

#[tokio::test]
async fn a_holder_that_does_not_know_its_delegation_yet_is_asked_again() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    let (file, _) = delegated(&mut a, "f", BOTH).await;
    let granted = own(&mut a, &file).await;
    let call = ask(&mut b, &file).await;
    for status in [NfsStatus::BadHandle, NfsStatus::Delay] {
        let callback = asked(&mut a, &file).await;
        let answer = CallbackResOp::GetAttr(Err(status));
        a.connection.answer(&callback, NfsStatus::Ok, &answer).await;
    }
    let callback = asked(&mut a, &file).await;
    a.connection.answer(&callback, NfsStatus::Ok, &granted.answer()).await;
    assert_eq!(seen(&mut b, call).await, granted);
}

async fn recall_of(a: &mut Mount, id: StateId) -> Callback {
    let callback = a.connection.callback().await;
    assert_eq!(recalled(&callback).state_id, id);
    callback
}

/// The delegation is recalled, the holder returns it, and the other client has its attributes.
async fn is_recalled(a: &mut Mount, file: &OpenFile, id: StateId, b: &mut Mount, call: u32) {
    let callback = recall_of(a, id).await;
    a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    let present = seen(b, call).await;
    assert_eq!(own(a, file).await, present);
}

#[tokio::test]
async fn answers_that_cannot_be_true_recall_the_delegation() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    for case in 0..5 {
        let (file, id) = delegated(&mut a, &format!("f{case}"), BOTH).await;
        let granted = own(&mut a, &file).await;
        let only_size = Attributes { size: Some(5), ..Attributes::default() };
        let only_size = GetAttrResult { attributes: encoded(&only_size) };
        let cut = EncodedAttributes { mask: HOLDER_ATTRIBUTES, values: vec![0; 12].into() };
        let answer = match case {
            0 => Seen { change: granted.change + 1, size: FILE_BYTES_MAX + 1 }.answer(),
            1 => Seen { change: granted.change - 1, size: 5 }.answer(),
            2 => CallbackResOp::GetAttr(Ok(only_size)),
            3 => CallbackResOp::GetAttr(Ok(GetAttrResult { attributes: cut })),
            _ => CallbackResOp::GetAttr(Err(NfsStatus::ServerFault)),
        };
        let call = ask(&mut b, &file).await;
        let callback = asked(&mut a, &file).await;
        a.connection.answer(&callback, NfsStatus::Ok, &answer).await;
        is_recalled(&mut a, &file, id, &mut b, call).await;
    }
}

/// A client may send the cached reply to an earlier callback with the same number.
#[tokio::test]
async fn the_result_of_another_operation_is_no_answer() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    let (file, _) = delegated(&mut a, "f", BOTH).await;
    let granted = own(&mut a, &file).await;
    let call = ask(&mut b, &file).await;
    let first = asked(&mut a, &file).await;
    a.connection.answer(&first, NfsStatus::Ok, &DONE).await;
    let second = asked(&mut a, &file).await;
    assert_eq!(second.sequence.sequence_id.0, first.sequence.sequence_id.0 + 1);
    a.connection.answer(&second, NfsStatus::Ok, &granted.answer()).await;
    assert_eq!(seen(&mut b, call).await, granted);
}

#[tokio::test]
async fn a_holder_that_does_not_answer_is_sent_a_recall() {
    // It is waited for 2 s.
    let config = NfsConfig { lease: Duration::from_secs(12), ..delegating() };
    let (_server, mut a, mut b) = two_clients(config).await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    let call = ask(&mut b, &file).await;
    let given_up = asked(&mut a, &file).await;
    // A slot whose callback may still be answered is not used again.
    let callback = recall_of(&mut a, id).await;
    assert_ne!(callback.sequence.slot_id, given_up.sequence.slot_id);
    a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    assert_eq!(seen(&mut b, call).await.size, 0);
}

/// The delegation ends while the holder is asked: its answer would be about the past.
#[tokio::test]
async fn an_answer_after_the_return_is_not_used() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    let granted = own(&mut a, &file).await;
    let call = ask(&mut b, &file).await;
    let callback = asked(&mut a, &file).await;
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    let late = Seen { change: granted.change + 1, size: 9 };
    a.connection.answer(&callback, NfsStatus::Ok, &late.answer()).await;
    let found = seen(&mut b, call).await;
    assert_eq!(found.size, 0);
}
