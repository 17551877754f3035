//! The load that is recorded: one operation at a time on a union, each marked before and after.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    os::unix::fs::MetadataExt,
    path::Path,
    time::UNIX_EPOCH,
};

use anyhow::{Context, Result};
use braid_types::Random;
use braid_union::{BranchMode, NodeId, Pool, RenameMode, Union, User};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{BRANCHES, META, Model, POOL, disk, model::bytes};

const NAMES: &[&str] = &["a", "b", "c", "d"];
const DEPTH_MAX: usize = 3;

/// An operation through the union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new file with the bytes of a token.
    Create(String, u64),
    /// A new directory.
    MakeDirectory(String),
    /// Of a file or an empty directory.
    Remove(String),
    /// What has the new name is replaced.
    Rename(String, String),
    /// The two change places.
    Exchange(String, String),
    /// To a branch.
    Move(String, u8),
    /// All files of a branch move to the others.
    Drain(u8),
    /// `fsync` of a file and of each directory above it.
    Sync(String),
    /// `syncfs`.
    SyncAll,
}

/// The operations of a seed. Each succeeds.
pub fn operations(seed: u64, count: usize) -> Vec<Operation> {
    let (mut model, mut random) = (Model::default(), Random::new(seed));
    let mut all = Vec::new();
    while all.len() < count {
        if let Some(next) = next(&model, &mut random, all.len() as u64) {
            model.apply(&next);
            all.push(next);
        }
    }
    all
}

/// `None`: the names that were chosen do not fit.
fn next(model: &Model, random: &mut Random, number: u64) -> Option<Operation> {
    let there: Vec<String> = model.names.keys().cloned().collect();
    let is_file = |path: &String| model.names[path].is_some();
    let new = new_path(model, random);
    let is_new = !model.names.contains_key(&new);
    let some = random.pick(&there).cloned();
    match random.below(20) {
        0..=4 => is_new.then_some(Operation::Create(new, number)),
        5 | 6 => is_new.then_some(Operation::MakeDirectory(new)),
        7 => some.filter(|path| is_file(path) || model.is_empty(path)).map(Operation::Remove),
        8..=12 => {
            let (from, to) = (some?, new);
            let apart = apart(&from, &to);
            let fits = match model.names.get(&to) {
                None => true,
                Some(Some(_)) => is_file(&from),
                Some(None) => !is_file(&from) && model.is_empty(&to),
            };
            (apart && fits).then_some(Operation::Rename(from, to))
        }
        13 => {
            let (one, other) = (some?, random.pick(&there)?.clone());
            apart(&one, &other).then_some(Operation::Exchange(one, other))
        }
        14 | 15 => Some(Operation::Move(some?, random.below(BRANCHES.into()) as u8)),
        16 => Some(Operation::Drain(random.below(BRANCHES.into()) as u8)),
        17 | 18 => some.filter(is_file).map(Operation::Sync),
        _ => Some(Operation::SyncAll),
    }
}

fn new_path(model: &Model, random: &mut Random) -> String {
    let directories = model.names.iter().filter(|(_, entry)| entry.is_none());
    let mut directories: Vec<&str> = directories.map(|(path, _)| path.as_str()).collect();
    directories.retain(|path| path.split('/').count() < DEPTH_MAX);
    directories.push("");
    let directory = random.pick(&directories).copied().unwrap_or_default();
    let name = random.pick(NAMES).copied().unwrap_or_default();
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Neither is in the other.
fn apart(one: &str, other: &str) -> bool {
    let (one, other) = (format!("{one}/"), format!("{other}/"));
    !one.starts_with(&other) && !other.starts_with(&one)
}

/// Runs the operations of a seed on a new union in `dir`; the progress is marked in `dir`/marks.
/// This is the process that the recorder runs.
pub fn load(dir: &Path, seed: u64, count: usize) -> Result<()> {
    let mut marks = File::create(dir.join("marks"))?;
    let root = dir.join(POOL);
    let disks: Vec<_> =
        (0..BRANCHES).map(|number| (root.join(disk(number)), BranchMode::Rw)).collect();
    disks.iter().try_for_each(|(disk, _)| fs::create_dir(disk))?;
    let mut pool = Pool::create(&root.join(META), "test", &disks, Some(0))?;
    pool.set_placement("round-robin".parse().map_err(anyhow::Error::msg)?)?;
    let union = Union::open(&pool)?;
    // The disks are in use for a long time already.
    for name in (0..BRANCHES).map(disk).chain([META.to_owned()]) {
        rustix::fs::syncfs(File::open(root.join(name))?)?;
        File::open(&root)?.sync_all()?;
    }
    // One `write` each: a mark is one event of the trace.
    let mut mark = |text: String| marks.write_all(text.as_bytes()).context("marking");
    mark("ready\n".to_owned())?;
    let mut seen = HashSet::new();
    for (number, operation) in operations(seed, count).iter().enumerate() {
        mark(format!("begin {number}\n"))?;
        act(&union, operation)
            .map_err(|error| anyhow::anyhow!("operation {number}, {operation:?}: {error}"))?;
        for number in 0..BRANCHES {
            mark_inodes(&root, Path::new(&disk(number)), &mut seen, &mut mark)?;
        }
        mark(format!("done {number}\n"))?;
    }
    Ok(())
}

fn mark_inodes(
    root: &Path,
    below: &Path,
    seen: &mut HashSet<String>,
    mark: &mut dyn FnMut(String) -> Result<()>,
) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let path = below.join(entry?.file_name());
        let found = fs::symlink_metadata(root.join(&path))?;
        let created = found.created()?.duration_since(UNIX_EPOCH)?;
        let (seconds, nanoseconds) = (created.as_secs(), created.subsec_nanos());
        let inode = format!("{} {seconds} {nanoseconds}", found.ino());
        if seen.insert(inode.clone()) {
            mark(format!("inode {inode} {}\n", path.display()))?;
        }
        if found.is_dir() {
            mark_inodes(root, &path, seen, mark)?;
        }
    }
    Ok(())
}

/// The node at a path.
pub(super) fn node(union: &Union, path: &str) -> Result<NodeId, Errno> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    parts.try_fold(NodeId::ROOT, |at, part| Ok(union.look_up(at, part.as_bytes())?.node))
}

fn act(union: &Union, operation: &Operation) -> Result<(), Errno> {
    let parent = |path: &str| {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok::<_, Errno>((node(union, directory)?, name.as_bytes().to_vec()))
    };
    let rename = |from: &str, to: &str, mode| {
        let ((from, old), (to, new)) = (parent(from)?, parent(to)?);
        union.rename((from, &old), (to, &new), mode)
    };
    // Files that cannot move stay.
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let user =
        User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    match operation {
        Operation::Create(path, token) => {
            let (directory, name) = parent(path)?;
            let (_, file) = union.create(directory, &name, OFlags::RDWR, (0o644, 0), user)?;
            let written = union.write(&file, 0, &bytes(*token), false);
            union.close(&file);
            written.map(drop)
        }
        Operation::MakeDirectory(path) => {
            let (directory, name) = parent(path)?;
            union.create_directory(directory, &name, (0o755, 0), user).map(drop)
        }
        Operation::Remove(path) => {
            let (directory, name) = parent(path)?;
            match union.attributes(node(union, path)?)?.is_directory() {
                true => union.remove_directory(directory, &name),
                false => union.unlink(directory, &name),
            }
        }
        Operation::Rename(from, to) => rename(from, to, RenameMode::Replace),
        Operation::Exchange(one, other) => rename(one, other, RenameMode::Exchange),
        Operation::Move(path, branch) => union.move_to(path.as_bytes(), *branch, go_on).map(drop),
        Operation::Drain(branch) => union.drain(*branch, None, go_on).map(drop),
        Operation::Sync(path) => {
            let file = union.open_file(node(union, path)?, OFlags::RDONLY)?;
            let synced = union.sync(&file, false);
            union.close(&file);
            let ends = path.match_indices('/').map(|(at, _)| at);
            let above = std::iter::once(0).chain(ends).map(|end| node(union, &path[..end]));
            above
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .try_for_each(|directory| union.sync_directory(directory))?;
            synced
        }
        Operation::SyncAll => union.sync_all(),
    }
}
