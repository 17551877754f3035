//! A retry is answered and never runs twice (I7).

use super::*;
use crate::record::ReplayRecord;
use crate::store::Batch;
use crate::{
    Access, AttributeChanges, IntentKind, NodeArgs, ObjectSummary, OpenArgs, Parts, RenameMode,
    XattrMode,
};

/// One operation: its name in messages, and the function that runs it.
type Step = (&'static str, Box<dyn Fn(&Namespace, &Call<'_>) -> Result<String, Failure>>);

fn step<T: std::fmt::Debug>(
    name: &'static str,
    body: impl Fn(&Namespace, &Call<'_>) -> Result<T, Failure> + 'static,
) -> Step {
    (name, Box::new(move |ns, call| body(ns, call).map(|value| format!("{value:?}"))))
}

fn found(ns: &Namespace, name: &[u8]) -> FileIndex {
    ns.lookup(&Identity::root(), ROOT, name).unwrap().file
}

/// Every operation that changes something, in an order in which each succeeds.
fn every_operation() -> Vec<Step> {
    const OPEN: OpenArgs = OpenArgs::plain(SessionId(9), Access::BOTH);
    let file = found(&setup().1, b"f");
    let dir = found(&setup().1, b"d");
    vec![
        step("create", |ns, call| create(ns, call, ROOT, b"new")),
        step("create and open", |ns, call| {
            let args = CreateArgs { mode: 0o644.into(), exclusive: true, open: Some(OPEN), place };
            ns.create(call, ROOT, b"opened", args)
        }),
        step("mkdir", |ns, call| ns.mkdir_with_change(call, ROOT, b"newdir", 0o755)),
        step("mknod", |ns, call| {
            ns.mknod_with_change(
                call,
                ROOT,
                b"pipe",
                NodeArgs { kind: FileKind::Fifo, mode: 0o600.into(), rdev: 0 },
            )
        }),
        step("symlink", |ns, call| ns.symlink_with_change(call, ROOT, b"sym", b"target")),
        step("link", move |ns, call| ns.link_with_change(call, file, ROOT, b"hard")),
        step("setattr", move |ns, call| {
            ns.setattr(
                call,
                file,
                &AttributeChanges { mode: Some(0o600), ..AttributeChanges::default() },
            )
        }),
        step("set_xattr", move |ns, call| {
            ns.set_xattr(call, file, b"user.x", b"1", XattrMode::Create, false)
        }),
        step("remove_xattr", move |ns, call| ns.remove_xattr(call, file, b"user.x")),
        step("open", move |ns, call| ns.open_file(call, file, OPEN)),
        step("begin_intent", move |ns, call| {
            ns.begin_intent(call, file, IntentKind::Truncate { size: 5 }, false)
        }),
        step("finish_intent", move |ns, call| {
            let intent = crate::Intent {
                file,
                kind: IntentKind::Truncate { size: 5 },
                generation: braid_types::SizeGeneration(1),
            };
            ns.finish_intent(call, &intent, &Parts::first(1))
        }),
        step("collect", move |ns, call| {
            let generation = braid_types::SizeGeneration(1);
            ns.record_size(
                call,
                file,
                &ObjectSummary {
                    generation,
                    size: 7,
                    parts: Parts::first(2),
                    mtime: None,
                    change: 0,
                },
            )
        }),
        step("close", move |ns, call| ns.close_file(call, file, OPEN)),
        step("set_directory_default", move |ns, call| {
            ns.set_directory_default(call, dir, Some(&DirectoryDefault::default()))
        }),
        step("set_layout", |ns, call| ns.set_layout(call, found(ns, b"empty"), layout(2))),
        step("rename", |ns, call| {
            ns.rename_with_change(call, (ROOT, b"g"), (ROOT, b"h"), RenameMode::NoReplace)
        }),
        step("exchange", |ns, call| {
            ns.rename(call, (ROOT, b"d"), (ROOT, b"h"), RenameMode::Exchange)
        }),
        step("unlink", |ns, call| ns.unlink(call, ROOT, b"f")),
        step("rmdir", |ns, call| ns.rmdir(call, ROOT, b"empty-dir")),
        step("remove", |ns, call| ns.remove(call, ROOT, b"sym")),
    ]
}

fn setup() -> (Arc<MemoryStore>, Namespace) {
    let (store, ns) = memory();
    let root = Identity::root();
    for name in [&b"f"[..], b"g", b"empty"] {
        create(&ns, &call(&root), ROOT, name).unwrap();
    }
    ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap();
    ns.mkdir(&call(&root), ROOT, b"empty-dir", 0o755).unwrap();
    (store, ns)
}

#[test]
fn a_retry_of_every_operation_gets_the_recorded_result() {
    let (store, ns) = setup();
    let root = Identity::root();
    for (n, (name, body)) in every_operation().into_iter().enumerate() {
        let call = replayed(&root, 3, n as u64 + 1);
        let first = body(&ns, &call).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let after = store.dump();
        assert_eq!(body(&ns, &call), Ok(first), "{name}");
        assert_eq!(store.dump(), after, "{name}");
    }
}

#[test]
fn a_server_killed_before_its_answer_answers_every_retry() {
    let (mut store, mut ns) = setup();
    let root = Identity::root();
    for (n, (name, body)) in every_operation().into_iter().enumerate() {
        let call = replayed(&root, 3, n as u64 + 1);
        let first = body(&ns, &call).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        store = Arc::new(store.kill());
        ns = open(store.clone());
        let after = store.dump();
        assert_eq!(body(&ns, &call), Ok(first), "{name}");
        assert_eq!(store.dump(), after, "{name}");
    }
}

#[test]
fn an_operation_whose_commit_failed_leaves_no_trace_and_its_retry_is_done() {
    let (store, ns) = setup();
    let root = Identity::root();
    for (n, (name, body)) in every_operation().into_iter().enumerate() {
        let call = replayed(&root, 3, n as u64 + 1);
        let before = (store.dump(), ns.open_file_count());
        store.set_faults(crate::Faults { full_commits: vec![0], ..Default::default() });
        assert_eq!(
            body(&ns, &call).map_err(|failure| failure.status),
            Err(Status::NoSpace),
            "{name}"
        );
        assert_eq!((store.dump(), ns.open_file_count()), before, "{name}");
        body(&ns, &call).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn a_retried_open_for_reading_counts_once() {
    let (_, ns) = setup();
    let root = Identity::root();
    let file = found(&ns, b"f");
    let args = OpenArgs::plain(SessionId(9), Access::READ);
    for _ in 0..3 {
        ns.open_file(&replayed(&root, 1, 1), file, args).unwrap();
    }
    assert_eq!(ns.open_files_of(SessionId(9))[0].readers, 1);
    ns.close_file(&replayed(&root, 1, 2), file, args).unwrap();
    assert_eq!(ns.open_file_count(), 0);
}

#[test]
fn a_sequence_that_was_used_for_something_else_is_refused() {
    let (_, ns) = memory();
    let root = Identity::root();
    create(&ns, &replayed(&root, 1, 5), ROOT, b"a").unwrap();
    assert_eq!(status(ns.unlink(&replayed(&root, 1, 5), ROOT, b"a")), Status::Malformed);
    assert_eq!(status(create(&ns, &replayed(&root, 1, 4), ROOT, b"b")), Status::Malformed);
    create(&ns, &replayed(&root, 2, 4), ROOT, b"b").unwrap();
}

/// `call` with another request.
fn asking(call: &Call<'_>, request: u64) -> Call<'static> {
    let replay = call.replay.map(|replay| Replay { request, ..replay });
    Call { who: Box::leak(Box::new(call.who.clone())), now: call.now, replay }
}

#[test]
fn another_request_of_the_same_kind_is_not_answered_from_the_record() {
    let (mut store, mut ns) = setup();
    let root = Identity::root();
    for (n, (name, body)) in every_operation().into_iter().enumerate() {
        let call = replayed(&root, 3, n as u64 + 1);
        body(&ns, &call).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(status(body(&ns, &asking(&call, 2))), Status::Malformed, "{name}");
        store = Arc::new(store.kill());
        ns = open(store.clone());
        assert_eq!(status(body(&ns, &asking(&call, 2))), Status::Malformed, "{name}, restarted");
    }
}

/// The record of the only operation in a slot, in the format of version 1.
fn made_old(store: &MemoryStore, ns: &Namespace, slot: u32) {
    let key = crate::key::replay(ROOT.shard(), SessionId(9), slot);
    let recorded = ReplayRecord::decode(&store.get(&key).unwrap().unwrap()).unwrap();
    let mut batch = Batch::new();
    batch.put_with(key, |out| ReplayRecord { request: None, ..recorded }.write(out, None));
    store.commit(batch, ns.fence).unwrap();
}

#[test]
fn a_version_1_record_answers_a_retry_and_grants_no_extra_right() {
    let (store, ns) = setup();
    let (file, session) = (found(&ns, b"f"), SessionId(9));
    let user = user(7);
    let args = |access| {
        let open = Some(OpenArgs::plain(session, access));
        CreateArgs { mode: 0o644.into(), exclusive: false, open, place }
    };
    let create = |call: &Call<'_>, access| ns.create(call, ROOT, b"f", args(access));
    let first = create(&replayed(&user, 1, 1), Access::READ).unwrap();
    made_old(&store, &ns, 1);
    let recorded = crate::Created { directory: None, ..first };
    assert_eq!(create(&asking(&replayed(&user, 1, 1), 2), Access::READ), Ok(recorded));
    assert_eq!(status(create(&replayed(&user, 1, 1), Access::BOTH)), Status::PermissionDenied);
    let open =
        |access| ns.open_file(&replayed(&user, 2, 1), file, OpenArgs::plain(session, access));
    open(Access::READ).unwrap();
    made_old(&store, &ns, 2);
    assert_eq!(status(open(Access::WRITE)), Status::PermissionDenied);
}

#[test]
fn the_end_of_a_session_takes_its_replay_records_with_it() {
    let (store, ns) = memory();
    let root = Identity::root();
    let made = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    create(&ns, &call(&root), made, b"a").unwrap();
    let before = store.dump().len();
    ns.setattr(&replayed(&root, 1, 1), made, &AttributeChanges::default()).unwrap();
    ns.setattr(&replayed(&root, 2, 1), ROOT, &AttributeChanges::default()).unwrap();
    assert_eq!(store.dump().len(), before + 2);
    ns.end_session(SessionId(9), at(1)).unwrap();
    assert_eq!(store.dump().len(), before);
}

#[test]
fn each_change_of_a_directory_continues_the_one_before() {
    let (_, ns) = setup();
    let root = Identity::root();
    let call = &call(&root);
    let (file, into) = (found(&ns, b"f"), found(&ns, b"d"));
    let counter = |dir| ns.getattr(dir).unwrap().change;
    let started = counter(ROOT);
    let args = CreateArgs { mode: 0o644.into(), exclusive: false, open: None, place };
    let mut changes = vec![ns.create(call, ROOT, b"new", args).unwrap().directory.unwrap()];
    changes.push(ns.mkdir_with_change(call, ROOT, b"dir", 0o755).unwrap().directory.unwrap());
    changes.push(ns.symlink_with_change(call, ROOT, b"l", b"t").unwrap().directory.unwrap());
    changes.push(ns.link_with_change(call, file, ROOT, b"hard").unwrap().directory.unwrap());
    changes.extend(ns.remove(call, ROOT, b"hard").unwrap());
    changes.extend(ns.remove(call, ROOT, b"dir").unwrap());
    let other = counter(into);
    let moved =
        ns.rename_with_change(call, (ROOT, b"l"), (into, b"l"), RenameMode::Replace).unwrap();
    changes.push(moved[0]);
    let mut before = started;
    for change in changes {
        assert_eq!(change.before, before);
        assert!(change.after > change.before, "{change:?}");
        before = change.after;
    }
    assert_eq!(before, counter(ROOT));
    assert_eq!((moved[1].before, moved[1].after), (other, counter(into)));
}

#[test]
fn operation_without_an_effect_leaves_the_counter_of_its_directory() {
    let (_, ns) = setup();
    let root = Identity::root();
    let call = &call(&root);
    let before = ns.getattr(ROOT).unwrap().change;
    let args = CreateArgs { mode: 0o644.into(), exclusive: false, open: None, place };
    let found_one = ns.create(call, ROOT, b"f", args).unwrap();
    let same = crate::DirectoryChange { before, after: before };
    assert_eq!((found_one.created, found_one.directory), (false, Some(same)));
    ns.link(call, found_one.inode.file, found(&ns, b"d"), b"other").unwrap();
    let ends = ((ROOT, &b"f"[..]), (found(&ns, b"d"), &b"other"[..]));
    let changes = ns.rename_with_change(call, ends.0, ends.1, RenameMode::Replace).unwrap();
    assert!(changes.iter().all(|change| change.before == change.after), "two names of one file");
}

#[test]
fn a_version_2_record_has_no_changes_and_a_count_above_two_is_refused() {
    let record = |version: u8, count: Option<u8>| {
        let head = [&[version][..], &5_u64.to_le_bytes(), &[6], &7_u64.to_le_bytes()].concat();
        let changes = count
            .map_or(Vec::new(), |count| [vec![count], vec![1; usize::from(count) * 16]].concat());
        [head, changes, vec![0]].concat()
    };
    let old = ReplayRecord::decode(&record(2, None)).unwrap();
    assert_eq!((old.sequence, old.request, old.directories), (5, Some(7), Vec::new()));
    assert_eq!(ReplayRecord::decode(&record(3, Some(2))).unwrap().directories.len(), 2);
    assert!(ReplayRecord::decode(&record(3, Some(3))).is_err());
    assert!(ReplayRecord::decode(&record(4, Some(1))).is_err());
}
