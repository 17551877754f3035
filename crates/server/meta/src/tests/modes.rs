//! Open modes: which opens conflict, over changes, ends of sessions and restarts.

use proptest::prelude::*;

use super::*;
use crate::{Access, Deny, OpenArgs, OpenFile, OpenMode, RenameMode};

const X: SessionId = SessionId(1);
const Y: SessionId = SessionId(2);
const DENY_WRITE: Deny = Deny { write: true, ..Deny::NONE };
const DENY_DELETE: Deny = Deny { delete: true, ..Deny::NONE };

fn args(session: SessionId, access: Access, deny: Deny) -> OpenArgs {
    OpenArgs { session, access, deny }
}

fn scene() -> (Arc<MemoryStore>, Namespace, FileIndex) {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    (store, ns, file)
}

#[test]
fn an_open_that_conflicts_is_refused_and_leaves_no_trace() {
    let (_, ns, file) = scene();
    let root = Identity::root();
    ns.open_file(&call(&root), file, args(X, Access::READ, DENY_WRITE)).unwrap();
    let before = (ns.open_files(), ns.getattr(file).unwrap());
    let refused = ns.open_file(&call(&root), file, OpenArgs::plain(Y, Access::WRITE)).unwrap_err();
    assert_eq!(
        (refused.status, &*refused.detail),
        (Status::SharingViolation, "session 1 denies writing")
    );
    assert_eq!((ns.open_files(), ns.getattr(file).unwrap()), before);
    ns.close_file(&call(&root), file, args(X, Access::READ, DENY_WRITE)).unwrap();
    ns.open_file(&call(&root), file, OpenArgs::plain(Y, Access::WRITE)).unwrap();
    let refused = ns.open_file(&call(&root), file, args(X, Access::READ, DENY_WRITE)).unwrap_err();
    assert_eq!(&*refused.detail, "session 2 has it open for writing");
}

#[test]
fn a_truncate_by_name_is_refused_while_writing_is_denied() {
    let (_, ns, file) = scene();
    let root = Identity::root();
    let cut = crate::IntentKind::Truncate { size: 0 };
    ns.open_file(&call(&root), file, args(X, Access::BOTH, DENY_WRITE)).unwrap();
    assert_eq!(status(ns.begin_intent(&call(&root), file, cut, false)), Status::SharingViolation);
    assert!(ns.begin_intent(&call(&root), file, cut, true).is_ok());
}

#[test]
fn an_open_that_denies_deleting_protects_every_name() {
    let (_, ns, file) = scene();
    let root = Identity::root();
    create(&ns, &call(&root), ROOT, b"g").unwrap();
    ns.open_file(&call(&root), file, args(X, Access::READ, DENY_DELETE)).unwrap();
    let rename = |from: &[u8], to: &[u8], mode| {
        status(ns.rename(&call(&root), (ROOT, from), (ROOT, to), mode))
    };
    assert_eq!(status(ns.unlink(&call(&root), ROOT, b"f")), Status::SharingViolation);
    assert_eq!(rename(b"f", b"h", RenameMode::Replace), Status::SharingViolation);
    assert_eq!(rename(b"g", b"f", RenameMode::Replace), Status::SharingViolation);
    assert_eq!(rename(b"g", b"f", RenameMode::Exchange), Status::SharingViolation);
    ns.link(&call(&root), file, ROOT, b"second").unwrap();
    ns.end_session(X, at(1)).unwrap();
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    ns.rename(&call(&root), (ROOT, b"second"), (ROOT, b"g"), RenameMode::Replace).unwrap();
}

#[test]
fn a_restarted_server_still_refuses_what_is_denied() {
    let (store, ns, file) = scene();
    let root = Identity::root();
    let reads = args(X, Access::READ, DENY_WRITE);
    ns.open_file(&call(&root), file, reads).unwrap();
    let ns = open(Arc::new(store.kill()));
    assert_eq!(
        status(ns.open_file(&call(&root), file, OpenArgs::plain(Y, Access::WRITE))),
        Status::SharingViolation
    );
    assert_eq!(ns.denied(file), DENY_WRITE);
    let mut held = OpenFile::none(file, X);
    held.add(OpenMode { access: Access::READ, deny: DENY_WRITE }).unwrap();
    ns.reclaim_open(&call(&root), &held).unwrap();
    ns.limit_opens(&call(&root), &held).unwrap();
    assert_eq!(ns.open_files(), [held]);
    // An open that is not reclaimed is closed.
    ns.limit_opens(&call(&root), &OpenFile::none(file, X)).unwrap();
    assert_eq!(ns.denied(file), Deny::NONE);
    ns.open_file(&call(&root), file, OpenArgs::plain(Y, Access::WRITE)).unwrap();
}

#[test]
fn an_unrecorded_denial_is_not_reclaimed_against_another_open() {
    let (_, ns, file) = scene();
    let root = Identity::root();
    ns.open_file(&call(&root), file, OpenArgs::plain(Y, Access::WRITE)).unwrap();
    let mut held = OpenFile::none(file, X);
    held.add(OpenMode { access: Access::READ, deny: DENY_WRITE }).unwrap();
    assert_eq!(status(ns.reclaim_open(&call(&root), &held)), Status::SharingViolation);
}

#[test]
fn a_change_to_writing_sets_the_size_mark_and_back_collects_it() {
    let (store, ns, file) = scene();
    let root = Identity::root();
    let reads = args(X, Access::READ, DENY_WRITE);
    ns.open_file(&call(&root), file, reads).unwrap();
    let to = OpenMode { access: Access::BOTH, deny: DENY_WRITE };
    let (inode, ends) = ns.change_open(&call(&root), file, reads, to).unwrap();
    assert!(inode.size_in_objects && !ends);
    assert_eq!(open(Arc::new(store.kill())).writers(file), [X]);
    let back = OpenMode::plain(Access::READ);
    let (_, ends) =
        ns.change_open(&call(&root), file, args(X, Access::BOTH, DENY_WRITE), back).unwrap();
    assert!(ends && ns.denied(file).is_none());
    let stranger = user(5);
    let asked = ns.change_open(
        &call(&stranger),
        file,
        OpenArgs::plain(X, Access::READ),
        OpenMode::plain(Access::BOTH),
    );
    assert_eq!(status(asked), Status::PermissionDenied, "additional access is checked");
}

/// An open of the model, with everything that is known of it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Simple {
    session: SessionId,
    file: usize,
    mode: OpenMode,
}

/// Byte by byte: whether two opens of one file conflict.
fn exclude(a: OpenMode, b: OpenMode) -> bool {
    let one = |deny: Deny, access: Access| deny.read && access.read || deny.write && access.write;
    one(a.deny, b.access) || one(b.deny, a.access)
}

#[derive(Clone, Debug)]
enum Step {
    Open(Simple),
    Close(usize),
    Change(usize, OpenMode),
    End(SessionId),
    /// The server restarts, and every session reclaims its opens.
    Restart,
}

fn modes() -> impl Strategy<Value = OpenMode> {
    // Most deny something, so that there are conflicts.
    (1u8..4, prop_oneof![Just(0u8), 1u8..8]).prop_map(|(access, deny)| OpenMode {
        access: Access { read: access & 1 != 0, write: access & 2 != 0 },
        deny: Deny::from_bits(deny).unwrap(),
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let open = (1u64..4, 0usize..2, modes());
    let open = open.prop_map(|(session, file, mode)| {
        Step::Open(Simple { session: SessionId(session), file, mode })
    });
    let step = prop_oneof![
        6 => open,
        3 => any::<usize>().prop_map(Step::Close),
        3 => (any::<usize>(), modes()).prop_map(|(at, mode)| Step::Change(at, mode)),
        1 => (1u64..4).prop_map(|session| Step::End(SessionId(session))),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn opens_conflict_exactly_as_a_list_of_them_says(steps in steps()) {
        let (mut store, mut ns) = memory();
        let root = Identity::root();
        let make = |name: &[u8; 1]| create(&ns, &call(&root), ROOT, name).unwrap().inode.file;
        let files = [b"f", b"g"].map(make);
        let mut model: Vec<Simple> = Vec::new();
        let of = |simple: &Simple| args(simple.session, simple.mode.access, simple.mode.deny);
        for step in steps {
            match step {
                Step::Open(open) => {
                    let refused = model
                        .iter()
                        .any(|other| other.file == open.file && exclude(other.mode, open.mode));
                    let file = files[open.file];
                    prop_assert_eq!(ns.check_open(file, open.mode).is_err(), refused);
                    prop_assert_eq!(ns.open_file(&call(&root), file, of(&open)).is_err(), refused);
                    if !refused {
                        model.push(open);
                    }
                }
                Step::Close(at) if !model.is_empty() => {
                    let open = model.remove(at % model.len());
                    ns.close_file(&call(&root), files[open.file], of(&open)).unwrap();
                }
                Step::Change(at, mode) if !model.is_empty() => {
                    let at = at % model.len();
                    let open = model[at];
                    let others = model.iter().enumerate().filter(|(other, _)| *other != at);
                    let refused = others
                        .into_iter()
                        .any(|(_, other)| other.file == open.file && exclude(other.mode, mode));
                    let changed = ns.change_open(&call(&root), files[open.file], of(&open), mode);
                    prop_assert_eq!(changed.is_err(), refused);
                    if !refused {
                        model[at].mode = mode;
                    }
                }
                Step::Close(_) | Step::Change(..) => {}
                Step::End(session) => {
                    ns.end_session(session, at(1)).unwrap();
                    model.retain(|open| open.session != session);
                }
                Step::Restart => {
                    store = Arc::new(store.kill());
                    ns = open(store.clone());
                    for (at, file) in files.iter().enumerate() {
                        let own = model.iter().filter(|open| open.file == at);
                        let denied = own.fold(0, |all, open| all | open.mode.deny.bits());
                        prop_assert_eq!(ns.denied(*file).bits(), denied, "before any reclaim");
                    }
                    for session in (1..4).map(SessionId) {
                        for (at, file) in files.iter().enumerate() {
                            let mut held = OpenFile::none(*file, session);
                            let is_mine =
                                |open: &&Simple| open.session == session && open.file == at;
                            let mine = model.iter().filter(is_mine);
                            mine.for_each(|open| held.add(open.mode).unwrap());
                            ns.reclaim_open(&call(&root), &held).unwrap();
                            ns.limit_opens(&call(&root), &held).unwrap();
                        }
                    }
                }
            }
            let count = |open: &OpenFile| (open.readers + open.writers) as usize;
            prop_assert_eq!(ns.open_files().iter().map(count).sum::<usize>(), model.len());
        }
    }
}
