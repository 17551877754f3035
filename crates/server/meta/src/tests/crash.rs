//! The namespace on the engine after a loss of power: whatever the disk kept of the unsynced log,
//! the namespace is consistent (I6, I7).

use std::collections::BTreeMap;

use super::engine::{image, killed, segments, small};
use super::*;
use crate::{Access, OpenArgs, RenameMode};

/// Names, link counts, sizes and both entry indexes agree; every inode is reachable or an orphan.
fn check_whole(ns: &Namespace) -> usize {
    let root = Identity::root();
    let stored =
        (0..SHARDS).flat_map(|shard| ns.files(braid_types::ShardId(shard), None, 1024).unwrap());
    let inodes: BTreeMap<_, _> = stored.map(|(file, inode)| (file, inode.unwrap())).collect();
    let mut named: BTreeMap<FileIndex, u32> = BTreeMap::new();
    for inode in inodes.values().filter(|inode| inode.is_directory()) {
        let names = names(ns, inode.file);
        assert_eq!(inode.size, names.len() as u64);
        super::folded::check_index(ns, inode.file);
        let mut below = 0;
        for name in names {
            let found = ns.lookup(&root, inode.file, &name).unwrap();
            assert!(inodes.contains_key(&found.file));
            below += u32::from(found.is_directory());
            *named.entry(found.file).or_default() += 1;
        }
        assert_eq!(inode.nlink, below + 2);
    }
    let orphans = ns.orphans().unwrap();
    for (file, inode) in &inodes {
        let names = named.get(file).copied().unwrap_or(0);
        match (*file == ROOT, inode.is_directory()) {
            (true, _) => assert_eq!(names, 0),
            (false, true) => assert_eq!(names, 1),
            (false, false) => assert_eq!(names, inode.nlink),
        }
        assert_eq!(orphans.contains(file), inode.nlink == 0);
    }
    inodes.len()
}

fn churn(ns: &Namespace, state: &mut u64, steps: usize) {
    let root = Identity::root();
    let call = &call(&root);
    let mut draw = |below: u64| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) % below
    };
    for _ in 0..steps {
        let names: [Vec<u8>; 2] = std::array::from_fn(|_| format!("n{}", draw(12)).into_bytes());
        let dirs: [FileIndex; 2] = std::array::from_fn(|_| {
            let name = format!("d{}", draw(4)).into_bytes();
            ns.lookup(&root, ROOT, &name)
                .map_or(ROOT, |inode| if inode.is_directory() { inode.file } else { ROOT })
        });
        let mode = [RenameMode::Replace, RenameMode::Exchange][draw(2) as usize];
        let args = OpenArgs::plain(SessionId(1), Access::WRITE);
        let open = (draw(2) == 0).then_some(args);
        let created = CreateArgs { mode: 0o644.into(), exclusive: true, open, place };
        let _refused_or_done = match draw(8) {
            0 | 1 => ns.create(call, dirs[0], &names[0], created).map(drop),
            2 => ns.mkdir(call, ROOT, format!("d{}", draw(4)).as_bytes(), 0o755).map(drop),
            3 => ns.rename(call, (dirs[0], &names[0]), (dirs[1], &names[1]), mode),
            4 => ns.unlink(call, dirs[0], &names[0]),
            // Some directories get an index of folded names, in the middle of everything.
            7 => ns.look_up_folded(&root, dirs[0], &names[0].to_ascii_uppercase()).map(drop),
            5 => ns
                .lookup(&root, dirs[0], &names[0])
                .and_then(|f| ns.link(call, f.file, dirs[1], &names[1]).map(drop)),
            _ => ns.rmdir(call, ROOT, format!("d{}", draw(4)).as_bytes()),
        };
    }
}

#[test]
fn a_namespace_is_whole_after_a_loss_of_power_at_any_byte_of_the_log() {
    let mut seen = 0;
    for seed in 1..=12u64 {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(small(directory.path()));
        let ns = fresh(store.clone());
        let mut state = seed;
        churn(&ns, &mut state, 150);
        ns.sync().unwrap();
        let synced = ns.committed();
        churn(&ns, &mut state, 30);
        let left = killed(&store, directory.path());
        // A checkpoint has synced the log, too.
        let (_, kept_surely) = store.synced_bytes();
        for share in 0..6u64 {
            let lost = image(left.path());
            let newest = segments(lost.path()).pop().unwrap();
            let bytes = std::fs::read(&newest).unwrap();
            let cut = kept_surely + (bytes.len() as u64 - kept_surely) * share / 5;
            std::fs::write(&newest, &bytes[..cut as usize]).unwrap();
            let ns = open(Arc::new(small(lost.path())));
            assert!(ns.committed() > synced, "synced changes are there (I6)");
            seen += check_whole(&ns);
            churn(&ns, &mut (seed + share), 20);
            check_whole(&ns);
        }
        let ns = open(Arc::new(small(left.path())));
        assert!(ns.committed() > synced, "everything was there: the process was only killed");
        check_whole(&ns);
    }
    assert!(seen > 500, "{seen} inodes were checked");
}
