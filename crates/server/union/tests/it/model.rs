//! Random calls on a union, compared with the same calls on one plain directory: results, names,
//! bytes and numbers of links are the same.

use std::{fs, io, path::Path};

use proptest::prelude::*;
use rustix::io::Errno;

use crate::harness::{Fixture, union_of};

#[derive(Clone, Debug)]
enum Call {
    Write(String, Vec<u8>),
    MakeDir(String),
    Unlink(String),
    RemoveDir(String),
    Rename(String, String),
    Link(String, String),
    /// A file, or all files of a directory, are moved to a branch.
    Move(String, u8),
    /// The union is ended and opened again.
    Restart,
}

/// Few names, so that calls meet.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (path(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(path, bytes)| Call::Write(path, bytes)),
        4 => path().prop_map(Call::MakeDir),
        2 => path().prop_map(Call::Unlink),
        2 => path().prop_map(Call::RemoveDir),
        5 => (path(), path()).prop_map(|(from, to)| Call::Rename(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Call::Link(from, to)),
        1 => Just(Call::Restart),
        1 => (path(), 0_u8..4).prop_map(|(path, branch)| Call::Move(path, branch)),
    ]
}

fn errno(done: io::Result<()>) -> Result<(), Errno> {
    done.map_err(|error| Errno::from_io_error(&error).unwrap())
}

/// The call on the plain directory. Two results of Linux's VFS are decided before a file system is
/// called, so they are decided here for both.
fn on_plain(root: &Path, call: &Call) -> Result<(), Errno> {
    let at = |path: &String| root.join(path);
    match call {
        Call::Write(path, bytes) => errno(
            fs::File::create_new(at(path))
                .and_then(|mut file| io::Write::write_all(&mut file, bytes)),
        ),
        Call::MakeDir(path) => errno(fs::create_dir(at(path))),
        Call::Unlink(path) => errno(fs::remove_file(at(path))),
        Call::RemoveDir(path) => errno(fs::remove_dir(at(path))),
        Call::Rename(from, to) => errno(fs::rename(at(from), at(to))),
        Call::Link(from, to) => errno(fs::hard_link(at(from), at(to))),
        Call::Restart | Call::Move(..) => Ok(()),
    }
}

fn on_union(union: &Fixture, call: &Call) -> Result<(), Errno> {
    match call {
        Call::Write(path, bytes) => union.write(path, bytes),
        Call::MakeDir(path) => union.make_dir(path),
        Call::Unlink(path) => union.unlink(path),
        Call::RemoveDir(path) => union.remove_dir(path),
        Call::Rename(from, to) => union.rename(from, to),
        Call::Link(from, to) => union.link(from, to),
        Call::Move(path, branch) => {
            if usize::from(*branch) < union.branches.len() {
                let progress = &mut |_: &_| std::ops::ControlFlow::Continue(());
                if let Ok(report) = union.union.move_to(path.as_bytes(), *branch, progress) {
                    let there = report.reasons.iter().all(|(_, why)| why.contains("already"));
                    assert!(there, "{report:?}");
                }
            }
            Ok(())
        }
        Call::Restart => Ok(()),
    }
}

/// What the VFS refuses before it calls a file system.
fn refused_by_vfs(root: &Path, call: &Call) -> bool {
    let is_dir = |path: &String| root.join(path).is_dir();
    match call {
        Call::Rename(from, to) => {
            let (from, to) = (format!("{from}/"), format!("{to}/"));
            to.starts_with(&from) || from.starts_with(&to)
        }
        Call::Link(from, _) => is_dir(from),
        _ => false,
    }
}

fn compare(union: &Fixture, plain: &Path, path: &str) {
    let mut names: Vec<String> = fs::read_dir(plain.join(path))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(union.names(path).unwrap(), names, "names in /{path}");
    for name in names {
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        let expected = fs::symlink_metadata(plain.join(&path)).unwrap();
        let found = union.union.attributes(union.node(&path).unwrap()).unwrap();
        assert_eq!(found.is_directory(), expected.is_dir(), "kind of /{path}");
        if expected.is_dir() {
            compare(union, plain, &path);
        } else {
            use std::os::unix::fs::MetadataExt;
            assert_eq!(u64::from(found.links), expected.nlink(), "links of /{path}");
            assert_eq!(union.read(&path).unwrap(), fs::read(plain.join(&path)).unwrap());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_union_does_what_one_directory_does(
        calls in prop::collection::vec(call(), 1..60),
        count in 1_usize..5,
    ) {
        let plain = tempfile::tempdir().unwrap();
        let mut union = union_of(count, "round-robin");
        for call in &calls {
            if matches!(call, Call::Restart) {
                union = union.reopened(|_| {});
            }
            if refused_by_vfs(plain.path(), call) {
                continue;
            }
            let (expected, found) = (on_plain(plain.path(), call), on_union(&union, call));
            prop_assert_eq!(found, expected, "{:?}", call);
        }
        compare(&union, plain.path(), "");
    }
}
