//! Valid and invalid names, on both sides of each limit.

use super::*;
use crate::NodeArgs;

#[test]
fn a_name_of_255_bytes_is_taken_and_one_of_256_refused() {
    let (_, ns) = memory();
    let root = Identity::root();
    let (longest, too_long) = (vec![b'n'; 255], vec![b'n'; 256]);
    create(&ns, &call(&root), ROOT, &longest).unwrap();
    assert_eq!(names(&ns, ROOT), std::slice::from_ref(&longest));
    ns.rename(&call(&root), (ROOT, &longest), (ROOT, &[0xff; 255]), crate::RenameMode::Replace)
        .unwrap();
    assert_eq!(names(&ns, ROOT), [vec![0xff; 255]]);
    for failed in refusals(&ns, &too_long) {
        assert_eq!(failed, Status::NameTooLong);
    }
}

#[test]
fn slash_and_nul_are_in_no_name() {
    let (_, ns) = memory();
    for name in [&b"a/b"[..], b"a\0b", b"/", b"\0"] {
        for failed in refusals(&ns, name) {
            assert_eq!(failed, Status::Invalid, "{name:?}");
        }
    }
}

#[test]
fn dot_and_dotdot_and_the_empty_name_are_never_made_or_removed() {
    let (_, ns) = memory();
    for name in [&b"."[..], b"..", b""] {
        for failed in refusals(&ns, name) {
            assert_ne!(failed, Status::Ok);
        }
        assert!(names(&ns, ROOT).is_empty());
    }
}

/// The result of every operation that takes a name.
fn refusals(ns: &Namespace, name: &[u8]) -> Vec<Status> {
    let root = Identity::root();
    let call = &call(&root);
    let held = create(ns, call, ROOT, b"held")
        .map_or_else(|_| ns.lookup(&root, ROOT, b"held").unwrap(), |c| c.inode);
    let refusals = vec![
        status(create(ns, call, ROOT, name)),
        status(ns.mkdir(call, ROOT, name, 0o755)),
        status(ns.mknod(
            call,
            ROOT,
            name,
            NodeArgs { kind: FileKind::Fifo, mode: 0o600.into(), rdev: 0 },
        )),
        status(ns.symlink(call, ROOT, name, b"target")),
        status(ns.link(call, held.file, ROOT, name)),
        status(ns.unlink(call, ROOT, name)),
        status(ns.rmdir(call, ROOT, name)),
        status(ns.rename(call, (ROOT, b"held"), (ROOT, name), crate::RenameMode::Replace)),
        status(ns.rename(call, (ROOT, name), (ROOT, b"new"), crate::RenameMode::Replace)),
    ];
    ns.unlink(call, ROOT, b"held").unwrap();
    refusals
}

#[test]
fn a_path_of_4096_bytes_is_walked_and_a_longer_one_refused() {
    let (_, ns) = memory();
    let root = Identity::root();
    let path = b"./".repeat(2048);
    assert_eq!(ns.resolve(&root, ROOT, &path, true).unwrap().file, ROOT);
    let longer = [&path[..], b"."].concat();
    assert_eq!(status(ns.resolve(&root, ROOT, &longer, true)), Status::NameTooLong);
}
