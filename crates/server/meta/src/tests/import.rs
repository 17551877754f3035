//! Imports: files of disks get their records with all attributes, and only once.

use std::sync::Arc;

use braid_types::{FileIndex, Status};

use super::{ROOT, at, call, create, layout, memory, names, open, status, user};
use crate::record::{FileKind, Principal};
use crate::{Identity, ImportArgs, Namespace};

fn args(kind: FileKind) -> ImportArgs {
    ImportArgs {
        kind,
        object: None,
        size: 0,
        mode: 0o4751,
        owner: Principal::posix(7),
        group: Principal::posix(8),
        rdev: 0,
        target: Vec::new(),
        atime: at(1),
        mtime: at(2),
        ctime: at(3),
        btime: at(4),
        xattrs: vec![(b"trusted.a".to_vec(), b"1".to_vec())],
    }
}

fn file(index: FileIndex) -> ImportArgs {
    let object = Some((index, Arc::new(layout(1))));
    ImportArgs { object, size: 12_345, ..args(FileKind::Regular) }
}

fn reserve(namespace: &Namespace) -> FileIndex {
    namespace.reserve_files(&call(&Identity::root()), 3).unwrap()
}

#[test]
fn an_imported_file_has_its_attributes_and_a_repetition_changes_nothing() {
    let (_, namespace) = memory();
    let root = Identity::root();
    let index = reserve(&namespace);
    let before = namespace.getattr(ROOT).unwrap();
    let list = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x04\0\x09\0\0\0\x04\0\x05\0\
                 \xff\xff\xff\xff\x10\0\x05\0\xff\xff\xff\xff\x20\0\x01\0\xff\xff\xff\xff";
    let mut wanted = file(index);
    wanted.xattrs.push((b"system.posix_acl_access".to_vec(), list.to_vec()));
    let first = namespace.import(&call(&root), ROOT, b"f", &wanted).unwrap();
    assert!(first.created);
    let found = namespace.getattr(index).unwrap();
    assert_eq!((found.mode, found.owner, found.group), (0o4751, wanted.owner, wanted.group));
    assert_eq!((found.size, found.nlink, found.size_in_objects), (12_345, 1, false));
    assert_eq!((found.atime, found.mtime, found.ctime, found.btime), (at(1), at(2), at(3), at(4)));
    assert_eq!(found.parts.iter().count(), 1, "its object is known to exist (I11)");
    assert_eq!(namespace.xattr(&root, index, b"trusted.a").unwrap(), b"1");
    assert_eq!(namespace.xattr(&root, index, b"system.posix_acl_access").unwrap(), list);
    let after = namespace.getattr(ROOT).unwrap();
    assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
    assert!(after.change > before.change && after.size == 1);
    let again = namespace.import(&call(&root), ROOT, b"f", &wanted).unwrap();
    assert!(!again.created && again.inode.nlink == 1);
    let link = namespace.import(&call(&root), ROOT, b"g", &wanted).unwrap();
    assert!(link.created && link.inode.nlink == 2 && link.inode.file == index);
    assert_eq!(names(&namespace, ROOT), [b"f".to_vec(), b"g".to_vec()]);
}

#[test]
fn names_of_other_files_and_indexes_of_others_are_refused() {
    let (store, namespace) = memory();
    let root = Identity::root();
    let index = reserve(&namespace);
    let import = |namespace: &Namespace, name: &[u8], args: &ImportArgs| {
        status(namespace.import(&call(&root), ROOT, name, args))
    };
    create(&namespace, &call(&root), ROOT, b"f").unwrap();
    assert_eq!(import(&namespace, b"f", &file(index)), Status::Exists);
    let next = FileIndex::new(index.shard(), index.counter() + 1_000_000).unwrap();
    assert_eq!(import(&namespace, b"g", &file(next)), Status::Invalid, "never given out");
    assert_eq!(import(&namespace, b"g", &file(FileIndex(0))), Status::Invalid);
    assert_eq!(import(&namespace, b"..", &file(index)), Status::Invalid);
    assert_eq!(import(&namespace, b"g", &args(FileKind::Regular)), Status::Invalid);
    let by_user = namespace.import(&call(&user(5)), ROOT, b"g", &file(index));
    assert_eq!(status(by_user), Status::NotPermitted);
    // After a restart an index that was reserved before is as good as before, and is not given out.
    drop(namespace);
    let namespace = open(store);
    namespace.import(&call(&root), ROOT, b"g", &file(index)).unwrap();
    let other = create(&namespace, &call(&root), ROOT, b"h").unwrap();
    assert!(
        other.inode.file.counter() > index.counter() || other.inode.file.shard() != index.shard()
    );
    namespace.unlink(&call(&root), ROOT, b"g").unwrap();
    assert_eq!(import(&namespace, b"g", &file(index)), Status::Busy, "its objects are deleted now");
}

#[test]
fn other_kinds_are_recognised_by_their_content() {
    let (_, namespace) = memory();
    let root = Identity::root();
    let import = |name: &[u8], args: &ImportArgs| namespace.import(&call(&root), ROOT, name, args);
    let link = ImportArgs { target: b"to".to_vec(), ..args(FileKind::Symlink) };
    let device = ImportArgs { rdev: 0x103, ..args(FileKind::CharDevice) };
    let directory = args(FileKind::Directory);
    let all = [(&b"l"[..], &link), (b"c", &device), (b"d", &directory)];
    for (name, args) in all {
        assert!(import(name, args).unwrap().created);
        assert!(!import(name, args).unwrap().created);
    }
    let found = namespace.lookup(&root, ROOT, b"d").unwrap();
    assert_eq!((found.mode, found.mtime, found.nlink), (0o4751, at(2), 2));
    assert_eq!(namespace.getattr(ROOT).unwrap().nlink, 3);
    let other = ImportArgs { target: b"elsewhere".to_vec(), ..link };
    assert_eq!(status(import(b"l", &other)), Status::Exists);
    assert_eq!(status(import(b"d", &device)), Status::Exists);
    assert_eq!(status(import(b"c", &ImportArgs { rdev: 0x104, ..device })), Status::Exists);
}
