//! Quota: usage follows the inodes, limits hold, growth grants are bounded.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::quota::{GROWTH_GRANT_FIRST, GROWTH_GRANT_MAX};
use crate::{
    Access, AttributeChanges, IntentKind, ObjectSummary, OpenArgs, Parts, Principal, Quota,
    QuotaLimit, QuotaOwner, RenameMode, Usage, UsageDifference,
};

const SESSION: SessionId = SessionId(9);
const MIB: u64 = 1 << 20;

fn hard(bytes: Option<u64>, inodes: Option<u64>) -> Quota {
    let bound = |hard| QuotaLimit { hard, soft: None, over_since: None };
    Quota { bytes: bound(bytes), inodes: bound(inodes), grace_seconds: 10, complete: true }
}

fn set(ns: &Namespace, owner: QuotaOwner, quota: Quota) {
    ns.set_quota(&call(&Identity::root()), owner, quota).unwrap();
}

fn used(ns: &Namespace, owner: QuotaOwner) -> (u64, u64) {
    let state = ns.quota_state(owner);
    ((state.usage.bytes + state.in_flight) as u64, state.usage.inodes)
}

/// Walks a directory's contents, as the command does.
fn walk(ns: &Namespace, directory: FileIndex) -> u64 {
    let root = Identity::root();
    let (mut stack, mut moved) = (vec![directory], 0);
    while let Some(directory) = stack.pop() {
        let mut cookie = Some(0);
        while let Some(from) = cookie {
            let page = ns.assign_quota_directory(&call(&root), directory, from).unwrap();
            (cookie, moved) = (page.next, moved + page.moved);
            stack.extend(page.directories);
        }
    }
    moved
}

fn recount(ns: &Namespace, mend: bool) -> Vec<UsageDifference> {
    (0..SHARDS)
        .flat_map(|shard| ns.recount_usage(braid_types::ShardId(shard), mend).unwrap())
        .collect()
}

/// A user's file, open for writing.
fn open_new(
    ns: &Namespace,
    who: &Identity,
    directory: FileIndex,
    name: &[u8],
    session: SessionId,
) -> FileIndex {
    let open = Some(OpenArgs::plain(session, Access::WRITE));
    let args = CreateArgs { mode: 0o644.into(), exclusive: true, open, place };
    ns.create(&call(who), directory, name, args).unwrap().inode.file
}

fn close(ns: &Namespace, file: FileIndex, session: SessionId) {
    let root = Identity::root();
    ns.close_file(&call(&root), file, OpenArgs::plain(session, Access::WRITE)).unwrap();
}

fn collect(ns: &Namespace, file: FileIndex, size: u64) {
    let generation = ns.getattr(file).unwrap().size_generation;
    let fetch = ObjectSummary { generation, size, parts: Parts::first(1), mtime: None, change: 0 };
    ns.record_size(&call(&Identity::root()), file, &fetch).unwrap();
}

fn extend(
    ns: &Namespace,
    file: FileIndex,
    session: SessionId,
    wanted: u64,
) -> Result<Option<u64>, Failure> {
    ns.growth_grant(session, file, 0, Some(wanted), at(100))
}

/// A directory that everybody may write.
fn shared_dir(ns: &Namespace, name: &[u8]) -> FileIndex {
    ns.mkdir(&call(&Identity::root()), ROOT, name, 0o777).unwrap().file
}

fn truncate(ns: &Namespace, who: &Identity, file: FileIndex, size: u64) -> Result<(), Failure> {
    let intent = ns.begin_intent(&call(who), file, IntentKind::Truncate { size }, false)?;
    ns.finish_intent(&call(who), &intent, &Parts::none()).map(drop)
}

#[test]
fn an_inode_counts_for_owner_group_and_quota_directory() {
    let (store, ns) = memory();
    let (root, alice) = (Identity::root(), Identity { gid: 70, ..user(7) });
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::Directory(dir), hard(None, Some(100)));
    let file = open_new(&ns, &alice, dir, b"f", SESSION);
    close(&ns, file, SESSION);
    collect(&ns, file, 10);
    let all = |ns: &Namespace| {
        [
            QuotaOwner::User(7),
            QuotaOwner::Group(70),
            QuotaOwner::User(8),
            QuotaOwner::Directory(dir),
        ]
        .map(|who| used(ns, who))
    };
    assert_eq!(all(&ns), [(10, 1), (10, 1), (0, 0), (10, 2)]);
    let to_bob =
        AttributeChanges { owner: Some(Principal::posix(8)), ..AttributeChanges::default() };
    ns.setattr(&call(&root), file, &to_bob).unwrap();
    assert_eq!(all(&ns), [(0, 0), (10, 1), (10, 1), (10, 2)]);
    let ns = open(Arc::new(store.kill()));
    assert_eq!(all(&ns), [(0, 0), (10, 1), (10, 1), (10, 2)]);
    ns.unlink(&call(&root), dir, b"f").unwrap();
    assert_eq!(all(&ns), [(0, 0), (0, 0), (0, 0), (0, 1)]);
    assert_eq!(recount(&ns, false), []);
}

#[test]
fn the_inode_past_the_limit_is_refused_and_the_one_at_it_is_not() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::User(7), hard(None, Some(3)));
    create(&ns, &call(&alice), dir, b"a").unwrap();
    ns.mkdir(&call(&alice), dir, b"b", 0o755).unwrap();
    ns.symlink(&call(&alice), dir, b"c", b"x").unwrap();
    assert_eq!(status(create(&ns, &call(&alice), dir, b"d")), Status::QuotaExceeded);
    assert_eq!(status(ns.mkdir(&call(&alice), dir, b"d", 0o755)), Status::QuotaExceeded);
    create(&ns, &call(&user(8)), dir, b"d").unwrap();
    ns.unlink(&call(&alice), dir, b"a").unwrap();
    create(&ns, &call(&alice), dir, b"e").unwrap();
}

#[test]
fn a_chown_to_a_full_quota_is_refused_except_for_root() {
    let (_, ns) = memory();
    let (root, alice) = (Identity::root(), Identity { groups: vec![70, 71], ..user(7) });
    let dir = shared_dir(&ns, b"d");
    let file = create(&ns, &call(&alice), dir, b"f").unwrap().inode.file;
    set(&ns, QuotaOwner::Group(70), hard(None, Some(0)));
    let to =
        |id| AttributeChanges { group: Some(Principal::posix(id)), ..AttributeChanges::default() };
    assert_eq!(status(ns.setattr(&call(&alice), file, &to(70))), Status::QuotaExceeded);
    ns.setattr(&call(&alice), file, &to(71)).unwrap();
    ns.setattr(&call(&root), file, &to(70)).unwrap();
    assert_eq!(used(&ns, QuotaOwner::Group(70)), (0, 1));
}

#[test]
fn a_file_grows_to_its_limit_and_the_next_byte_is_refused() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::User(7), hard(Some(10 * MIB), None));
    let file = open_new(&ns, &alice, dir, b"f", SESSION);
    let first = ns.growth_grant(SESSION, file, 0, None, at(100)).unwrap().unwrap();
    assert!(first > 0 && first <= GROWTH_GRANT_FIRST);
    assert!(extend(&ns, file, SESSION, 9 * MIB).unwrap().unwrap() >= 9 * MIB);
    assert_eq!(used(&ns, QuotaOwner::User(7)).0, 9 * MIB, "unrecorded bytes count");
    assert_eq!(status(extend(&ns, file, SESSION, 10 * MIB + 1)), Status::QuotaExceeded);
    assert_eq!(extend(&ns, file, SESSION, 10 * MIB).unwrap(), Some(10 * MIB));
    let other = open_new(&ns, &alice, dir, b"g", SESSION);
    assert_eq!(status(extend(&ns, other, SESSION, 1)), Status::QuotaExceeded);
    close(&ns, file, SESSION);
    ns.size_collected(file, 4 * MIB).unwrap();
    assert_eq!(used(&ns, QuotaOwner::User(7)).0, 4 * MIB, "unwritten bytes are returned");
    extend(&ns, other, SESSION, 6 * MIB).unwrap();
    collect(&ns, file, 4 * MIB);
    assert_eq!(used(&ns, QuotaOwner::User(7)).0, 10 * MIB, "recorded or not, it counts once");
}

#[test]
fn an_owner_without_limits_gets_no_growth_grant() {
    let (_, ns) = memory();
    let dir = shared_dir(&ns, b"d");
    let file = open_new(&ns, &user(7), dir, b"f", SESSION);
    assert_eq!(ns.growth_grant(SESSION, file, 0, None, at(100)).unwrap(), None);
    set(&ns, QuotaOwner::User(8), hard(Some(1), None));
    set(&ns, QuotaOwner::User(7), hard(None, Some(9)));
    assert_eq!(
        extend(&ns, file, SESSION, 1 << 40).unwrap(),
        None,
        "others have limits, or of something else"
    );
    assert_eq!(ns.writer().usage.files(), 0);
    set(&ns, QuotaOwner::User(7), hard(Some(MIB), None));
    close(&ns, file, SESSION);
    ns.size_collected(file, 99).unwrap();
    assert_eq!(
        used(&ns, QuotaOwner::User(7)),
        (99, 1),
        "a limit of today counts what was opened before it"
    );
}

#[test]
fn usage_exceeds_a_limit_by_no_more_than_one_chunk_for_each_client() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    let limit = 1 << 40;
    set(&ns, QuotaOwner::User(7), hard(Some(limit), None));
    let clients: Vec<SessionId> = (1..=4).map(SessionId).collect();
    let mut ends = BTreeMap::new();
    for client in &clients {
        for n in 0..200u64 {
            let file = open_new(&ns, &alice, dir, format!("{client}-{n}").as_bytes(), *client);
            let wanted = (n + 1) * MIB;
            ends.insert(file, extend(&ns, file, *client, wanted).unwrap().unwrap());
        }
    }
    let ahead = ns.writer().usage.total_grants();
    assert!(ahead <= clients.len() as u64 * GROWTH_GRANT_MAX, "{ahead}");
    let (known, may) = (used(&ns, QuotaOwner::User(7)).0, ends.values().sum::<u64>());
    assert_eq!(may - known, ahead, "a writer may write the counted bytes and its grant");
    // Counted bytes fill the limit, and all grants are written: nobody gets one more byte.
    let filler = open_new(&ns, &alice, dir, b"filler", clients[0]);
    extend(&ns, filler, clients[0], limit - known).unwrap();
    for file in ends.keys() {
        let session = ns.writers(*file)[0];
        let end = ends[file];
        assert!(
            ends[file] == used_end(&ns, *file)
                || status(extend(&ns, *file, session, end + 1)) == Status::QuotaExceeded
        );
    }
}

/// The offset up to which a file counts.
fn used_end(ns: &Namespace, file: FileIndex) -> u64 {
    ns.writer().usage.counted_end(&ns.getattr(file).unwrap())
}

#[test]
fn growth_of_a_closed_writer_stays_counted_while_others_write() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::User(7), hard(Some(1 << 40), None));
    let (first, second) = (SessionId(1), SessionId(2));
    let file = open_new(&ns, &alice, dir, b"f", first);
    ns.open_file(&call(&alice), file, OpenArgs::plain(second, Access::WRITE)).unwrap();
    let end = extend(&ns, file, first, MIB).unwrap().unwrap();
    assert!(end > MIB);
    close(&ns, file, first);
    assert_eq!(used(&ns, QuotaOwner::User(7)).0, end);
    ns.end_session(second, at(200)).unwrap();
    ns.size_collected(file, MIB).unwrap();
    collect(&ns, file, MIB);
    assert_eq!((used(&ns, QuotaOwner::User(7)).0, ns.writer().usage.files()), (MIB, 0));
}

#[test]
fn grants_of_a_dead_session_end_when_its_sizes_are_known() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::User(7), hard(Some(10 * MIB), None));
    let file = open_new(&ns, &alice, dir, b"f", SESSION);
    extend(&ns, file, SESSION, 10 * MIB).unwrap();
    assert_eq!(ns.end_session(SESSION, at(200)).unwrap(), [file]);
    ns.size_collected(file, 0).unwrap();
    assert_eq!((used(&ns, QuotaOwner::User(7)).0, ns.writer().usage.total_grants()), (0, 0));
    let next = open_new(&ns, &alice, dir, b"g", SessionId(10));
    extend(&ns, next, SessionId(10), 10 * MIB).unwrap();
}

#[test]
fn a_truncate_counts_from_its_start_and_ends_older_grants() {
    let (_, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    set(&ns, QuotaOwner::User(7), hard(Some(10 * MIB), None));
    let (file, other) = (
        create(&ns, &call(&alice), dir, b"f").unwrap().inode.file,
        open_new(&ns, &alice, dir, b"g", SESSION),
    );
    assert_eq!(status(truncate(&ns, &alice, file, 10 * MIB + 1)), Status::QuotaExceeded);
    let begun = ns
        .begin_intent(&call(&alice), file, IntentKind::Truncate { size: 6 * MIB }, false)
        .unwrap();
    assert_eq!(
        status(extend(&ns, other, SESSION, 5 * MIB)),
        Status::QuotaExceeded,
        "it is not recorded, and counts"
    );
    ns.finish_intent(&call(&alice), &begun, &Parts::none()).unwrap();
    assert_eq!(used(&ns, QuotaOwner::User(7)).0, 6 * MIB);
    extend(&ns, other, SESSION, 4 * MIB).unwrap();
    truncate(&ns, &alice, other, 0).unwrap();
    assert_eq!((used(&ns, QuotaOwner::User(7)).0, ns.writer().usage.total_grants()), (6 * MIB, 0));
}

#[test]
fn a_soft_limit_holds_when_its_grace_is_over_also_after_a_restart() {
    let (store, ns) = memory();
    let (alice, root) = (user(7), Identity::root());
    let dir = shared_dir(&ns, b"d");
    let soft = QuotaLimit { hard: None, soft: Some(1), over_since: None };
    set(&ns, QuotaOwner::User(7), Quota { inodes: soft, ..hard(None, None) });
    let make = |ns: &Namespace, name: &[u8], now| {
        create(ns, &Call { now: at(now), ..call(&alice) }, dir, name)
    };
    for (name, now) in [(b"a", 100), (b"b", 101), (b"c", 110)] {
        make(&ns, name, now).unwrap();
    }
    let ns = open(Arc::new(store.kill()));
    assert_eq!(status(make(&ns, b"d", 111)), Status::QuotaExceeded);
    for name in [b"a", b"b"] {
        ns.unlink(&call(&root), dir, name).unwrap();
    }
    make(&ns, b"d", 112).unwrap();
}

#[test]
fn the_walk_counts_a_directory_and_keeps_quotas_apart() {
    let (_, ns) = memory();
    let root = Identity::root();
    let (dir, elsewhere) = (shared_dir(&ns, b"d"), shared_dir(&ns, b"e"));
    let sub = ns.mkdir(&call(&root), dir, b"sub", 0o755).unwrap().file;
    for n in 0..300u32 {
        create(&ns, &call(&root), sub, format!("f{n}").as_bytes()).unwrap();
    }
    let state =
        ns.set_quota(&call(&root), QuotaOwner::Directory(dir), hard(None, Some(1000))).unwrap();
    assert!(!state.quota.unwrap().complete);
    assert_eq!(walk(&ns, dir), 301);
    ns.complete_quota_directory(&call(&root), dir).unwrap();
    assert_eq!(used(&ns, QuotaOwner::Directory(dir)), (0, 302));
    assert_eq!(walk(&ns, dir), 0, "once is enough");
    // XFS: EXDEV across quota directories; a whole quota directory may be moved anywhere.
    let rename = |from, to| ns.rename(&call(&root), from, to, RenameMode::Replace);
    assert_eq!(status(rename((sub, b"f1"), (elsewhere, b"f1"))), Status::CrossDevice);
    assert_eq!(status(rename((dir, b"sub"), (elsewhere, b"sub"))), Status::CrossDevice);
    let file = create(&ns, &call(&root), elsewhere, b"x").unwrap().inode.file;
    assert_eq!(status(ns.link(&call(&root), file, sub, b"x")), Status::CrossDevice);
    assert_eq!(status(rename((elsewhere, b"x"), (sub, b"x"))), Status::CrossDevice);
    rename((sub, b"f1"), (dir, b"f1")).unwrap();
    rename((ROOT, b"d"), (elsewhere, b"d")).unwrap();
    assert_eq!(used(&ns, QuotaOwner::Directory(dir)), (0, 302));
    assert!(ns.remove_quota(&call(&root), QuotaOwner::Directory(dir)).unwrap());
    assert_eq!((walk(&ns, dir), used(&ns, QuotaOwner::Directory(dir))), (301, (0, 0)));
    rename((dir, b"f1"), (elsewhere, b"f1")).unwrap();
    assert_eq!(recount(&ns, false), []);
}

#[test]
fn only_root_sets_limits_and_they_end_with_their_directory() {
    let (store, ns) = memory();
    let root = Identity::root();
    let dir = shared_dir(&ns, b"d");
    let set = |who: &Identity, owner, quota| ns.set_quota(&call(who), owner, quota);
    assert_eq!(status(set(&user(7), QuotaOwner::User(7), hard(None, None))), Status::NotPermitted);
    assert_eq!(status(set(&root, QuotaOwner::User(0), hard(None, None))), Status::Invalid);
    let upside_down = QuotaLimit { hard: Some(1), soft: Some(2), over_since: None };
    assert_eq!(
        status(set(&root, QuotaOwner::User(7), Quota { bytes: upside_down, ..hard(None, None) })),
        Status::Invalid
    );
    set(&root, QuotaOwner::Directory(dir), hard(Some(5), None)).unwrap();
    assert_eq!(ns.quota_directory_state(dir).unwrap().unwrap().quota.unwrap().bytes.hard, Some(5));
    ns.rmdir(&call(&root), ROOT, b"d").unwrap();
    assert_eq!(ns.quota_state(QuotaOwner::Directory(dir)).quota, None);
    let ns = open(Arc::new(store.kill()));
    assert_eq!(ns.quota_state(QuotaOwner::Directory(dir)).quota, None);
    let owners: Vec<_> = ns.quota_states(None, 10).into_iter().map(|state| state.owner).collect();
    assert_eq!(owners, [QuotaOwner::User(0), QuotaOwner::Group(0)], "nothing of it remains");
    assert_eq!(ns.quota_states(Some(QuotaOwner::User(0)), 10).len(), 1);
}

#[test]
fn a_wrong_usage_on_record_is_found_and_mended_while_others_change_it() {
    let (store, ns) = memory();
    let alice = user(7);
    let dir = shared_dir(&ns, b"d");
    create(&ns, &call(&alice), dir, b"f").unwrap();
    let mut batch = crate::Batch::new();
    batch.put(
        crate::key::usage(dir.shard(), QuotaOwner::User(7)),
        Usage { bytes: 99, inodes: 7 }.encode(),
    );
    store.commit(batch, store.fence()).unwrap();
    let ns = open(store.clone());
    let found = recount(&ns, false);
    let (recorded, counted) = (Usage { bytes: 99, inodes: 7 }, Usage { bytes: 0, inodes: 1 });
    assert_eq!(found, [UsageDifference { owner: QuotaOwner::User(7), recorded, counted }]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..500u32 {
                create(&ns, &call(&alice), dir, format!("n{n}").as_bytes()).unwrap();
            }
        });
        assert_eq!(recount(&ns, true).len(), 1);
    });
    assert_eq!((recount(&ns, false), used(&ns, QuotaOwner::User(7))), (vec![], (0, 501)));
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        user: u8,
        dir: u8,
        name: u8,
    },
    Mkdir {
        user: u8,
        dir: u8,
        name: u8,
    },
    Write {
        name: u8,
        dir: u8,
        size: u64,
    },
    Truncate {
        name: u8,
        dir: u8,
        size: u64,
    },
    Chown {
        name: u8,
        dir: u8,
        user: u8,
        group: u8,
    },
    Rename {
        from: (u8, u8),
        to: (u8, u8),
        mode: u8,
    },
    Link {
        from: (u8, u8),
        to: (u8, u8),
    },
    Unlink {
        dir: u8,
        name: u8,
    },
    Rmdir {
        dir: u8,
        name: u8,
    },
    Limit {
        dir: u8,
        inodes: u64,
    },
    Unlimit {
        dir: u8,
    },
    /// One page of a walk, or all of it.
    Walk {
        dir: u8,
        whole: bool,
    },
    Kill,
    LosePower(u8),
}

fn step_strategy() -> impl Strategy<Value = Step> {
    let (id, name) = (|| 1..4u8, || 0..4u8);
    prop_oneof![
        4 => (id(), any::<u8>(), name())
            .prop_map(|(user, dir, name)| Step::Create { user, dir, name }),
        3 => (id(), any::<u8>(), name())
            .prop_map(|(user, dir, name)| Step::Mkdir { user, dir, name }),
        3 => (any::<u8>(), name(), any::<u64>())
            .prop_map(|(dir, name, size)| Step::Write { name, dir, size: size >> 1 }),
        2 => (any::<u8>(), name(), any::<u64>())
            .prop_map(|(dir, name, size)| Step::Truncate { name, dir, size: size >> 1 }),
        2 => (any::<u8>(), name(), id(), id())
            .prop_map(|(dir, name, user, group)| Step::Chown { name, dir, user, group }),
        3 => (any::<u8>(), name(), any::<u8>(), name(), 0..3u8)
            .prop_map(|(d, n, e, m, mode)| Step::Rename { from: (d, n), to: (e, m), mode }),
        2 => (any::<u8>(), name(), any::<u8>(), name())
            .prop_map(|(d, n, e, m)| Step::Link { from: (d, n), to: (e, m) }),
        2 => (any::<u8>(), name()).prop_map(|(dir, name)| Step::Unlink { dir, name }),
        1 => (any::<u8>(), name()).prop_map(|(dir, name)| Step::Rmdir { dir, name }),
        2 => (any::<u8>(), 1..30u64).prop_map(|(dir, inodes)| Step::Limit { dir, inodes }),
        1 => any::<u8>().prop_map(|dir| Step::Unlimit { dir }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(dir, whole)| Step::Walk { dir, whole }),
        1 => Just(Step::Kill),
        1 => any::<u8>().prop_map(Step::LosePower),
    ]
}

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Every inode, and all sums computed again in another way than the crate's.
fn inodes(ns: &Namespace) -> (Vec<Arc<Inode>>, BTreeMap<QuotaOwner, Usage>) {
    let all =
        (0..SHARDS).flat_map(|shard| ns.files(braid_types::ShardId(shard), None, 1000).unwrap());
    let all: Vec<Arc<Inode>> = all.map(|(_, inode)| inode.unwrap()).collect();
    let mut sums = BTreeMap::<QuotaOwner, Usage>::new();
    for inode in &all {
        let bytes = if inode.kind == FileKind::Regular { u128::from(inode.size) } else { 0 };
        let mut owners = vec![QuotaOwner::User(inode.owner.id), QuotaOwner::Group(inode.group.id)];
        owners.extend(
            (inode.quota_directory != FileIndex(0))
                .then_some(QuotaOwner::Directory(inode.quota_directory)),
        );
        for owner in owners {
            let sum = sums.entry(owner).or_default();
            *sum = Usage { bytes: sum.bytes + bytes, inodes: sum.inodes + 1 };
        }
    }
    (all, sums)
}

/// Runs a step; whether it was possible does not matter here.
fn step(ns: &Namespace, step: &Step) {
    let root = Identity::root();
    let call = call(&root);
    let directories: Vec<FileIndex> =
        inodes(ns).0.iter().filter(|inode| inode.is_directory()).map(|inode| inode.file).collect();
    let dir = |pick: u8| directories[usize::from(pick) % directories.len()];
    let at = |(pick, name): (u8, u8)| (dir(pick), NAMES[usize::from(name)]);
    let file =
        |pick, name| ns.lookup(&root, dir(pick), NAMES[usize::from(name)]).map(|inode| inode.file);
    let args = OpenArgs::plain(SESSION, Access::WRITE);
    let _ = (|| -> Result<(), Failure> {
        match *step {
            Step::Create { user: id, dir, name } => {
                let (dir, name) = at((dir, name));
                let made = create(ns, &call, dir, name)?.inode.file;
                let to = AttributeChanges {
                    owner: Some(Principal::posix(id.into())),
                    ..AttributeChanges::default()
                };
                ns.setattr(&call, made, &to).map(drop)
            }
            Step::Mkdir { user: id, dir, name } => {
                let (dir, name) = at((dir, name));
                let who = Identity { permissions_checked: true, ..user(id.into()) };
                ns.mkdir(&Call { who: &who, ..call.clone() }, dir, name, 0o777).map(drop)
            }
            Step::Write { dir, name, size } => {
                let file = file(dir, name)?;
                ns.open_file(&call, file, args)?;
                let _ = ns.growth_grant(SESSION, file, 0, Some(size), at_time());
                ns.close_file(&call, file, args)?;
                let generation = ns.getattr(file)?.size_generation;
                ns.record_size(
                    &call,
                    file,
                    &ObjectSummary {
                        generation,
                        size,
                        parts: Parts::first(1),
                        mtime: None,
                        change: 0,
                    },
                )
                .map(drop)
            }
            Step::Truncate { dir, name, size } => truncate(ns, &root, file(dir, name)?, size),
            Step::Chown { dir, name, user, group } => {
                let (owner, group) =
                    (Some(Principal::posix(user.into())), Some(Principal::posix(group.into())));
                ns.setattr(
                    &call,
                    file(dir, name)?,
                    &AttributeChanges { owner, group, ..AttributeChanges::default() },
                )
                .map(drop)
            }
            Step::Rename { from, to, mode } => {
                let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]
                    [usize::from(mode)];
                ns.rename(&call, at(from), at(to), mode)
            }
            Step::Link { from, to } => {
                let (dir, name) = at(to);
                ns.link(&call, file(from.0, from.1)?, dir, name).map(drop)
            }
            Step::Unlink { dir, name } => {
                ns.unlink(&call, at((dir, name)).0, NAMES[usize::from(name)])
            }
            Step::Rmdir { dir, name } => {
                ns.rmdir(&call, at((dir, name)).0, NAMES[usize::from(name)])
            }
            Step::Limit { dir: pick, inodes } => ns
                .set_quota(&call, QuotaOwner::Directory(dir(pick)), hard(None, Some(inodes)))
                .map(drop),
            Step::Unlimit { dir: pick } => {
                ns.remove_quota(&call, QuotaOwner::Directory(dir(pick))).map(drop)
            }
            Step::Walk { dir: pick, whole: true } => {
                walk(ns, dir(pick));
                Ok(())
            }
            Step::Walk { dir: pick, whole: false } => {
                ns.assign_quota_directory(&call, dir(pick), 0).map(drop)
            }
            Step::Kill | Step::LosePower(_) => Ok(()),
        }
    })();
}

fn at_time() -> Timestamp {
    at(100)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn usage_equals_the_inodes_after_any_operations_and_crashes(
        steps in prop::collection::vec(step_strategy(), 1..60)
    ) {
        let (mut store, mut ns) = memory();
        for one in &steps {
            match one {
                Step::Kill => store = Arc::new(store.kill()),
                Step::LosePower(share) => {
                    let left = store.unsynced() * usize::from(*share) / 255;
                    store = Arc::new(store.lose_power(left));
                }
                other => {
                    step(&ns, other);
                    continue;
                }
            }
            ns = open(store.clone());
        }
        let (_, sums) = inodes(&ns);
        for (owner, usage) in &sums {
            prop_assert_eq!(ns.quota_state(*owner).usage, *usage, "{:?}", owner);
        }
        let states = ns.quota_states(None, 10_000).into_iter();
        let usages = states.filter(|state| state.usage != Usage::default());
        prop_assert_eq!(usages.count(), sums.len());
        prop_assert_eq!(recount(&ns, false), []);
        prop_assert_eq!(ns.writer().usage.files(), 0, "without writers no bytes are unrecorded");
        // Everything in a directory belongs to its quota directory once everything was walked.
        walk(&ns, ROOT);
    }
}
