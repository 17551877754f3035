//! Files created without a name.

use super::*;
use crate::{Access, OpenArgs, Principal};

const SESSION: SessionId = SessionId(9);
const OPEN: OpenArgs = OpenArgs::plain(SESSION, Access::BOTH);

fn unnamed(ns: &Namespace, call: &Call<'_>, directory: FileIndex) -> Result<Arc<Inode>, Failure> {
    ns.create_unnamed(call, directory, 0o640, OPEN, place)
}

fn setgid_directory(ns: &Namespace) -> FileIndex {
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o2777).unwrap().file;
    let group = crate::AttributeChanges {
        group: Some(Principal::posix(50)),
        mode: Some(0o2777),
        ..Default::default()
    };
    ns.setattr(&call(&root), dir, &group).unwrap();
    dir
}

#[test]
fn a_file_without_a_name_is_its_makers_and_goes_when_it_is_closed() {
    let (_, ns) = memory();
    let dir = setgid_directory(&ns);
    let who = user(5);
    let made = unnamed(&ns, &call(&who), dir).unwrap();
    assert_eq!(
        (made.nlink, made.owner, made.group, made.mode),
        (0, Principal::posix(5), Principal::posix(50), 0o640)
    );
    assert!(made.size_in_objects && made.layout.is_some());
    assert_eq!((names(&ns, dir), ns.orphans().unwrap()), (vec![], vec![made.file]));
    ns.close_file(&call(&who), made.file, OPEN).unwrap();
    assert_eq!(status(ns.getattr(made.file)), Status::StaleHandle);
    assert_eq!((ns.orphans().unwrap(), ns.deletions(None, 9).unwrap().len()), (vec![], 1));
}

#[test]
fn a_file_without_a_name_gets_one_once_and_stays() {
    let (store, ns) = memory();
    let (dir, root) = (setgid_directory(&ns), Identity::root());
    let file = unnamed(&ns, &call(&root), dir).unwrap().file;
    let linked = ns.link(&call(&root), file, dir, b"now").unwrap();
    assert_eq!((linked.nlink, linked.unnamed), (1, false));
    ns.close_file(&call(&root), file, OPEN).unwrap();
    assert_eq!(ns.orphans().unwrap(), []);
    let ns = open(Arc::new(store.kill()));
    assert_eq!(ns.lookup(&root, dir, b"now").unwrap().file, file);
    ns.open_file(&call(&root), file, OPEN).unwrap();
    ns.unlink(&call(&root), dir, b"now").unwrap();
    assert_eq!(
        status(ns.link(&call(&root), file, dir, b"again")),
        Status::NotFound,
        "it had a name and lost it"
    );
}

#[test]
fn a_file_without_a_name_needs_write_permission_on_its_directory() {
    let (_, ns) = memory();
    assert_eq!(status(unnamed(&ns, &call(&user(5)), ROOT)), Status::PermissionDenied);
    let file = create(&ns, &call(&Identity::root()), ROOT, b"f").unwrap().inode.file;
    assert_eq!(status(unnamed(&ns, &call(&Identity::root()), file)), Status::NotDirectory);
}

#[test]
fn after_a_crash_a_file_without_a_name_is_an_orphan_that_is_reaped() {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = unnamed(&ns, &call(&root), ROOT).unwrap().file;
    let ns = open(Arc::new(store.kill()));
    assert_eq!(ns.orphans().unwrap(), [file]);
    assert!(!ns.reap_orphan(&call(&root), file).unwrap(), "its session is recorded and may return");
    ns.end_session(SESSION, at(1)).unwrap();
    assert_eq!((status(ns.getattr(file)), ns.orphans().unwrap()), (Status::StaleHandle, vec![]));
}

#[test]
fn a_retry_makes_no_second_file_without_a_name() {
    let (_, ns) = memory();
    let root = Identity::root();
    let first = unnamed(&ns, &replayed(&root, 0, 1), ROOT).unwrap();
    let again = unnamed(&ns, &replayed(&root, 0, 1), ROOT).unwrap();
    assert_eq!((first.file, ns.orphans().unwrap().len()), (again.file, 1));
}
