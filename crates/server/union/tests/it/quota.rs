//! Quotas of users over several branches.

use std::{fs, ops::ControlFlow};

use braid_union::{
    NewAttributes, NodeId, OpenFile, QuotaLimits, QuotaOwner, QuotaUsage, RenameMode, User,
};
use proptest::prelude::*;
use rustix::{fs::OFlags, io::Errno};

use crate::harness::{Fixture, me, union_of};

fn owner() -> QuotaOwner {
    QuotaOwner::User(me().uid)
}

impl Fixture {
    fn limit(&self, bytes: Option<u64>, inodes: Option<u64>) {
        self.union.set_quota(owner(), QuotaLimits { bytes, inodes }).unwrap();
    }

    fn usage(&self) -> (u64, u64) {
        let QuotaUsage { bytes, inodes } = self.union.quotas().unwrap()[0].usage.unwrap();
        (bytes, inodes)
    }

    /// What the files on the branches have, once for each inode.
    fn on_disks(&self) -> (u64, u64) {
        use std::os::unix::fs::MetadataExt;
        let mut seen = std::collections::BTreeMap::new();
        let mut left = self.branches.clone();
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let stat = entry.metadata().unwrap();
                if entry.file_name().to_string_lossy().starts_with(".braid-") {
                    continue;
                }
                match stat.is_dir() {
                    true => left.push(entry.path()),
                    false => _ = seen.insert(stat.ino(), stat.len()),
                }
            }
        }
        (seen.values().sum(), seen.len() as u64)
    }

    fn open(&self, path: &str) -> std::sync::Arc<OpenFile> {
        self.union.open_file(self.node(path).unwrap(), OFlags::RDWR).unwrap()
    }

    fn set_size(&self, path: &str, size: u64) -> Result<(), Errno> {
        let new = NewAttributes { size: Some(size), ..NewAttributes::default() };
        self.union.set_attributes(self.node(path)?, &new).map(drop)
    }
}

#[test]
fn no_call_makes_more_bytes_or_files_than_a_user_may_have() {
    let union = union_of(2, "round-robin");
    union.write("before", &[1; 40]).unwrap();
    union.limit(Some(100), Some(3));
    assert_eq!(union.usage(), (40, 1), "what was there before counts");
    union.write("file", &[2; 60]).unwrap();
    assert_eq!(union.write("third", &[3]), Err(Errno::DQUOT));
    assert_eq!(union.usage(), (100, 3), "its name is there");
    assert_eq!(union.write("fourth", &[]), Err(Errno::DQUOT));
    let symlink = union.union.create_symlink(NodeId::ROOT, b"link", b"file", me());
    assert_eq!(symlink.unwrap_err(), Errno::DQUOT);
    union.make_dir("directories_do_not_count").unwrap();

    let file = union.open("file");
    assert_eq!(union.union.write(&file, 59, &[4; 2], false), Err(Errno::DQUOT));
    assert_eq!(union.union.write(&file, 0, &[4; 60], false), Ok(60), "no byte more");
    assert_eq!(union.union.allocate(&file, 0, 0, 61), Err(Errno::DQUOT));
    assert_eq!(union.set_size("before", 41), Err(Errno::DQUOT));
    let before = union.open("before");
    assert_eq!(union.union.copy_range((&file, 0), (&before, 1), 40), Err(Errno::DQUOT));
    assert_eq!(union.set_size("before", 10), Ok(()));
    let copied = union.union.copy_range((&before, 0), (&file, 60), 1 << 40);
    assert_eq!(copied, Ok(10), "what there is, not what is asked for");
    union.union.close(&before);
    assert_eq!(union.union.write(&file, 60, &[5; 30], false), Ok(30));
    assert_eq!((union.usage(), union.on_disks()), ((100, 3), (100, 3)));

    // A removed file counts until it is closed.
    union.unlink("file").unwrap();
    assert_eq!(union.usage(), (100, 3));
    union.union.close(&file);
    assert_eq!(union.usage(), (10, 2));
    let union = union.reopened(|_| {});
    assert_eq!(union.write("big", &[6; 91]), Ok(()), "files are counted first");
    assert_eq!(union.usage(), (101, 3));
    assert_eq!(union.set_size("big", 92), Err(Errno::DQUOT));
    union.limit(None, None);
    assert_eq!(union.write("many", &[7; 1000]), Ok(()));
    assert!(union.union.quotas().unwrap().is_empty());
}

#[test]
fn files_of_others_and_files_that_change_hands_count_for_their_owner() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let union = union_of(2, "round-robin");
    let other = User { uid: 1234, gid: 1234 };
    fs::set_permissions(&union.branches[0], std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    union.union.set_quota(QuotaOwner::User(1234), limits(50)).unwrap();
    union.union.set_quota(QuotaOwner::Group(99), limits(10)).unwrap();
    let made = union.union.create(NodeId::ROOT, b"his", OFlags::RDWR, (0o644, 0), other);
    let (found, file) = made.unwrap();
    assert!(!union.union.may_pass_through(&file), "the kernel knows no limit");
    assert_eq!(union.union.write(&file, 0, &[1; 51], false), Err(Errno::DQUOT));
    assert_eq!(union.union.write(&file, 0, &[1; 40], false), Ok(40));
    union.write("mine", &[2; 1000]).unwrap();
    assert!(union.union.may_pass_through(&union.open("mine")));
    let bytes = || -> Vec<u64> {
        let rows = union.union.quotas().unwrap();
        rows.iter().map(|row| row.usage.unwrap().bytes).collect()
    };
    assert_eq!(bytes(), [40, 0]);
    let give = |uid, gid| {
        let new = NewAttributes { uid, gid, ..NewAttributes::default() };
        union.union.set_attributes(found.node, &new).unwrap();
    };
    give(None, Some(99));
    assert_eq!(bytes(), [40, 40], "root may give a group more than it may have");
    assert_eq!(union.union.write(&file, 40, &[1], false), Err(Errno::DQUOT));
    give(Some(0), Some(0));
    assert_eq!(bytes(), [0, 0]);
    assert_eq!(union.union.write(&file, 0, &[1; 100], false), Ok(100));
}

fn limits(bytes: u64) -> QuotaLimits {
    QuotaLimits { bytes: Some(bytes), inodes: None }
}

#[derive(Clone, Debug)]
enum Call {
    Write(usize, u16, u16),
    SetSize(usize, u16),
    Unlink(usize),
    Rename(usize, usize, bool),
    Link(usize, usize),
    OpenAndUnlink(usize),
    Close,
    Move(usize, u8),
    Directly(usize, u16),
    RemoveDirectly(usize),
    CountAgain,
}

fn call() -> impl Strategy<Value = Call> {
    let name = || 0..6_usize;
    prop_oneof![
        4 => (name(), 0..3000_u16, 1..3000_u16).prop_map(|(n, at, len)| Call::Write(n, at, len)),
        2 => (name(), 0..5000_u16).prop_map(|(n, size)| Call::SetSize(n, size)),
        2 => name().prop_map(Call::Unlink),
        3 => (name(), name(), any::<bool>()).prop_map(|(a, b, swap)| Call::Rename(a, b, swap)),
        2 => (name(), name()).prop_map(|(a, b)| Call::Link(a, b)),
        1 => name().prop_map(Call::OpenAndUnlink),
        1 => Just(Call::Close),
        2 => (name(), 0..3_u8).prop_map(|(n, branch)| Call::Move(n, branch)),
        1 => (name(), 0..5000_u16).prop_map(|(n, size)| Call::Directly(n, size)),
        1 => name().prop_map(Call::RemoveDirectly),
        1 => Just(Call::CountAgain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// What is counted call by call is what the disks have.
    #[test]
    fn what_is_counted_is_what_the_disks_have(calls in prop::collection::vec(call(), 1..60)) {
        let union = union_of(3, "round-robin");
        union.limit(Some(20_000), Some(5));
        let name = |n: usize| format!("f{n}");
        let mut open = Vec::new();
        let mut open_removed = 0;
        for call in calls {
            let mut direct = false;
            match call {
                Call::Write(n, at, len) => {
                    if union.node(&name(n)).is_err() {
                        let _ = union.write(&name(n), b"");
                    }
                    if union.node(&name(n)).is_ok() {
                        let file = union.open(&name(n));
                        let bytes = vec![1; len.into()];
                        let _ = union.union.write(&file, at.into(), &bytes, false);
                        union.union.close(&file);
                    }
                }
                Call::SetSize(n, size) => _ = union.set_size(&name(n), size.into()),
                Call::Unlink(n) => _ = union.unlink(&name(n)),
                Call::Rename(a, b, swap) => {
                    let mode = if swap { RenameMode::Exchange } else { RenameMode::Replace };
                    let _ = union.rename_by(&name(a), &name(b), mode);
                }
                Call::Link(a, b) => _ = union.link(&name(a), &name(b)),
                Call::OpenAndUnlink(n) => {
                    if union.node(&name(n)).is_ok() {
                        open.push(union.open(&name(n)));
                        union.unlink(&name(n)).unwrap();
                    }
                }
                Call::Close => open.drain(..).for_each(|file| union.union.close(&file)),
                Call::Move(n, branch) => {
                    let mut progress = |_: &_| ControlFlow::Continue(());
                    let _ = union.union.move_to(name(n).as_bytes(), branch, &mut progress);
                }
                Call::Directly(n, size) => {
                    for disk in &union.branches {
                        if let Ok(file) = fs::File::options().write(true).open(disk.join(name(n))) {
                            file.set_len(size.into()).unwrap();
                        }
                    }
                    direct = true;
                }
                Call::RemoveDirectly(n) => {
                    union.branches.iter().for_each(|disk| _ = fs::remove_file(disk.join(name(n))));
                    direct = true;
                }
                Call::CountAgain => {}
            }
            if direct {
                // Direct changes count with the next count of all files.
                union.union.set_quota(owner(), QuotaLimits::default()).unwrap();
                union.limit(Some(20_000), Some(5));
            }
            open_removed = open.len();
            if open_removed == 0 {
                prop_assert_eq!(union.usage(), union.on_disks());
            }
        }
        open.drain(..).for_each(|file| union.union.close(&file));
        prop_assert_eq!(union.usage(), union.on_disks(), "{} were open", open_removed);
    }
}
