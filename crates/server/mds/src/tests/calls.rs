//! Every call once, for what the other tests do not cover.

use braid_types::{FileIndex, ObjectGeneration, ObjectId, PartIndex, ShardId, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        CommonRequest, FileKind,
        lease::LeaseMode,
        mds::*,
        types::{DistributionHint, LayoutHint, PathRef},
    },
};

use super::world::{World, at, create};

#[test]
fn names_links_and_attributes() {
    let mut world = World::new(2);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    client.create("d/f");
    client.call(MakeSymlink { at: at("d/ln"), target: b"f".to_vec() }).unwrap();
    assert_eq!(client.call(ReadLink { at: at("d/ln") }).unwrap(), b"f");
    assert_eq!(client.stat("/d/ln").unwrap().kind, FileKind::File);
    let link = client.call(Stat { at: at("d/ln"), follow: false }).unwrap();
    assert_eq!(link.kind, FileKind::Symlink);
    client.call(Access { at: at("d/f"), mask: 6 }).unwrap();
    assert_eq!(
        client.call(Access { at: at("d/f"), mask: 1 }).unwrap_err().status,
        Status::PermissionDenied
    );
    client
        .call(SetXattr {
            at: at("d/f"),
            name: b"user.k".to_vec(),
            value: b"v".to_vec(),
            mode: XattrMode::Either,
            drop_setgid: false,
        })
        .unwrap();
    assert_eq!(client.call(GetXattr { at: at("d/f"), name: b"user.k".to_vec() }).unwrap(), b"v");
    assert_eq!(client.call(ListXattrs { at: at("d/f") }).unwrap(), [b"user.k".to_vec()]);
    client.call(RemoveXattr { at: at("d/f"), name: b"user.k".to_vec() }).unwrap();
    assert_eq!(client.call(RemoveDirectory { at: at("d") }).unwrap_err().status, Status::NotEmpty);
    client.call(Rename { from: at("d/f"), to: at("g"), mode: RenameMode::NoReplace }).unwrap();
    client.call(FsyncDirectory { dir: FileIndex::ROOT }).unwrap();
    assert_eq!(world.store.unsynced(), 0);
}

#[test]
fn a_listing_resumes_by_cookie_and_meets_every_name_once() {
    let mut world = World::new(1);
    let client = world.client();
    let names: Vec<String> = (0..100).map(|n| format!("file-{n:03}")).collect();
    names.iter().for_each(|name| drop(client.create(name)));
    let (mut cookie, mut met) = (0, Vec::new());
    loop {
        let call =
            ReadDirectory { dir: FileIndex::ROOT, cookie, bytes_max: 500, with_attributes: false };
        let page = client.call(call).unwrap();
        met.extend(page.entries.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()));
        cookie = page.entries.last().map_or(cookie, |last| last.cookie);
        if page.end {
            break;
        }
    }
    assert_eq!(met, names);
}

#[test]
fn layouts_follow_the_directory_and_can_be_set_while_nothing_was_written() {
    let mut world = World::new(4);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    let wish = LayoutHint { distribution: Some(DistributionHint::Single), ..LayoutHint::none() };
    client.call(LayoutSet { at: at("d"), layout_hint: wish.clone() }).unwrap();
    client.call(MakeDirectory { at: at("d/child"), mode: 0o755, umask: 0 }).unwrap();
    let plain = Create { layout_hint: LayoutHint::none(), rights: None, ..create("d/child/f") };
    let file = client.call(plain).unwrap().attributes.file;
    let shown = client.call(LayoutShow { at: PathRef::file(file) }).unwrap();
    assert_eq!(shown.layout.unwrap().components[0].parts.len(), 1, "children inherit");
    assert_eq!(shown.layout_hint.distribution, wish.distribution);
    let four = LayoutHint {
        parts: Some(4),
        distribution: Some(DistributionHint::SimpleStripe),
        ..LayoutHint::none()
    };
    client.call(LayoutSet { at: PathRef::file(file), layout_hint: four.clone() }).unwrap();
    assert_eq!(
        client.call(LayoutShow { at: PathRef::file(file) }).unwrap().layout.unwrap().components[0]
            .parts
            .len(),
        4
    );
    let opened = client
        .call(Open {
            at: PathRef::file(file),
            rights: Rights::WRITE,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        })
        .unwrap();
    world.write(&opened, 10).unwrap();
    assert_eq!(
        client.call(LayoutSet { at: PathRef::file(file), layout_hint: four }).unwrap_err().status,
        Status::Busy
    );
    client.call(LayoutSet { at: at("d"), layout_hint: LayoutHint::none() }).unwrap();
    assert_eq!(client.call(LayoutShow { at: at("d") }).unwrap().layout_hint, LayoutHint::none());
    let bad = LayoutHint { stripe_bytes: Some(1), ..LayoutHint::none() };
    assert_eq!(
        client.call(LayoutSet { at: at("d"), layout_hint: bad }).unwrap_err().status,
        Status::Invalid
    );
}

#[test]
fn create_opens_what_is_there_and_makes_without_opening() {
    let mut world = World::new(1);
    let client = world.client();
    let made = client.call(Create { rights: None, ..create("f") }).unwrap();
    assert!(made.created && made.opened.is_none());
    assert_eq!(world.status().open_files, 0);
    assert_eq!(client.call(create("f")).unwrap_err().status, Status::Exists);
    let found = client.call(Create { exclusive: false, ..create("f") }).unwrap();
    assert!(!found.created && found.opened.is_some());
    assert_eq!(found.attributes.file, made.attributes.file);
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    let directory = client.call(Create { exclusive: false, ..create("d") }).unwrap_err();
    assert_eq!(directory.status, Status::IsDirectory);
}

#[test]
fn names_of_256_bytes_and_long_paths_are_refused() {
    let mut world = World::new(1);
    let client = world.client();
    client.create(&"n".repeat(255));
    assert_eq!(client.call(create(&"n".repeat(256))).unwrap_err().status, Status::NameTooLong);
    assert_eq!(client.stat(&"a/".repeat(2049)).unwrap_err().status, Status::NameTooLong);
}

#[test]
fn common_calls_and_the_map() {
    let mut world = World::new(3);
    let client = world.client();
    let reply = client.core.common(Ok(CommonRequest::Ping(braid_wire::message::Ping {})));
    assert_eq!(braid_wire::decode_outcome::<()>(&reply), Ok(Ok(())));
    let map = client.call_as(Envelope::PLAIN, GetClusterMap {}).unwrap();
    assert_eq!((map.iods.len(), map.mds.len()), (3, 1));
    assert_eq!(client.call_as(Envelope::PLAIN, Renew {}).unwrap().map_epoch, map.epoch);
    assert!(world.core.prometheus().contains("braid_mds_iods_up 3"));
}

#[test]
fn fsck_sees_files_names_and_strays() {
    let mut world = World::new(2);
    let client = world.client();
    client.call(MakeDirectory { at: at("d"), mode: 0o755, umask: 0 }).unwrap();
    let opened = client.create("d/f");
    world.write(&opened, 9000).unwrap();
    client.close(&opened);
    world.settle();
    let admin = world.admin();
    let shards = admin.call(FsckShards {}).unwrap();
    let mut files = Vec::new();
    for shard in &shards {
        files.extend(
            admin.call(FsckFiles { shard: *shard, after: FileIndex(0), count_max: 10 }).unwrap(),
        );
        let checked = admin.call(FsckNamespace { shard: *shard, mend: false }).unwrap();
        assert_eq!(checked.problems, []);
    }
    assert_eq!(files.len(), 1);
    assert_eq!(
        (files[0].path.as_slice(), files[0].bytes.0, files[0].size_in_objects),
        (&b"/d/f"[..], 9000, false)
    );
    let file = files[0].file;
    let object =
        |file, part| ObjectId { file, part: PartIndex(part), generation: ObjectGeneration(0) };
    let stray = object(FileIndex::new(ShardId(3), 77).unwrap(), 0);
    let asked = vec![object(file, 0), stray, object(file, 9)];
    assert_eq!(admin.call(FsckOrphans { objects: asked }).unwrap(), [stray, object(file, 9)]);
    let mend =
        FsckMend { bytes: Some(braid_types::ByteCount(8000)), existing_parts: Some(vec![1]) };
    admin.call(FsckMendFile { file, mend }).unwrap();
    assert_eq!(client.stat("d/f").unwrap().bytes.0, 8000);
    let shown = client.call(LayoutShow { at: PathRef::file(file) }).unwrap();
    assert_eq!(shown.existing_parts, [3], "a part that is missing is not forgotten (I11)");
    assert_eq!(client.call(FsckShards {}).unwrap_err().status, Status::WrongRole);
}
