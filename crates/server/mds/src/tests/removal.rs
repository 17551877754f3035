//! I/O daemons that are lost for good: their removal, what waited for them, and files that had
//! parts there.

use braid_types::{ByteCount, FileIndex, IodId, ShardId, Status, limits::HEARTBEAT_DOWN_MS};
use braid_wire::{
    Credential, Deny, Rights, Role,
    message::{
        lease::LeaseMode,
        mds::{FsckAffected, IodRemove, Open, OpenReply, Rename, RenameMode, SetIodState, Unlink},
        types::IodState,
    },
};

use super::world::{Client, World, at, register};
use crate::size::RECORD_SIZE_MS;

const LOST: IodId = IodId(2);

fn remove(world: &mut World, lost: bool) -> Result<(), braid_types::Failure> {
    world.admin().call(IodRemove { iod: LOST, lost })
}

/// The daemon dies for good, and is marked as down.
fn lose(world: &World) {
    world.iods.state().dead.insert(LOST);
    world.pass_with(HEARTBEAT_DOWN_MS + 500, |id| id != LOST.0);
}

/// Time passes without it.
fn pass(world: &World, ms: u64) {
    world.pass_with(ms, |id| id != LOST.0);
}

fn open(client: &Client, path: &str, rights: Rights) -> Result<OpenReply, braid_types::Failure> {
    client.call(Open {
        at: at(path),
        rights,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    })
}

/// A closed file whose first 4 KiB are on the daemon `on`.
fn small_file(world: &World, client: &Client, on: impl Fn(IodId) -> bool) -> String {
    loop {
        let path = format!("small{}", world.clock.next());
        let opened = client.create(&path);
        if on(opened.layout.components[0].parts[0].iods[0]) {
            world.write(&opened, 4096).unwrap();
            client.close(&opened);
            return path;
        }
        client.close(&opened);
        client.call(Unlink { at: at(&path) }).unwrap();
    }
}

fn whole_file(world: &World, client: &Client, path: &str) {
    let opened = client.create(path);
    world.write(&opened, 40_000).unwrap();
    client.close(&opened);
}

fn deletes(world: &World) -> usize {
    world.iods.state().log.iter().filter(|(_, name)| *name == "Delete").count()
}

#[test]
fn a_deletion_troubles_no_healthy_daemon_and_waits_for_no_removed_one() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    client.call(Unlink { at: at("f") }).unwrap();
    pass(&world, 1000);
    assert_eq!(
        (world.status().deletions_pending, deletes(&world)),
        (1, 2),
        "the two others have deleted theirs"
    );
    pass(&world, 30_000);
    assert_eq!(
        (world.status().deletions_pending, deletes(&world)),
        (1, 2),
        "and are not asked again and again"
    );
    remove(&mut world, true).unwrap();
    pass(&world, RECORD_SIZE_MS + 1500);
    assert_eq!(world.status().deletions_pending, 0);
}

#[test]
fn a_daemon_that_comes_back_deletes_what_waited_for_it() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    client.call(Unlink { at: at("f") }).unwrap();
    pass(&world, 10_000);
    world.iods.state().dead.clear();
    world.pass(RECORD_SIZE_MS + 1500);
    assert_eq!(world.status().deletions_pending, 0);
    assert!(world.iods.state().objects.is_empty());
}

#[test]
fn a_truncate_that_waited_for_a_removed_daemon_ends() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    assert_eq!(client.truncate("f", 100).unwrap_err().status, Status::TryAgain);
    remove(&mut world, true).unwrap();
    pass(&world, 1500);
    assert_eq!(world.status().intents_pending, 0);
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(100));
    assert_eq!(client.truncate("f", 10).unwrap().bytes, ByteCount(10));
    client.call(Unlink { at: at("f") }).unwrap();
}

#[test]
fn a_daemon_that_is_up_or_has_parts_is_not_removed_unless_it_is_given_up() {
    let mut world = World::new(3);
    let client = world.client();
    let up = remove(&mut world, false).unwrap_err();
    assert!(
        up.status == Status::Busy && up.detail.contains("I/O daemon 2 at 127.0.0.1:7002 is up"),
        "{up}"
    );
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    let used = remove(&mut world, false).unwrap_err();
    assert!(used.status == Status::Busy && used.detail.contains("has a part of /f"), "{used}");
    client.call(Unlink { at: at("f") }).unwrap();
    remove(&mut world, false).unwrap();
    remove(&mut world, false).unwrap();
    assert_eq!(world.status().map.iods[1].state, IodState::Removed);
}

#[test]
fn a_removed_daemon_stays_out_over_a_loss_of_power_and_is_refused() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    remove(&mut world, true).unwrap();
    world.power_loss_without(LOST.0);
    assert_eq!(world.status().map.iods[1].state, IodState::Removed);
    let daemon = world.connect(Role::Iod, Credential::Server);
    let refused = daemon.call(register(LOST.0, LOST.0 as u8)).unwrap_err();
    assert!(
        refused.status == Status::NotPermitted
            && refused.detail.contains("was removed from the cluster")
    );
    let up = SetIodState { iod: LOST, state: IodState::Up };
    assert_eq!(world.admin().call(up).unwrap_err().status, Status::Invalid);
}

#[test]
fn a_file_that_lost_a_part_is_read_named_and_removed_and_not_written() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "f");
    world.settle();
    lose(&world);
    remove(&mut world, true).unwrap();
    let asked = world.iods.state().log.len();
    assert_eq!(client.stat("f").unwrap().bytes, ByteCount(40_000));
    let opened = open(&client, "f", Rights::READ).unwrap();
    client.close(&opened);
    let refused = open(&client, "f", Rights::READ_WRITE).unwrap_err();
    assert_eq!(
        (refused.status, refused.blamed()),
        (Status::ObjectLost, Some("I/O daemon 2 at 127.0.0.1:7002"))
    );
    assert!(refused.to_string().contains("object "), "{refused}");
    client.call(Rename { from: at("f"), to: at("g"), mode: RenameMode::Replace }).unwrap();
    assert_eq!(world.iods.state().log.len(), asked, "nobody was asked for any of it");
    client.call(Unlink { at: at("g") }).unwrap();
}

#[test]
fn a_file_whose_size_was_lost_with_its_daemon_is_shown_and_not_opened() {
    let mut world = World::new(3);
    let client = world.client();
    let opened = client.create("f");
    world.write(&opened, 40_000).unwrap();
    lose(&world);
    assert_eq!(client.stat("f").unwrap_err().status, Status::TryAgain, "it may come back");
    remove(&mut world, true).unwrap();
    // Of 40,000 bytes in stripes of 4 KiB the end may lie on any of the three.
    let seen = client.stat("f").unwrap().bytes.0;
    assert!(seen > 30_000 && seen <= 40_000, "{seen}");
    assert_eq!(open(&client, "f", Rights::READ).unwrap_err().status, Status::ObjectLost);
    client.close(&opened);
    pass(&world, RECORD_SIZE_MS + 1500);
    assert_eq!(
        open(&client, "f", Rights::READ).unwrap_err().status,
        Status::ObjectLost,
        "for good"
    );
    client.call(Unlink { at: at("f") }).unwrap();
}

#[test]
fn files_that_had_nothing_on_a_removed_daemon_lose_nothing() {
    let mut world = World::new(3);
    let client = world.client();
    let before = small_file(&world, &client, |iod| iod != LOST);
    world.settle();
    // Closed, and not flushed yet: the server has the answers of its daemons.
    let fresh = small_file(&world, &client, |iod| iod != LOST);
    world.pass(500);
    lose(&world);
    remove(&mut world, true).unwrap();
    for path in [&before, &fresh] {
        assert_eq!(client.stat(path).unwrap().bytes, ByteCount(4096), "{path}");
        let opened = open(&client, path, Rights::READ_WRITE).unwrap();
        client.close(&opened);
    }
    pass(&world, RECORD_SIZE_MS + 1500);
    assert_eq!(world.status().sizes_in_objects, 0, "all sizes are on record");
}

#[test]
fn those_are_named_of_which_a_daemon_has_a_part_or_may_have_one() {
    let mut world = World::new(3);
    let client = world.client();
    whole_file(&world, &client, "whole");
    let _elsewhere = small_file(&world, &client, |iod| iod != LOST);
    world.settle();
    let written = client.create("written");
    world.write(&written, 10).unwrap();
    let admin = world.admin();
    let mut named = Vec::new();
    for shard in (0..8).map(ShardId) {
        let mut after = Some(FileIndex(0));
        while let Some(from) = after {
            let reply = admin.call(FsckAffected { iod: LOST, shard, after: from }).unwrap();
            named.extend(reply.files.into_iter().map(|file| String::from_utf8(file.path).unwrap()));
            after = reply.next;
        }
    }
    named.sort();
    assert_eq!(named, ["/whole", "/written"]);
    let user = client
        .call(FsckAffected { iod: LOST, shard: ShardId(0), after: FileIndex(0) })
        .unwrap_err();
    assert_eq!(user.status, Status::WrongRole);
}
