//! What a union must show for what is on its branches, by the table of conflicts in docs/union.md,
//! computed without the union.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::harness::Fixture;

/// An entry of the union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    Directory,
    /// Bytes and links; the target of a symbolic link.
    File(Vec<u8>, u64),
    Link(PathBuf),
}

impl Shown {
    pub fn bytes(&self) -> Option<&Vec<u8>> {
        match self {
            Self::File(bytes, _) => Some(bytes),
            _ => None,
        }
    }
}

pub type View = BTreeMap<String, Shown>;

pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The merged view of directories.
pub fn expected(branches: &[PathBuf]) -> View {
    let mut view = View::new();
    merge(branches, "", &mut view);
    view
}

/// `copies`: of one directory, in the order of the branches.
fn merge(copies: &[PathBuf], path: &str, view: &mut View) {
    let mut all: Vec<String> = copies.iter().flat_map(|copy| names(copy)).collect();
    all.sort();
    all.dedup();
    for name in all {
        if path.is_empty() && name.starts_with(".braid-") {
            continue;
        }
        let there = copies.iter().map(|copy| copy.join(&name));
        let there: Vec<_> = there.filter(|path| path.symlink_metadata().is_ok()).collect();
        let below = join(path, &name);
        let first = there[0].symlink_metadata().unwrap();
        if first.is_dir() {
            view.insert(below.clone(), Shown::Directory);
            let directories = there.into_iter().filter(|path| is_directory(path));
            merge(&directories.collect::<Vec<_>>(), &below, view);
        } else if first.is_symlink() {
            view.insert(below, Shown::Link(fs::read_link(&there[0]).unwrap()));
        } else {
            view.insert(below, Shown::File(fs::read(&there[0]).unwrap(), first.nlink()));
        }
    }
}

pub fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// What the union shows, or what it answered instead.
pub fn shown(union: &Fixture) -> Result<View, String> {
    let (mut view, mut numbers) = (View::new(), HashMap::new());
    show(union, "", &mut view, &mut numbers)?;
    Ok(view)
}

fn show(
    union: &Fixture,
    path: &str,
    view: &mut View,
    numbers: &mut HashMap<u64, (String, u32)>,
) -> Result<(), String> {
    let failed = |what: &str, at: &str| {
        let (what, at) = (what.to_owned(), at.to_owned());
        move |error| format!("{what} of /{at}: {error}")
    };
    // The answer for a name that is on no branch is kept for the next create.
    assert!(union.node(&join(path, "no such name")).is_err());
    for name in union.names(path).map_err(failed("listing", path))? {
        let below = join(path, &name);
        let node = union.node(&below).map_err(failed("lookup", &below))?;
        let found = union.union.attributes(node).map_err(failed("attributes", &below))?;
        if let Some((other, links)) = numbers.insert(found.index, (below.clone(), found.links))
            && (links < 2 || found.links < 2)
            && !found.is_directory()
        {
            return Err(format!("/{below} and /{other} have one number"));
        }
        let shown = if found.is_directory() {
            show(union, &below, view, numbers)?;
            Shown::Directory
        } else if found.is_regular() {
            let bytes = union.read(&below).map_err(failed("reading", &below))?;
            Shown::File(bytes, found.links.into())
        } else {
            let target = union.union.read_link(node).map_err(failed("target", &below))?;
            Shown::Link(String::from_utf8(target).unwrap().into())
        };
        view.insert(below, shown);
    }
    Ok(())
}

/// Whether a name that the path is, or goes through, is a directory on one branch and a file on
/// another one.
pub fn is_of_two_kinds(branches: &[PathBuf], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    (1..=parts.len()).any(|end| {
        let path = parts[..end].join("/");
        let kinds: BTreeSet<bool> = branches
            .iter()
            .filter_map(|branch| branch.join(&path).symlink_metadata().ok())
            .map(|found| found.is_dir())
            .collect();
        kinds.len() > 1
    })
}

/// Where the bytes of each file are: content by branch and path, and the names of its inode.
pub fn contents(branches: &[PathBuf]) -> BTreeMap<(usize, String), Vec<u8>> {
    let mut all = BTreeMap::new();
    for (at, branch) in branches.iter().enumerate() {
        walk(branch, "", &mut |path, full| {
            if full.symlink_metadata().unwrap().is_file() {
                all.insert((at, path.to_owned()), fs::read(full).unwrap());
            }
        });
    }
    all
}

fn walk(branch: &Path, path: &str, each: &mut dyn FnMut(&str, &Path)) {
    for name in names(&branch.join(path)) {
        let below = join(path, &name);
        let full = branch.join(&below);
        each(&below, &full);
        if is_directory(&full) {
            walk(branch, &below, each);
        }
    }
}

/// Writes the view into one plain directory.
pub fn write_to(view: &View, branches: &[PathBuf], plain: &Path) {
    let mut written: HashMap<(u64, u64), PathBuf> = HashMap::new();
    for (path, shown) in view {
        let to = plain.join(path);
        if *shown == Shown::Directory {
            fs::create_dir(to).unwrap();
            continue;
        }
        let there = branches.iter().map(|branch| branch.join(path).symlink_metadata());
        let found = there.filter_map(Result::ok).find(|found| !found.is_dir()).unwrap();
        let inode = (found.dev(), found.ino());
        match (written.get(&inode), shown) {
            (Some(other), _) => fs::hard_link(other, &to).unwrap(),
            (None, Shown::Link(target)) => std::os::unix::fs::symlink(target, &to).unwrap(),
            (None, Shown::File(bytes, _)) => fs::write(&to, bytes).unwrap(),
            (None, Shown::Directory) => unreachable!(),
        }
        written.insert(inode, to);
    }
}
