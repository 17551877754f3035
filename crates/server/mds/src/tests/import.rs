//! Imports: files of disks get records with the layout of their one object; administrators only.

use braid_types::{
    ByteCount, FileIndex, IodId, Status, Timestamp,
    limits::{IMPORTED_ENTRIES_MAX, RESERVED_FILES_MAX},
};
use braid_wire::message::{
    FileKind,
    import::{ImportEntry, Xattr},
    mds::{ImportEntries, LayoutShow, ReserveFiles},
};

use super::world::{World, at};

fn entry(name: &str, file: FileIndex, iod: u32) -> ImportEntry {
    let time = |seconds| Timestamp { seconds, nanos: 9 };
    ImportEntry {
        dir: FileIndex::ROOT,
        name: name.into(),
        kind: FileKind::File,
        file,
        iod: IodId(iod),
        bytes: ByteCount(77),
        mode: 0o4711,
        uid: 5,
        gid: 6,
        device: 0,
        target: Vec::new(),
        atime: time(1),
        mtime: time(2),
        ctime: time(3),
        btime: time(4),
        xattrs: vec![Xattr { name: b"user.a".to_vec(), value: b"b".to_vec() }],
    }
}

#[test]
fn an_imported_file_has_one_object_on_its_daemon_and_all_attributes() {
    let mut world = World::new(2);
    let (admin, client) = (world.admin(), world.client());
    let file = admin.call(ReserveFiles { count: 2 }).unwrap();
    let entries =
        vec![entry("f", file, 2), entry("g", file, 2), entry("f", FileIndex(file.0 + 1), 1)];
    for created in [true, false] {
        let outcomes = admin.call(ImportEntries { entries: entries.clone() }).unwrap();
        let done: Vec<_> = outcomes.iter().map(|outcome| outcome.created).collect();
        assert_eq!(done, [created, created, false]);
        assert_eq!(outcomes[2].failure.as_ref().unwrap().status, Status::Exists);
    }
    let found = client.stat("g").unwrap();
    assert_eq!((found.file, found.bytes.0, found.links, found.mode), (file, 77, 2, 0o4711));
    assert_eq!((found.uid, found.gid, found.btime.seconds), (5, 6, 4));
    let layout = client.call(LayoutShow { at: at("f") }).unwrap().layout.unwrap();
    let parts: Vec<_> = layout.placements().map(|(_, part)| part.iods.clone()).collect();
    assert_eq!(parts, [vec![IodId(2)]]);
    world.restart();
    assert_eq!(world.client().stat("f").unwrap().bytes.0, 77);
}

#[test]
fn only_administrators_import_and_only_within_the_limits() {
    let mut world = World::new(1);
    let (admin, client) = (world.admin(), world.client());
    let refused = |outcome: Result<FileIndex, braid_types::Failure>| outcome.unwrap_err().status;
    assert_eq!(refused(client.call(ReserveFiles { count: 1 })), Status::WrongRole);
    let file = admin.call(ReserveFiles { count: 1 }).unwrap();
    let one = || ImportEntries { entries: vec![entry("f", file, 1)] };
    assert_eq!(client.call(one()).unwrap_err().status, Status::WrongRole);
    for count in [0, RESERVED_FILES_MAX + 1] {
        assert_eq!(refused(admin.call(ReserveFiles { count })), Status::Invalid);
    }
    let many = ImportEntries { entries: vec![entry("f", file, 1); IMPORTED_ENTRIES_MAX + 1] };
    assert_eq!(admin.call(many).unwrap_err().status, Status::LimitExceeded);
    let elsewhere = ImportEntries { entries: vec![entry("f", file, 9)] };
    assert_eq!(admin.call(elsewhere).unwrap_err().status, Status::NoIods);
    assert_eq!(client.stat("f").unwrap_err().status, Status::NotFound);
    assert!(admin.call(one()).unwrap()[0].created);
    assert_eq!(client.stat("f").unwrap().bytes.0, 77);
}
