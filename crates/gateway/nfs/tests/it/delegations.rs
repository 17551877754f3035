//! Delegations: grants, recalls over the back channel, returns and revocation. RFC 8881 10.4.

use std::time::Duration;

use braid_nfs::NfsConfig;
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackResOp, RecallArgs, ReferringCall, ReferringCalls,
};
use braid_nfs_wire::nfs4::results::{OpenDelegation, WhyNoDelegation};
use braid_nfs_wire::nfs4::*;

use crate::client::{Callback, create_args, exchange_args};
use crate::last;
use crate::mount::*;
use crate::server::{TestServer, config};

pub const READ: ShareAccess = ShareAccess::READ;
pub const BOTH: ShareAccess = ShareAccess::BOTH;
pub const DONE: CallbackResOp = CallbackResOp::Recall(Ok(()));

pub fn delegating() -> NfsConfig {
    NfsConfig { delegations: true, ..config() }
}

/// A client that may not take long to return: 2 s.
fn impatient() -> NfsConfig {
    NfsConfig { lease: Duration::from_secs(3), ..delegating() }
}

pub async fn two_clients(config: NfsConfig) -> (TestServer, Mount, Mount) {
    let server = TestServer::with_config(config).await;
    let (a, b) = (Mount::new(&server, "a").await, Mount::new(&server, "b").await);
    (server, a, b)
}

pub fn want(access: ShareAccess, wanted: WantedDelegation) -> ShareAccess {
    access | ShareAccess(wanted.code())
}

/// OPEN of a name in the root directory: the open, and the delegation.
pub async fn open_for(mount: &mut Mount, open: ArgOp) -> (OpenFile, OpenDelegation) {
    let mut result = mount.run([ArgOp::PutRootFh, open, ArgOp::GetFh]).await;
    match (result.results.pop(), result.results.pop()) {
        (Some(ResOp::GetFh(Ok(handle))), Some(ResOp::Open(Ok(opened)))) => {
            (OpenFile { handle: handle.handle, id: opened.state_id }, opened.delegation)
        }
        _ => panic!("{result:?}"),
    }
}

pub fn state_id(delegation: &OpenDelegation) -> StateId {
    match delegation {
        OpenDelegation::Read(read) => read.state_id,
        OpenDelegation::Write(write) => write.state_id,
        other => panic!("no delegation: {other:?}"),
    }
}

/// Makes a file and opens it again: the open, and the delegation's state id.
pub async fn delegated(mount: &mut Mount, name: &str, access: ShareAccess) -> (OpenFile, StateId) {
    let file = mount.create(name).await;
    assert_eq!(mount.close(&file).await, NfsStatus::Ok);
    let (file, delegation) = open_for(mount, open(name, access, ShareDeny::NONE)).await;
    (file, state_id(&delegation))
}

pub fn deleg_return(state_id: StateId) -> ArgOp {
    ArgOp::DelegReturn(DelegReturnArgs { state_id })
}

async fn test_state_id(mount: &mut Mount, id: StateId) -> NfsStatus {
    let test = ArgOp::TestStateId(TestStateIdArgs { state_ids: vec![id] });
    last!(TestStateId, mount.run([test]).await).statuses[0]
}

async fn status_flags(mount: &mut Mount) -> SequenceStatus {
    last!(Sequence, mount.run([]).await).status_flags
}

pub fn recalled(callback: &Callback) -> &RecallArgs {
    match &callback.op {
        CallbackArgOp::Recall(args) => args,
        other => panic!("{other:?}"),
    }
}

/// A call of `other` that waits until `holder` has returned its delegation.
async fn recalls(
    holder: &mut Mount,
    (file, id): (&OpenFile, StateId),
    other: &mut Mount,
    ops: impl IntoIterator<Item = ArgOp>,
) -> NfsStatus {
    let ops = other.session.ops(ops);
    let call = other.connection.send(&ops).await;
    let callback = holder.connection.callback().await;
    assert_eq!((recalled(&callback).state_id, &recalled(&callback).handle), (id, &file.handle));
    holder.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(holder.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    other.connection.receive_compound(call).await.status
}

#[tokio::test]
async fn delegations_are_granted_as_wished() {
    let (_server, mut a, _b) = two_clients(delegating()).await;
    let none = ShareDeny::NONE;
    let created = open("f", BOTH, none).create();
    assert_eq!(open_for(&mut a, created).await.1, OpenDelegation::None, "written once");
    let refused = want(READ, WantedDelegation::None);
    assert_eq!(
        open_for(&mut a, open("f", refused, none)).await.1,
        OpenDelegation::NoneExt(WhyNoDelegation::NotWanted)
    );
    let (_, read) = open_for(&mut a, open("f", READ, none)).await;
    assert!(matches!(read, OpenDelegation::Read(_)), "{read:?}");
    // One delegation of a file for each client.
    assert_eq!(open_for(&mut a, open("f", READ, none)).await.1, OpenDelegation::None);
    let wanted = want(BOTH, WantedDelegation::Write);
    let (_, write) = open_for(&mut a, open("new", wanted, none).create()).await;
    assert!(matches!(write, OpenDelegation::Write(_)), "{write:?}");
}

/// RFC 8881 18.16.3.
#[tokio::test]
async fn a_client_with_a_wish_learns_why_it_gets_no_delegation() {
    use WantedDelegation::{Any, Cancel, NoPreference, Read, Write};
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    delegated(&mut a, "read", READ).await;
    delegated(&mut a, "write", BOTH).await;
    b.create("shared").await;
    for (name, access, wanted, why) in [
        ("read", BOTH, Write, WhyNoDelegation::NotSuppUpgrade),
        ("read", BOTH, Any, WhyNoDelegation::NotSuppUpgrade),
        ("read", READ, Read, WhyNoDelegation::Resource(false)),
        ("write", READ, Read, WhyNoDelegation::NotSuppDowngrade),
        ("write", BOTH, Write, WhyNoDelegation::Resource(false)),
        // Another client has it open for writing.
        ("shared", READ, Read, WhyNoDelegation::Contention(false)),
        ("shared", BOTH, Any, WhyNoDelegation::Contention(false)),
        // The wish is not that of the access.
        ("shared", READ, Write, WhyNoDelegation::Resource(false)),
        ("shared", READ, Cancel, WhyNoDelegation::Cancelled),
    ] {
        let wish = open(name, want(access, wanted), ShareDeny::NONE);
        let (_, answer) = open_for(&mut a, wish).await;
        assert_eq!(answer, OpenDelegation::NoneExt(why), "{name} {wanted:?}");
        let no_wish = open(name, want(access, NoPreference), ShareDeny::NONE);
        assert_eq!(open_for(&mut a, no_wish).await.1, OpenDelegation::None, "{name}");
    }
    let times = BOTH | ShareAccess::WANT_DELEGATED_TIMES;
    let (_, answer) = open_for(&mut b, open("shared", times, ShareDeny::NONE)).await;
    assert_eq!(answer, OpenDelegation::None, "the wish for times is ignored");
}

#[tokio::test]
async fn a_gateway_without_delegations_grants_none() {
    let (_server, mut a, _b) = two_clients(config()).await;
    a.create("f").await;
    let wanted = want(READ, WantedDelegation::Any);
    let (_, delegation) = open_for(&mut a, open("f", wanted, ShareDeny::NONE)).await;
    assert_eq!(delegation, OpenDelegation::NoneExt(WhyNoDelegation::Resource(false)));
}

#[tokio::test]
async fn a_client_without_a_back_channel_gets_none() {
    let server = TestServer::with_config(delegating()).await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let flags = CreateSessionFlags::empty();
    let args = CreateSessionArgs { flags, ..create_args(client.client_id, 1) };
    let created = connection.create_session(args).await.unwrap();
    let session = crate::client::Session::new(client.client_id, created);
    let mut a = Mount { connection, session };
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    assert_eq!(a.status([complete]).await, NfsStatus::Ok);
    a.create("f").await;
    let opened = open_for(&mut a, open("f", READ, ShareDeny::NONE)).await;
    assert_eq!(opened.1, OpenDelegation::None);
}

#[tokio::test]
async fn changes_by_others_recall_a_read_delegation() {
    let (server, mut a, mut b) = two_clients(delegating()).await;
    let mode = Attributes { mode: Some(0o600), ..Attributes::default() };
    let mode = SetAttrArgs { state_id: StateId::ANONYMOUS, attributes: encoded(&mode) };
    let remove = |name: &str| ArgOp::Remove(RemoveArgs { name: name.to_owned().into() });
    let rename = |from: &str, to: &str| {
        let (old_name, new_name) = (from.to_owned().into(), to.to_owned().into());
        ArgOp::Rename(RenameArgs { old_name, new_name })
    };
    let root = || [ArgOp::PutRootFh, ArgOp::SaveFh];
    for name in ["open", "mode", "size", "remove", "rename"] {
        let (file, id) = delegated(&mut a, name, READ).await;
        let ops: Vec<ArgOp> = match name {
            "open" => vec![ArgOp::PutRootFh, open(name, BOTH, ShareDeny::NONE)],
            "mode" => file.op(ArgOp::SetAttr(mode.clone())).into(),
            "size" => file.op(set_size(StateId::ANONYMOUS, 5)).into(),
            "remove" => vec![ArgOp::PutRootFh, remove(name)],
            _ => root().into_iter().chain([rename(name, "other")]).collect(),
        };
        let status = recalls(&mut a, (&file, id), &mut b, ops).await;
        assert_eq!(status, NfsStatus::Ok, "{name}");
        assert_eq!(test_state_id(&mut a, id).await, NfsStatus::BadStateId);
    }
    assert_eq!(server.share.delegation_count(), 0);
}

#[tokio::test]
async fn a_change_through_another_gateway_recalls_a_delegation() {
    let (server, mut a, _) = two_clients(delegating()).await;
    let share = server.share.another_gateway();
    let there = TestServer::with_share(share, delegating()).await;
    let mut c = Mount::new(&there, "c").await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let ops = [ArgOp::PutRootFh, open("f", BOTH, ShareDeny::NONE)];
    assert_eq!(recalls(&mut a, (&file, id), &mut c, ops).await, NfsStatus::Ok);
}

#[tokio::test]
async fn a_look_by_others_recalls_a_write_delegation() {
    let (server, mut a, _b) = two_clients(delegating()).await;
    // CB_GETATTR is for clients of the holder's gateway only.
    let there = TestServer::with_share(server.share.another_gateway(), delegating()).await;
    let mut c = Mount::new(&there, "c").await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    // The client closes its open, and goes on with the delegation.
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(write(id, 0, b"12345"))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(read(id, 0, 5))).await, NfsStatus::Ok);
    let args = GetAttrArgs { attributes: Bitmap::of(&[attribute::SIZE]) };
    let status = recalls(&mut a, (&file, id), &mut c, file.op(ArgOp::GetAttr(args))).await;
    assert_eq!(status, NfsStatus::Ok);
    assert_eq!(c.attributes(&file.handle, &[attribute::SIZE]).await.size, Some(5));
    assert_eq!(a.status(file.op(write(id, 0, b"x"))).await, NfsStatus::BadStateId);
}

#[tokio::test]
async fn a_read_delegation_reads_after_close_and_writes_nothing() {
    let (_server, mut a, _b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    for _ in 0..2 {
        assert_eq!(a.status(file.op(read(id, 0, 5))).await, NfsStatus::Ok);
        assert_eq!(a.status(file.op(write(id, 0, b"x"))).await, NfsStatus::OpenMode);
        a.close(&file).await;
    }
}

#[tokio::test]
async fn delegated_files_are_opened_by_the_delegation() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    let other = a.create("other").await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let by_claim = |name: &str, claim| {
        let ArgOp::Open(args) = open(name, READ, ShareDeny::NONE).by("second") else {
            unreachable!("an OPEN")
        };
        ArgOp::Open(OpenArgs { claim, ..args })
    };
    let named = |name: &str, state_id| {
        OpenClaim::DelegateCurrent(DelegatedName { state_id, name: name.to_owned().into() })
    };
    // While a write of another client waits, the holder opens what it has opened locally.
    let ops = b.session.ops([ArgOp::PutRootFh, open("f", BOTH, ShareDeny::NONE)]);
    let call = b.connection.send(&ops).await;
    let callback = a.connection.callback().await;
    a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    let current = by_claim("f", named("f", id));
    assert_eq!(a.status([ArgOp::PutRootFh, current]).await, NfsStatus::Ok);
    let current = by_claim("f", OpenClaim::DelegateCurrentFh(id));
    assert_eq!(a.status(file.op(current.clone())).await, NfsStatus::Ok);
    assert_eq!(a.status(other.op(current)).await, NfsStatus::BadStateId);
    let wrong = by_claim("other", named("other", id));
    assert_eq!(a.status([ArgOp::PutRootFh, wrong]).await, NfsStatus::BadStateId);
    for claim in [OpenClaim::DelegatePrevious("f".into()), OpenClaim::DelegatePreviousFh] {
        let previous = by_claim("f", claim);
        assert_eq!(a.status([ArgOp::PutRootFh, previous]).await, NfsStatus::NotSupp);
    }
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    assert_eq!(b.connection.receive_compound(call).await.status, NfsStatus::Ok);
}

#[tokio::test]
async fn only_the_holder_returns_its_delegation_of_this_file() {
    let (server, mut a, mut b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let (other, own) = delegated(&mut b, "g", READ).await;
    assert_eq!(b.status(file.op(deleg_return(id))).await, NfsStatus::BadStateId);
    assert_eq!(b.status(file.op(deleg_return(own))).await, NfsStatus::BadStateId);
    assert_eq!(a.status(file.op(deleg_return(file.id))).await, NfsStatus::BadStateId);
    assert_eq!(server.share.delegation_count(), 2);
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::BadStateId);
    assert_eq!(b.status(other.op(deleg_return(own))).await, NfsStatus::Ok);
    assert_eq!(server.share.delegation_count(), 0);
}

/// RFC 8881 2.10.6.3: the client finds out whether the reply to its OPEN is in flight.
#[tokio::test]
async fn a_recall_names_the_open_until_its_reply_has_arrived() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    for received in [false, true] {
        let (file, id) = delegated(&mut a, &format!("f{received}"), READ).await;
        let last = a.session.again_on(0);
        if received {
            // The next request on the slot.
            assert_eq!(a.status([]).await, NfsStatus::Ok);
        }
        let name = format!("f{received}");
        let ops = b.session.ops([ArgOp::PutRootFh, open(&name, BOTH, ShareDeny::NONE)]);
        let call = b.connection.send(&ops).await;
        let callback = a.connection.callback().await;
        let open = ReferringCall { sequence_id: last.sequence_id, slot_id: last.slot_id };
        let open = ReferringCalls { session_id: a.session.id, calls: vec![open] };
        let expected = if received { vec![] } else { vec![open] };
        assert_eq!(callback.sequence.referring_calls, expected);
        a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
        assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
        assert_eq!(b.connection.receive_compound(call).await.status, NfsStatus::Ok);
    }
}

/// RFC 8881 20.2.4: the recall may reach the client before the reply to its OPEN.
#[tokio::test]
async fn a_recall_that_the_client_does_not_know_yet_is_repeated() {
    let (_server, mut a, mut b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let ops = b.session.ops([ArgOp::PutRootFh, open("f", BOTH, ShareDeny::NONE)]);
    let call = b.connection.send(&ops).await;
    for status in [NfsStatus::BadStateId, NfsStatus::BadHandle, NfsStatus::Delay] {
        let callback = a.connection.callback().await;
        assert_eq!(recalled(&callback).state_id, id);
        a.connection.answer(&callback, NfsStatus::Ok, &CallbackResOp::Recall(Err(status))).await;
    }
    let callback = a.connection.callback().await;
    a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(a.status(file.op(deleg_return(id))).await, NfsStatus::Ok);
    assert_eq!(b.connection.receive_compound(call).await.status, NfsStatus::Ok);
}

/// The holder does not return the delegation: it is revoked, and the holder learns it.
async fn is_revoked(a: &mut Mount, file: &OpenFile, id: StateId) {
    let revoked = SequenceStatus::RECALLABLE_STATE_REVOKED;
    assert!(status_flags(a).await.contains(revoked));
    assert_eq!(test_state_id(a, id).await, NfsStatus::DelegRevoked);
    for op in [read(id, 0, 1), deleg_return(id)] {
        assert_eq!(a.status(file.op(op)).await, NfsStatus::DelegRevoked);
    }
    let free = ArgOp::FreeStateId(FreeStateIdArgs { state_id: id });
    assert_eq!(a.status([free]).await, NfsStatus::Ok);
    assert!(!status_flags(a).await.contains(revoked));
    assert_eq!(test_state_id(a, id).await, NfsStatus::BadStateId);
}

#[tokio::test]
async fn a_client_that_does_not_return_a_delegation_loses_it() {
    let (server, mut a, mut b) = two_clients(impatient()).await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let ops = b.session.ops([ArgOp::PutRootFh, open("f", BOTH, ShareDeny::NONE)]);
    let call = b.connection.send(&ops).await;
    let callback = a.connection.callback().await;
    a.connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    // The holder goes on with its lease.
    assert_eq!(status_flags(&mut a).await, SequenceStatus::empty());
    assert_eq!(b.connection.receive_compound(call).await.status, NfsStatus::Ok);
    is_revoked(&mut a, &file, id).await;
    assert_eq!(server.share.delegation_count(), 0);
}

#[tokio::test]
async fn a_client_that_lost_its_back_channel_loses_a_recalled_delegation() {
    let (server, mut a, mut b) = two_clients(impatient()).await;
    let (file, id) = delegated(&mut a, "f", BOTH).await;
    // Between grant and recall.
    a.connection = server.connect().await;
    a.connection.minor_version = 2;
    let ops = [ArgOp::PutRootFh, open("f", READ, ShareDeny::NONE)];
    assert_eq!(b.status(ops).await, NfsStatus::Ok);
    is_revoked(&mut a, &file, id).await;
    assert_eq!(server.share.delegation_count(), 0);
}

#[tokio::test]
async fn delegations_that_the_gateway_lost_are_revoked() {
    let (server, mut a, _b) = two_clients(delegating()).await;
    let (file, id) = delegated(&mut a, "f", READ).await;
    let records = server.client_records();
    for (session, _) in &records {
        server.share.lose_delegations(*session);
    }
    while !status_flags(&mut a).await.contains(SequenceStatus::RECALLABLE_STATE_REVOKED) {
        tokio::task::yield_now().await;
    }
    is_revoked(&mut a, &file, id).await;
}

#[tokio::test]
async fn an_end_of_the_client_frees_its_delegations() {
    let (server, mut a, mut b) = two_clients(delegating()).await;
    delegated(&mut a, "f", READ).await;
    // A new instance of the same client.
    let mut again = server.connect().await;
    let client = again.exchange_id(exchange_args("a", 2)).await.unwrap();
    again.create_session(create_args(client.client_id, client.sequence_id.0)).await.unwrap();
    assert_eq!(server.share.delegation_count(), 0);
    let ops = [ArgOp::PutRootFh, open("f", BOTH, ShareDeny::NONE)];
    assert_eq!(b.status(ops).await, NfsStatus::Ok);
}
