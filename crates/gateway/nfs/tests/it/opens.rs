//! OPEN, OPEN_DOWNGRADE, CLOSE, and the rules of state ids.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::last;
use crate::mount::*;
use crate::server::TestServer;

fn downgrade(state_id: StateId, share_access: ShareAccess, share_deny: ShareDeny) -> ArgOp {
    ArgOp::OpenDowngrade(OpenDowngradeArgs { state_id, seqid: 0, share_access, share_deny })
}

async fn start() -> (TestServer, Mount) {
    let server = TestServer::start().await;
    let mount = Mount::new(&server, "a").await;
    (server, mount)
}

#[tokio::test]
async fn second_open_of_an_owner_is_an_upgrade() {
    let (server, mut a) = start().await;
    a.create("f").await;
    let before = server.share.open_count();
    let access = |access| open("f", access, ShareDeny::NONE).by("other");
    let first = a.open(access(ShareAccess::READ)).await.unwrap();
    assert_eq!(first.id.seqid, 1);
    assert_eq!(a.status(first.op(write(first.id, 0, b"x"))).await, NfsStatus::OpenMode);
    let second = a.open(access(ShareAccess::WRITE)).await.unwrap();
    assert_eq!(second.id, StateId { seqid: 2, ..first.id });
    assert_eq!(server.share.open_count(), before + 1);
    for (seqid, expected) in [
        (2, NfsStatus::Ok),
        (0, NfsStatus::Ok), // RFC 8881 8.2.2: the newest
        (1, NfsStatus::OldStateId),
        (3, NfsStatus::BadStateId),
    ] {
        let id = StateId { seqid, ..first.id };
        assert_eq!(a.status(first.op(write(id, 0, b"x"))).await, expected, "{seqid}");
        assert_eq!(a.status(first.op(read(id, 0, 1))).await, expected, "{seqid}");
    }
}

#[tokio::test]
async fn downgrade_returns_to_what_was_opened() {
    let (_server, mut a) = start().await;
    a.create("f").await;
    let access = |access| open("f", access, ShareDeny::NONE).by("other");
    a.open(access(ShareAccess::READ)).await.unwrap();
    let file = a.open(access(ShareAccess::BOTH)).await.unwrap();
    // RFC 8881 18.18.3: only a union of opens.
    for (access, deny) in [
        (ShareAccess::WRITE, ShareDeny::NONE),
        (ShareAccess::BOTH, ShareDeny::READ),
        (ShareAccess(0), ShareDeny::NONE),
    ] {
        let refused = a.status(file.op(downgrade(file.id, access, deny))).await;
        assert_eq!(refused, NfsStatus::Inval, "{access:?} {deny:?}");
    }
    let op = downgrade(file.id, ShareAccess::READ, ShareDeny::NONE);
    let id = last!(OpenDowngrade, a.run(file.op(op)).await).state_id;
    assert_eq!(id, StateId { seqid: 3, ..file.id });
    assert_eq!(a.status(file.op(read(id, 0, 1))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(write(id, 0, b"x"))).await, NfsStatus::OpenMode);
    let again = downgrade(id, ShareAccess::BOTH, ShareDeny::NONE);
    assert_eq!(a.status(file.op(again)).await, NfsStatus::Inval);
    let old = downgrade(file.id, ShareAccess::READ, ShareDeny::NONE);
    assert_eq!(a.status(file.op(old)).await, NfsStatus::OldStateId);
}

#[tokio::test]
async fn closed_open_has_no_state_id() {
    let (server, mut a) = start().await;
    let before = server.share.open_count();
    let file = a.create("f").await;
    let closed = last!(Close, a.run(file.op(close(file.id))).await);
    assert_eq!(closed.state_id, StateId::INVALID);
    assert_eq!(server.share.open_count(), before);
    for op in [close(file.id), read(file.id, 0, 1), set_size(file.id, 0)] {
        assert_eq!(a.status(file.op(op)).await, NfsStatus::BadStateId);
    }
    let again = a.create("f").await;
    assert_ne!(again.id.other, file.id.other);
    assert_eq!(again.id.seqid, 1);
}

#[tokio::test]
async fn state_ids_belong_to_their_client_and_file() {
    let (server, mut a) = start().await;
    let mut b = Mount::new(&server, "b").await;
    let (file, other) = (a.create("f").await, a.create("g").await);
    let all: [fn(StateId) -> ArgOp; 4] =
        [close, |id| read(id, 0, 1), |id| write(id, 0, b"x"), |id| set_size(id, 1)];
    for op in all {
        assert_eq!(b.status(file.op(op(file.id))).await, NfsStatus::BadStateId);
        assert_eq!(a.status(file.op(op(other.id))).await, NfsStatus::BadStateId);
        assert_eq!(a.status(file.op(op(StateId::INVALID))).await, NfsStatus::BadStateId);
        // RFC 8881 16.2.3.1.2: PUTFH leaves no current state id.
        assert_eq!(a.status(file.op(op(StateId::CURRENT))).await, NfsStatus::BadStateId);
    }
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn current_state_id_is_that_of_the_open() {
    let (_server, mut a) = start().await;
    let file = open("f", ShareAccess::BOTH, ShareDeny::NONE).create();
    let id = StateId::CURRENT;
    let ops = [ArgOp::PutRootFh, file, write(id, 0, b"abc"), read(id, 0, 3), close(id)];
    assert_eq!(a.status(ops).await, NfsStatus::Ok);
}

#[tokio::test]
async fn denial_holds_against_other_owners_and_clients() {
    let (server, mut a) = start().await;
    let mut b = Mount::new(&server, "b").await;
    let denied = open("f", ShareAccess::WRITE, ShareDeny::READ).create();
    let file = a.open(denied).await.unwrap();
    let none = ShareDeny::NONE;
    let mine = open("f", ShareAccess::READ, none).by("other");
    assert_eq!(a.open(mine.clone()).await, Err(NfsStatus::ShareDenied));
    for (access, deny, expected) in [
        (ShareAccess::READ, none, Some(NfsStatus::ShareDenied)),
        (ShareAccess::BOTH, none, Some(NfsStatus::ShareDenied)),
        (ShareAccess::WRITE, ShareDeny::WRITE, Some(NfsStatus::ShareDenied)),
        (ShareAccess::WRITE, none, None),
    ] {
        assert_eq!(b.open(open("f", access, deny)).await.err(), expected, "{access:?} {deny:?}");
    }
    // RFC 8881 9.1.2.
    let read_it = file.op(read(StateId::ANONYMOUS, 0, 1));
    assert_eq!(b.status(read_it.clone()).await, NfsStatus::Locked);
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
    assert_eq!(b.status(read_it).await, NfsStatus::Ok);
    a.open(mine).await.unwrap();
}

#[tokio::test]
async fn retry_of_an_exclusive_creation_succeeds() {
    let (_server, mut a) = start().await;
    let exclusive = |name: &str, verifier: u8| {
        let how = OpenHow::Create(CreateHow::Exclusive(Verifier([verifier; 8])));
        open(name, ShareAccess::BOTH, ShareDeny::NONE).how(how)
    };
    let exclusive41 = |name: &str, verifier: u8| {
        let mode = Attributes { mode: Some(0o640), ..Attributes::default() };
        let both =
            ExclusiveCreate { verifier: Verifier([verifier; 8]), attributes: encoded(&mode) };
        let how = OpenHow::Create(CreateHow::Exclusive41(both));
        open(name, ShareAccess::BOTH, ShareDeny::NONE).how(how)
    };
    type Creation<'a> = (&'a str, &'a dyn Fn(&str, u8) -> ArgOp);
    let kinds: [Creation<'_>; 2] = [("f", &exclusive), ("g", &exclusive41)];
    for (name, kind) in kinds {
        let created = a.open(kind(name, 0xa5)).await.unwrap();
        let retried = a.open(kind(name, 0xa5)).await.unwrap();
        assert_eq!(retried.handle, created.handle);
        assert_eq!(a.open(kind(name, 1)).await, Err(NfsStatus::Exist));
        assert_eq!(a.status(created.op(write(retried.id, 0, b"abc"))).await, NfsStatus::Ok);
        assert_eq!(a.open(kind(name, 0xa5)).await, Err(NfsStatus::Exist), "it was written");
    }
    let set = last!(Open, a.run([ArgOp::PutRootFh, exclusive41("h", 3)]).await).attributes_set;
    let expected = [attribute::MODE, attribute::TIME_ACCESS, attribute::TIME_MODIFY];
    assert_eq!(set, Bitmap::of(&expected));
}

#[tokio::test]
async fn creation_of_a_name_that_exists() {
    let (_server, mut a) = start().await;
    let file = a.create("f").await;
    assert_eq!(a.status(file.op(write(file.id, 0, b"abc"))).await, NfsStatus::Ok);
    let none = encoded(&Attributes::default());
    let size = |size| encoded(&Attributes { size: Some(size), ..Attributes::default() });
    let how = |how| open("f", ShareAccess::BOTH, ShareDeny::NONE).how(OpenHow::Create(how));
    let guarded = a.open(how(CreateHow::Guarded(none))).await;
    assert_eq!(guarded, Err(NfsStatus::Exist));
    // RFC 8881 18.16.3: only the size 0 has a meaning.
    for (size, expected) in [(size(9), 3), (size(0), 0)] {
        a.open(how(CreateHow::Unchecked(size))).await.unwrap();
        let known = a.attributes(&file.handle, &[attribute::SIZE]).await;
        assert_eq!(known.size, Some(expected));
    }
}

#[tokio::test]
async fn what_is_no_file_cannot_be_opened() {
    let (_server, mut a) = start().await;
    a.make_directory("d").await;
    let link = a.make_symlink("s").await;
    let fifo = create(CreateObject::Other(NfsFtype::Fifo), "p");
    assert_eq!(a.status([ArgOp::PutRootFh, fifo]).await, NfsStatus::Ok);
    for (name, expected) in [
        ("d", NfsStatus::IsDir),
        ("s", NfsStatus::SymLink),
        ("p", NfsStatus::WrongType),
        ("missing", NfsStatus::NoEnt),
        ("", NfsStatus::Inval),
        ("a/b", NfsStatus::BadChar),
        ("..", NfsStatus::BadName),
    ] {
        let refused = a.open(open(name, ShareAccess::READ, ShareDeny::NONE)).await;
        assert_eq!(refused, Err(expected), "{name:?}");
    }
    let mut claim = open("", ShareAccess::READ, ShareDeny::NONE);
    if let ArgOp::Open(args) = &mut claim {
        args.claim = OpenClaim::Fh;
    }
    assert_eq!(a.status(at(&link, claim.clone())).await, NfsStatus::SymLink);
    assert_eq!(a.status([ArgOp::PutRootFh, claim]).await, NfsStatus::IsDir);
}

#[tokio::test]
async fn malformed_opens_are_invalid() {
    let (_server, mut a) = start().await;
    let file = a.create("f").await;
    for (access, deny) in [(0, 0), (4, 0), (1, 4), (0x601, 0), (0x100_0001, 0)] {
        let refused = a.open(open("f", ShareAccess(access), ShareDeny(deny))).await;
        assert_eq!(refused, Err(NfsStatus::Inval), "{access:#x} {deny}");
    }
    for (claim, expected) in [
        (OpenClaim::Previous(DelegationType::None), NfsStatus::NoGrace),
        (OpenClaim::DelegateCurrentFh(file.id), NfsStatus::BadStateId),
        (OpenClaim::DelegatePreviousFh, NfsStatus::NotSupp),
        (OpenClaim::Fh, NfsStatus::Ok),
    ] {
        let mut op = open("f", ShareAccess::READ, ShareDeny::NONE);
        if let ArgOp::Open(args) = &mut op {
            args.claim = claim.clone();
        }
        assert_eq!(a.status(file.op(op)).await, expected, "{claim:?}");
    }
}

#[tokio::test]
async fn state_ids_are_tested_and_freed() {
    let (_server, mut a) = start().await;
    let file = a.create("f").await;
    let op = lock(file.id, "l", LockType::Write, 0, 10);
    let locked = last!(Lock, a.run(file.op(op)).await).state_id;
    let unknown = StateId { seqid: 1, other: [9; 12] };
    let newer = StateId { seqid: 7, ..file.id };
    let state_ids = vec![file.id, locked, unknown, newer, StateId::ANONYMOUS];
    let test = ArgOp::TestStateId(TestStateIdArgs { state_ids });
    let statuses = last!(TestStateId, a.run([test]).await).statuses;
    let bad = NfsStatus::BadStateId;
    assert_eq!(statuses, [NfsStatus::Ok, NfsStatus::Ok, bad, bad, bad]);
    let free = |state_id| ArgOp::FreeStateId(FreeStateIdArgs { state_id });
    assert_eq!(a.status([free(locked)]).await, NfsStatus::LocksHeld);
    assert_eq!(a.status([free(file.id)]).await, NfsStatus::LocksHeld);
    assert_eq!(a.status([free(unknown)]).await, NfsStatus::BadStateId);
    let unlocked = last!(LockUnlock, a.run(file.op(unlock(locked, 0, 10))).await).state_id;
    assert_eq!(a.status([free(locked)]).await, NfsStatus::OldStateId);
    assert_eq!(a.status([free(unlocked)]).await, NfsStatus::Ok);
    assert_eq!(a.status([free(unlocked)]).await, NfsStatus::BadStateId);
}
