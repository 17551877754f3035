//! Quota: grants with an open, after a client dies, after a restart, and what other users see.

use braid_types::{ByteCount, Failure, FileIndex, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        lease::LeaseMode,
        mds::{
            AttributeChanges, CloseSession, Envelope, ExtendGrowthGrant, FsckUsage, MakeDirectory,
            Open, OpenReply, QuotaGet, QuotaList, QuotaRemove, QuotaSet, QuotaWalk, QuotaWalked,
            RenewCapability, SetAttributes, StatFs,
        },
        quota::{QuotaBound, QuotaKind, QuotaLimits, QuotaOwner, QuotaReport},
    },
};

use super::world::{Client, World, at, create};

const MIB: u64 = 1 << 20;
const ALICE: u64 = 7;

fn user(id: u64) -> QuotaOwner {
    QuotaOwner { kind: QuotaKind::User, id }
}

fn hard(bytes: Option<u64>, inodes: Option<u64>) -> QuotaLimits {
    let bound = |hard| QuotaBound { hard, soft: None };
    QuotaLimits { bytes: bound(bytes), inodes: bound(inodes), grace_seconds: 60 }
}

fn limit(world: &mut World, owner: QuotaOwner, limits: QuotaLimits) -> QuotaReport {
    world.admin().call(QuotaSet { owner, limits }).unwrap()
}

fn used(world: &mut World, owner: QuotaOwner) -> u64 {
    let report = world.admin().call(QuotaGet { owner }).unwrap();
    report.bytes + report.bytes_in_flight
}

/// A new file of Alice's, opened for writing.
fn alices(client: &Client, path: &str) -> OpenReply {
    let uid = Some(ALICE);
    client.close(&client.create(path));
    let changes = AttributeChanges { uid, ..AttributeChanges::none() };
    client.call(SetAttributes { at: at(path), follow: true, changes }).unwrap();
    open(client, path)
}

fn open(client: &Client, path: &str) -> OpenReply {
    let (rights, truncate, lease) = (Rights::READ_WRITE, false, LeaseMode::None);
    client.call(Open { at: at(path), rights, truncate, lease, deny: Deny::NONE }).unwrap()
}

fn extend(client: &Client, opened: &OpenReply, end: u64) -> Result<Option<u64>, Failure> {
    client.call(ExtendGrowthGrant { open_id: opened.open_id, file: opened.attributes.file, end })
}

#[test]
fn an_open_has_a_write_end_only_for_an_owner_with_a_quota() {
    let mut world = World::new(2);
    let client = world.client();
    assert_eq!(client.create("/free").growth_grant, None);
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let opened = alices(&client, "/f");
    assert!(opened.growth_grant.is_some_and(|end| end > 0 && end < MIB));
    assert!(extend(&client, &opened, 2 * MIB).unwrap() >= Some(2 * MIB));
    assert_eq!(extend(&client, &opened, 11 * MIB).unwrap_err().status, Status::QuotaExceeded);
    assert_eq!(client.create("/also-free").growth_grant, None);
    assert!(world.admin().call(QuotaRemove { owner: user(ALICE) }).unwrap());
    assert_eq!(extend(&client, &opened, 11 * MIB).unwrap(), None);
}

#[test]
fn unused_quota_is_returned_at_close_and_written_bytes_always_count() {
    let mut world = World::new(2);
    let client = world.client();
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let opened = alices(&client, "/f");
    extend(&client, &opened, 8 * MIB).unwrap();
    world.write(&opened, 5 * MIB).unwrap();
    assert_eq!(used(&mut world, user(ALICE)), 8 * MIB);
    client.close(&opened);
    world.pass(250);
    assert_eq!(used(&mut world, user(ALICE)), 5 * MIB, "collected");
    world.settle();
    let report = world.admin().call(QuotaGet { owner: user(ALICE) }).unwrap();
    assert_eq!((report.bytes, report.bytes_in_flight), (5 * MIB, 0), "on record");
}

#[test]
fn a_client_that_dies_gives_back_what_it_had_when_its_session_ends() {
    let mut world = World::new(2);
    let (client, other) = (world.client(), world.client());
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let (opened, second) = (alices(&client, "/f"), alices(&other, "/g"));
    extend(&client, &opened, 10 * MIB).unwrap();
    world.write(&opened, MIB).unwrap();
    assert_eq!(extend(&other, &second, 9 * MIB).unwrap_err().status, Status::QuotaExceeded);
    client.call(CloseSession {}).unwrap();
    world.pass(500);
    assert!(extend(&other, &second, 9 * MIB).unwrap() >= Some(9 * MIB));
}

#[test]
fn after_a_restart_a_writer_gets_a_write_end_and_its_bytes_count() {
    let mut world = World::new(2);
    let client = world.client();
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let opened = alices(&client, "/f");
    extend(&client, &opened, 9 * MIB).unwrap();
    world.write(&opened, 9 * MIB).unwrap();
    world.restart();
    let client = client.reclaim_with(&mut world, &[&opened]).unwrap();
    let (open_id, file) = (opened.open_id, opened.attributes.file);
    let fresh = client.call(RenewCapability { open_id, file, rights: Rights::READ_WRITE }).unwrap();
    assert!(
        fresh.growth_grant.is_some_and(|end| (9 * MIB..=10 * MIB).contains(&end)),
        "{:?}",
        fresh.growth_grant
    );
    assert_eq!(used(&mut world, user(ALICE)), 9 * MIB);
    assert_eq!(extend(&client, &fresh, 10 * MIB + 1).unwrap_err().status, Status::QuotaExceeded);
}

#[test]
fn a_truncate_beyond_the_limit_is_refused_and_one_within_is_counted() {
    let mut world = World::new(2);
    let client = world.client();
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let opened = alices(&client, "/f");
    assert_eq!(client.truncate("/f", 10 * MIB + 1).unwrap_err().status, Status::QuotaExceeded);
    client.truncate("/f", 10 * MIB).unwrap();
    assert_eq!(used(&mut world, user(ALICE)), 10 * MIB);
    client.truncate("/f", 0).unwrap();
    client.close(&opened);
    world.settle();
    assert_eq!(used(&mut world, user(ALICE)), 0);
}

#[test]
fn a_directory_with_a_quota_shows_its_space_and_refuses_an_inode_too_many() {
    let mut world = World::new(2);
    let client = world.client();
    let dir =
        client.call(MakeDirectory { at: at("/d"), mode: 0o755, umask: 0 }).unwrap().attributes.file;
    client.create("/d/before");
    let owner = QuotaOwner { kind: QuotaKind::Directory, id: dir.0 };
    assert!(!limit(&mut world, owner.clone(), hard(Some(10 * MIB), Some(3))).complete);
    let walked = world.admin().call(QuotaWalk { dir, cookie: 0 }).unwrap();
    assert_eq!((walked.moved, walked.next, walked.directories), (1, None, vec![]));
    world.admin().call(QuotaWalked { dir }).unwrap();
    let opened = client.create("/d/f");
    assert_eq!(client.call(create("/d/g")).unwrap_err().status, Status::QuotaExceeded);
    extend(&client, &opened, 4 * MIB).unwrap();
    let space = client.call(StatFs { file: opened.attributes.file }).unwrap();
    assert_eq!((space.total, space.available), (ByteCount(10 * MIB), ByteCount(6 * MIB)));
    assert_eq!((space.files, space.files_max), (3, Some(3)));
    let space = client.call(StatFs { file: FileIndex::ROOT }).unwrap();
    assert!(space.total > ByteCount(10 * MIB) && space.files_max.is_none());
    let listed = world.admin().call(QuotaList { after: None }).unwrap();
    let report = listed.iter().find(|report| report.owner == owner).unwrap();
    assert_eq!((report.path.as_slice(), report.inodes, report.complete), (&b"/d"[..], 3, true));
}

#[test]
fn everybody_sees_their_own_and_only_an_administrator_sets() {
    let mut world = World::new(2);
    limit(&mut world, user(ALICE), hard(Some(1), None));
    let mut client = world.client();
    let alice = Envelope { identity: client.define(ALICE), ..Envelope::PLAIN };
    let bob = Envelope { identity: client.define(8), ..Envelope::PLAIN };
    assert!(
        client.call_as(alice.clone(), QuotaGet { owner: user(ALICE) }).unwrap().limits.is_some()
    );
    let refused = client.call_as(bob, QuotaGet { owner: user(ALICE) }).unwrap_err();
    assert_eq!(refused.status, Status::PermissionDenied);
    let set = QuotaSet { owner: user(ALICE), limits: hard(None, None) };
    client.session = braid_types::SessionId(0);
    assert_eq!(client.call_as(alice, set).unwrap_err().status, Status::WrongRole);
}

#[test]
fn fsck_counts_usage_anew_and_finds_nothing_after_work_like_any() {
    let mut world = World::new(2);
    let client = world.client();
    limit(&mut world, user(ALICE), hard(Some(10 * MIB), None));
    let opened = alices(&client, "/f");
    world.write(&opened, 4096).unwrap();
    client.close(&opened);
    world.settle();
    world.restart();
    for shard in 0..8 {
        let shard = braid_types::ShardId(shard);
        assert_eq!(world.admin().call(FsckUsage { shard, mend: false }).unwrap(), []);
    }
    assert_eq!(used(&mut world, user(ALICE)), 4096);
}
