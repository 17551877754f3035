//! Rename in all its modes.

use super::*;
use crate::RenameMode::{self, Exchange, NoReplace, Replace};

fn rename(
    ns: &Namespace,
    from: (FileIndex, &[u8]),
    to: (FileIndex, &[u8]),
    mode: RenameMode,
) -> Result<(), Failure> {
    ns.rename(&call(&Identity::root()), from, to, mode)
}

fn file_at(ns: &Namespace, directory: FileIndex, name: &[u8]) -> Option<FileIndex> {
    ns.lookup(&Identity::root(), directory, name).ok().map(|inode| inode.file)
}

#[test]
fn a_file_replaces_a_file_and_the_replaced_one_is_gone() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = create(&ns, &call(&root), ROOT, b"a").unwrap().inode.file;
    let b = create(&ns, &call(&root), ROOT, b"b").unwrap().inode.file;
    assert_eq!(status(rename(&ns, (ROOT, b"a"), (ROOT, b"b"), NoReplace)), Status::Exists);
    rename(&ns, (ROOT, b"a"), (ROOT, b"b"), Replace).unwrap();
    assert_eq!((file_at(&ns, ROOT, b"a"), file_at(&ns, ROOT, b"b")), (None, Some(a)));
    assert_eq!(status(ns.getattr(b)), Status::StaleHandle);
    assert_eq!(ns.getattr(ROOT).unwrap().size, 1);
    assert_eq!(status(rename(&ns, (ROOT, b"x"), (ROOT, b"y"), Replace)), Status::NotFound);
}

#[test]
fn two_names_of_one_file_stay_as_they_are() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = create(&ns, &call(&root), ROOT, b"a").unwrap().inode.file;
    ns.link(&call(&root), a, ROOT, b"b").unwrap();
    rename(&ns, (ROOT, b"a"), (ROOT, b"b"), Replace).unwrap();
    rename(&ns, (ROOT, b"a"), (ROOT, b"a"), Replace).unwrap();
    assert_eq!((file_at(&ns, ROOT, b"a"), file_at(&ns, ROOT, b"b")), (Some(a), Some(a)));
}

#[test]
fn a_directory_replaces_only_an_empty_directory() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = ns.mkdir(&call(&root), ROOT, b"a", 0o755).unwrap().file;
    let b = ns.mkdir(&call(&root), ROOT, b"b", 0o755).unwrap().file;
    create(&ns, &call(&root), ROOT, b"f").unwrap();
    create(&ns, &call(&root), b, b"x").unwrap();
    assert_eq!(status(rename(&ns, (ROOT, b"a"), (ROOT, b"b"), Replace)), Status::NotEmpty);
    assert_eq!(status(rename(&ns, (ROOT, b"a"), (ROOT, b"f"), Replace)), Status::NotDirectory);
    assert_eq!(status(rename(&ns, (ROOT, b"f"), (ROOT, b"a"), Replace)), Status::IsDirectory);
    ns.unlink(&call(&root), b, b"x").unwrap();
    rename(&ns, (ROOT, b"a"), (ROOT, b"b"), Replace).unwrap();
    assert_eq!(file_at(&ns, ROOT, b"b"), Some(a));
    assert_eq!(ns.getattr(ROOT).unwrap().nlink, 3);
}

#[test]
fn a_directory_cannot_be_moved_into_itself_or_below() {
    let (_, ns) = memory();
    let root = Identity::root();
    let a = ns.mkdir(&call(&root), ROOT, b"a", 0o755).unwrap().file;
    let b = ns.mkdir(&call(&root), a, b"b", 0o755).unwrap().file;
    let c = ns.mkdir(&call(&root), b, b"c", 0o755).unwrap().file;
    for into in [a, b, c] {
        assert_eq!(status(rename(&ns, (ROOT, b"a"), (into, b"x"), Replace)), Status::WouldLoop);
    }
    assert_eq!(status(rename(&ns, (ROOT, b"a"), (b, b"c"), Exchange)), Status::WouldLoop);
    assert_eq!(status(rename(&ns, (b, b"c"), (ROOT, b"a"), Exchange)), Status::WouldLoop);
    assert_eq!(status(rename(&ns, (b, b"c"), (ROOT, b"a"), Replace)), Status::NotEmpty);
    rename(&ns, (a, b"b"), (ROOT, b"b"), Replace).unwrap();
    assert_eq!(ns.resolve(&root, b, b"..", true).unwrap().file, ROOT);
    assert_eq!((ns.getattr(a).unwrap().nlink, ns.getattr(ROOT).unwrap().nlink), (2, 4));
    rename(&ns, (ROOT, b"a"), (c, b"x"), Replace).unwrap();
}

#[test]
fn an_exchange_swaps_names_of_any_kind_across_directories() {
    let (_, ns) = memory();
    let root = Identity::root();
    let d = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    let sub = ns.mkdir(&call(&root), d, b"sub", 0o755).unwrap().file;
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    rename(&ns, (ROOT, b"f"), (d, b"sub"), Exchange).unwrap();
    assert_eq!((file_at(&ns, ROOT, b"f"), file_at(&ns, d, b"sub")), (Some(sub), Some(file)));
    assert_eq!((ns.getattr(ROOT).unwrap().nlink, ns.getattr(d).unwrap().nlink), (4, 2));
    assert_eq!(ns.resolve(&root, sub, b"..", true).unwrap().file, ROOT);
    assert_eq!(status(rename(&ns, (ROOT, b"f"), (d, b"none"), Exchange)), Status::NotFound);
}

#[test]
fn dot_names_cannot_be_renamed() {
    let (_, ns) = memory();
    let root = Identity::root();
    create(&ns, &call(&root), ROOT, b"f").unwrap();
    for dots in [&b"."[..], b".."] {
        assert_eq!(status(rename(&ns, (ROOT, dots), (ROOT, b"x"), Replace)), Status::Busy);
        assert_eq!(status(rename(&ns, (ROOT, b"f"), (ROOT, dots), Replace)), Status::Busy);
    }
}
