//! Open and close, the size mark (I5), orphans, truncates, the deletion queue.

use super::*;
use crate::{Access, IntentKind, ObjectSummary, OpenArgs, Parts};

const SESSION: SessionId = SessionId(9);

fn args(access: Access) -> OpenArgs {
    OpenArgs::plain(SESSION, access)
}

fn held(file: FileIndex, readers: u32, writers: u32) -> crate::OpenFile {
    crate::OpenFile { readers, writers, ..crate::OpenFile::none(file, SESSION) }
}

fn fetch(ns: &Namespace, file: FileIndex, size: u64) -> ObjectSummary {
    let generation = ns.getattr(file).unwrap().size_generation;
    ObjectSummary { generation, size, parts: Parts::first(2), mtime: Some(at(300)), change: 0 }
}

/// A file that was written: 10 bytes in two parts.
fn written(ns: &Namespace, name: &[u8]) -> FileIndex {
    let root = Identity::root();
    let file = create(ns, &call(&root), ROOT, name).unwrap().inode.file;
    ns.open_file(&call(&root), file, args(Access::WRITE)).unwrap();
    assert!(ns.close_file(&call(&root), file, args(Access::WRITE)).unwrap());
    ns.record_size(&call(&root), file, &fetch(ns, file, 10)).unwrap();
    file
}

#[test]
fn the_size_mark_lasts_from_the_first_writer_to_the_collection() {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    let reading = ns.open_file(&call(&root), file, args(Access::READ)).unwrap();
    assert!(!reading.size_in_objects);
    assert!(ns.open_file(&call(&root), file, args(Access::BOTH)).unwrap().size_in_objects);
    ns.open_file(&call(&root), file, OpenArgs::plain(SessionId(8), Access::WRITE)).unwrap();

    let restarted = open(Arc::new(store.kill()));
    assert!(restarted.getattr(file).unwrap().size_in_objects);
    let mut writers = restarted.writers(file);
    writers.sort();
    assert_eq!(writers, [SessionId(8), SESSION]);

    assert!(!ns.close_file(&call(&root), file, args(Access::WRITE)).unwrap(), "a writer is left");
    let kept = ns.record_size(&call(&root), file, &fetch(&ns, file, 10)).unwrap();
    assert!(kept.size_in_objects);
    assert!(ns.end_session(SessionId(8), at(1)).unwrap() == [file]);
    let done = ns.record_size(&call(&root), file, &fetch(&ns, file, 12)).unwrap();
    assert_eq!((done.size, done.size_in_objects, done.mtime), (12, false, at(300)));
    assert!(done.parts.contains(braid_types::PartIndex(1)));
}

#[test]
fn a_size_recorded_while_open_never_clears_the_mark() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = written(&ns, b"f");
    ns.open_file(&call(&root), file, args(Access::WRITE)).unwrap();
    ns.record_size_while_open(&call(&root), file, &fetch(&ns, file, 50)).unwrap();
    let noted = ns.getattr(file).unwrap();
    assert_eq!((noted.size, noted.size_in_objects), (50, true));
    let asked = fetch(&ns, file, 100);
    // The writer continues to 200 and closes before the earlier answers are recorded.
    assert!(ns.close_file(&call(&root), file, args(Access::WRITE)).unwrap());
    ns.record_size_while_open(&call(&root), file, &asked).unwrap();
    assert_eq!(ns.getattr(file).unwrap(), noted);
    let done = ns.record_size(&call(&root), file, &fetch(&ns, file, 200)).unwrap();
    assert_eq!((done.size, done.size_in_objects), (200, false));
    ns.record_size_while_open(&call(&root), file, &asked).unwrap();
    assert_eq!(ns.getattr(file).unwrap().size, 200);
}

#[test]
fn the_change_counter_rises_with_what_the_objects_say() {
    let (_, ns) = memory();
    let root = Identity::root();
    for seconds in [-1, i64::MIN, i64::MAX] {
        let file =
            create(&ns, &call(&root), ROOT, format!("f{seconds}").as_bytes()).unwrap().inode.file;
        let time = Timestamp { seconds, nanos: 5 };
        let times =
            crate::AttributeChanges { mtime: Some(crate::SetTime::To(time)), ..Default::default() };
        let before = ns.setattr(&call(&root), file, &times).unwrap().change;
        let found = ObjectSummary { mtime: None, change: ns.next_change(), ..fetch(&ns, file, 10) };
        assert!(ns.record_size(&call(&root), file, &found).unwrap().change > before, "{seconds}");
    }
}

#[test]
fn create_and_open_are_one_batch_and_ignore_the_new_mode() {
    let (store, ns) = memory();
    let user = user(5);
    let root = Identity::root();
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o777).unwrap().file;
    let before = store.committed();
    let args =
        CreateArgs { mode: 0o444.into(), exclusive: true, open: Some(args(Access::WRITE)), place };
    let made = ns.create(&call(&user), dir, b"f", args).unwrap().inode;
    assert_eq!(store.committed().0, before.0 + 1);
    assert!(made.size_in_objects);
    assert_eq!(ns.writers(made.file), [SESSION]);
    let again = OpenArgs::plain(SESSION, Access::WRITE);
    assert_eq!(status(ns.open_file(&call(&user), made.file, again)), Status::PermissionDenied);
}

#[test]
fn an_unlinked_file_lives_until_the_last_close_queues_its_objects() {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = written(&ns, b"f");
    ns.open_file(&call(&root), file, args(Access::READ)).unwrap();
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    assert_eq!(ns.getattr(file).unwrap().nlink, 0);
    assert_eq!(ns.orphans().unwrap(), [file]);
    assert!(ns.deletions(None, 10).unwrap().is_empty());
    assert_eq!(status(ns.link(&call(&root), file, ROOT, b"back")), Status::NotFound);
    ns.close_file(&call(&root), file, args(Access::READ)).unwrap();
    assert_eq!(status(ns.getattr(file)), Status::StaleHandle);

    let ns = open(Arc::new(store.kill()));
    assert!(ns.orphans().unwrap().is_empty());
    let queued = ns.deletions(None, 10).unwrap();
    assert_eq!((queued.len(), queued[0].file, queued[0].parts_certain), (1, file, true));
    ns.deletions_done(&[file]).unwrap();
    assert_eq!(ns.deletions_pending(), 0);
}

#[test]
fn an_orphan_whose_opener_died_with_the_server_is_reaped() {
    let (store, ns) = memory();
    let root = Identity::root();
    let (reader, writer) = (written(&ns, b"r"), written(&ns, b"w"));
    ns.open_file(&call(&root), reader, args(Access::READ)).unwrap();
    ns.open_file(&call(&root), writer, args(Access::WRITE)).unwrap();
    ns.unlink(&call(&root), ROOT, b"r").unwrap();
    ns.unlink(&call(&root), ROOT, b"w").unwrap();
    let ns = open(Arc::new(store.kill()));
    assert!(ns.reap_orphan(&call(&root), reader).unwrap());
    assert!(!ns.reap_orphan(&call(&root), writer).unwrap(), "its open is recorded");
    ns.reclaim_open(&call(&root), &held(writer, 0, 1)).unwrap();
    ns.end_session(SESSION, at(1)).unwrap();
    assert!(ns.orphans().unwrap().is_empty());
    let mut files: Vec<_> =
        ns.deletions(None, 10).unwrap().into_iter().map(|deletion| deletion.file).collect();
    files.sort();
    assert_eq!(files, [reader, writer]);
}

#[test]
fn a_file_that_never_had_objects_leaves_nothing_to_delete() {
    let (_, ns) = memory();
    let root = Identity::root();
    create(&ns, &call(&root), ROOT, b"f").unwrap();
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    assert_eq!(ns.deletions_pending(), 0);
}

#[test]
fn a_truncate_that_began_is_finished_after_a_restart() {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = written(&ns, b"f");
    let truncate = IntentKind::Truncate { size: 3 };
    let intent = ns.begin_intent(&call(&root), file, truncate, false).unwrap();
    assert_eq!(intent.generation.0, 1);
    assert_eq!(ns.getattr(file).unwrap().size, 10);
    assert_eq!(status(ns.begin_intent(&call(&root), file, truncate, false)), Status::TryAgain);
    let old = ObjectSummary { generation: braid_types::SizeGeneration(0), ..fetch(&ns, file, 99) };
    assert_eq!(status(ns.record_size(&call(&root), file, &old)), Status::StaleGeneration);

    let ns = open(Arc::new(store.kill()));
    assert_eq!(ns.intents().unwrap(), [intent]);
    assert_eq!(ns.finish_intent(&call(&root), &intent, &Parts::first(1)).unwrap().size, 3);
    assert!(ns.intents().unwrap().is_empty());
    let again = ns.finish_intent(&call(&root), &intent, &Parts::none()).unwrap();
    assert_eq!((again.size, again.size_generation.0), (3, 1));
    let next = ns
        .begin_intent(&call(&root), file, IntentKind::Punch { offset: 0, bytes: 2 }, false)
        .unwrap();
    assert_eq!(next.generation.0, 2);
    assert_eq!(ns.finish_intent(&call(&root), &next, &Parts::none()).unwrap().size, 3);
}

#[test]
fn during_a_truncate_the_layout_is_fixed_and_all_parts_are_deleted() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = create(&ns, &call(&root), ROOT, b"f").unwrap().inode.file;
    let intent =
        ns.begin_intent(&call(&root), file, IntentKind::Truncate { size: 3 }, false).unwrap();
    assert_eq!(status(ns.set_layout(&call(&root), file, layout(2))), Status::Busy);
    ns.unlink(&call(&root), ROOT, b"f").unwrap();
    let queued = ns.deletions(None, 10).unwrap();
    assert_eq!((queued.len(), queued[0].file, queued[0].parts_certain), (1, file, false));
    assert_eq!(ns.intent(file).unwrap(), None);
    assert_eq!(
        status(ns.finish_intent(&call(&root), &intent, &Parts::first(1))),
        Status::StaleHandle
    );
}

#[test]
fn a_truncate_past_the_largest_file_or_of_a_directory_is_refused() {
    let (_, ns) = memory();
    let root = Identity::root();
    let file = written(&ns, b"f");
    let begin = |file, kind| ns.begin_intent(&call(&root), file, kind, false);
    let max = i64::MAX as u64;
    assert_eq!(status(begin(file, IntentKind::Truncate { size: max + 1 })), Status::TooLarge);
    assert_eq!(
        status(begin(file, IntentKind::Punch { offset: u64::MAX, bytes: 1 })),
        Status::TooLarge
    );
    assert_eq!(status(begin(ROOT, IntentKind::Truncate { size: 0 })), Status::IsDirectory);
    begin(file, IntentKind::Truncate { size: max }).unwrap();
}

#[test]
fn a_removed_directory_takes_its_records_with_it() {
    let (store, ns) = memory();
    let root = Identity::root();
    let keys = |store: &MemoryStore| store.dump().len();
    ns.mkdir(&call(&root), ROOT, b"warm", 0o755).unwrap();
    for _ in 0..SHARDS {
        ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap();
        ns.rmdir(&call(&root), ROOT, b"d").unwrap();
    }
    let before = keys(&store);
    let dir = ns.mkdir(&call(&root), ROOT, b"d", 0o755).unwrap().file;
    ns.set_directory_default(&call(&root), dir, Some(&DirectoryDefault::default())).unwrap();
    ns.set_xattr(&call(&root), dir, b"user.x", b"1", crate::XattrMode::Either, false).unwrap();
    ns.rmdir(&call(&root), ROOT, b"d").unwrap();
    assert_eq!(keys(&store), before);
    assert_eq!(status(create(&ns, &call(&root), dir, b"late")), Status::StaleHandle);
}

#[test]
fn opens_reclaimed_twice_count_once_and_others_are_closed() {
    let (store, ns) = memory();
    let root = Identity::root();
    let (twice, gone) = (written(&ns, b"twice"), written(&ns, b"gone"));
    for file in [twice, twice, gone] {
        ns.open_file(&call(&root), file, args(Access::WRITE)).unwrap();
    }
    let ns = open(Arc::new(store.kill()));
    let named = |readers, writers| held(twice, readers, writers);
    for held in [named(0, 1), named(0, 2), named(1, 2), named(1, 2)] {
        ns.reclaim_open(&call(&root), &held).unwrap();
    }
    assert!(!ns.limit_opens(&call(&root), &named(1, 2)).unwrap());
    assert!(ns.limit_opens(&call(&root), &held(gone, 0, 0)).unwrap());
    assert_eq!(ns.open_files(), [named(1, 2)]);
    assert!(
        !ns.close_file(&call(&root), twice, args(Access::WRITE)).unwrap(),
        "one writer is left"
    );
    assert!(ns.close_file(&call(&root), twice, args(Access::WRITE)).unwrap());
}

#[test]
fn reclaiming_a_writer_restores_a_lost_size_mark() {
    let (store, ns) = memory();
    let root = Identity::root();
    let file = written(&ns, b"f");
    ns.sync().unwrap();
    ns.open_file(&call(&root), file, args(Access::WRITE)).unwrap();
    let ns = open(Arc::new(store.lose_power(0)));
    assert!(!ns.getattr(file).unwrap().size_in_objects);
    ns.reclaim_open(&call(&root), &held(file, 0, 1)).unwrap();
    assert!(ns.getattr(file).unwrap().size_in_objects);
    assert_eq!(ns.writers(file), [SESSION]);
}

#[test]
fn a_file_without_names_is_kept_while_it_may_be_reclaimed() {
    let (_, ns) = memory();
    let root = Identity::root();
    let (open, idle) = (written(&ns, b"open"), written(&ns, b"idle"));
    ns.open_file(&call(&root), open, OpenArgs::plain(SessionId(8), Access::READ)).unwrap();
    ns.keep_orphans(true);
    ns.unlink(&call(&root), ROOT, b"open").unwrap();
    ns.unlink(&call(&root), ROOT, b"idle").unwrap();
    ns.end_session(SessionId(8), at(1)).unwrap();
    ns.reclaim_open(&call(&root), &held(open, 1, 0)).unwrap();
    ns.keep_orphans(false);
    assert!(!ns.reap_orphan(&call(&root), open).unwrap());
    assert!(ns.reap_orphan(&call(&root), idle).unwrap());
    assert_eq!(ns.orphans().unwrap(), [open]);
}
