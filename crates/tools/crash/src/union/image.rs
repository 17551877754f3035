//! One crash image of a union: created, opened, checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use anyhow::{Context, Result};
use braid_union::{NodeId, Pool, Union};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;

use super::{
    BRANCHES, CutPoint, META, Operation, Recording, disk,
    model::bytes,
    recording::{InodeThen, State},
};
use crate::disk::{Loss, PowerCut, Tree};

/// The promise that was broken, if any.
pub type Verdict = Result<(), String>;

/// The disks of a union as a loss of power leaves them.
pub struct Image<'r> {
    recording: &'r Recording,
    place: CutPoint,
    dir: PathBuf,
}

impl<'r> Image<'r> {
    /// Writes the image into a new directory.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn make(
        recording: &'r Recording,
        place: CutPoint,
        cut: &PowerCut<'_>,
        loss: &Loss,
        dir: &Path,
    ) -> Result<Self> {
        let tree = cut.image(loss);
        tree.write_to(dir)?;
        let image = Self { recording, place, dir: dir.to_owned() };
        image.move_pool()?;
        image.renumber(&tree)?;
        Ok(image)
    }

    /// The configuration names the directories of the recorded union.
    fn move_pool(&self) -> Result<()> {
        let path = self.dir.join(META).join("pool.toml");
        let text = fs::read_to_string(&path)?;
        let (old, new) = (self.recording.root.display(), self.dir.display());
        Ok(fs::write(path, text.replace(&old.to_string(), &new.to_string()))?)
    }

    /// Intents name inodes: those of the image take the place of the recorded ones.
    fn renumber(&self, tree: &Tree) -> Result<()> {
        let Ok(intents) = fs::read_dir(self.dir.join(META).join("renames")) else { return Ok(()) };
        for intent in intents {
            let path = intent?.path();
            // One that is torn stays torn.
            let Ok(mut value) = serde_json::from_slice::<Value>(&fs::read(&path)?) else {
                continue;
            };
            self.renumber_value(&mut value, tree)?;
            fs::write(path, value.to_string())?;
        }
        Ok(())
    }

    fn renumber_value(&self, value: &mut Value, tree: &Tree) -> Result<()> {
        if let Some(node) = inode(value).and_then(|inode| self.recording.inodes.get(&inode)) {
            *value = match tree.path_of(*node) {
                Some(path) => now(&self.dir.join(path))?,
                None => serde_json::json!([0, 0, 0]),
            };
            return Ok(());
        }
        match value {
            Value::Array(values) => {
                values.iter_mut().try_for_each(|value| self.renumber_value(value, tree))
            }
            Value::Object(fields) => {
                fields.values_mut().try_for_each(|value| self.renumber_value(value, tree))
            }
            _ => Ok(()),
        }
    }

    /// Opens the union and compares what it shows with what was promised, twice.
    pub fn check(&self) -> Verdict {
        for start in ["first", "second"] {
            let pool = Pool::open(&self.dir.join(META)).map_err(|why| why.to_string())?;
            let union = Union::open(&pool)
                .map_err(|why| format!("the {start} start on what is left: {why}"))?;
            let mut shown = BTreeMap::new();
            see(&union, NodeId::ROOT, "", &mut shown)
                .map_err(|(path, error)| format!("reading /{path}: {error}"))?;
            drop(union);
            self.check_files(&shown).map_err(|why| format!("{why}, at the {start} start"))?;
            self.check_places().map_err(|why| format!("{why}, at the {start} start"))?;
        }
        Ok(())
    }

    /// Each file is where it was since the last sync; one that was synced is there.
    fn check_files(&self, shown: &BTreeMap<String, Vec<u8>>) -> Verdict {
        let states = self.recording.states(self.place);
        for token in 0..self.place.begun as u64 {
            let wanted = bytes(token);
            let found: Vec<&String> =
                shown.iter().filter(|(_, bytes)| **bytes == wanted).map(|(path, _)| path).collect();
            let may = paths(token, &states);
            if let Some(path) = found.iter().find(|path| !may.contains(**path)) {
                return Err(format!("token {token} is at {path}, where no operation put it"));
            }
            if found.len() > 1 {
                return Err(format!("token {token} is at {found:?}"));
            }
            let hidden = || self.is_hidden(token, &may);
            if found.is_empty() && is_due(token, &states) && !hidden() {
                let last = states.last().and_then(|state| state.model.path_of(token));
                return Err(format!("token {token} is lost; its last name was {last:?}"));
            }
        }
        Ok(())
    }

    /// Whether a file is on a disk, and another disk has something in its place, or a file in that
    /// of a directory above it. Disks have no order among each other: an old name may be back where
    /// another disk has a new one.
    fn is_hidden(&self, token: u64, paths: &BTreeSet<String>) -> bool {
        let at = |number: u8, path: &str| self.dir.join(disk(number)).join(path);
        let is_there = |number, path: &str, any: bool| {
            at(number, path).symlink_metadata().is_ok_and(|found| any || !found.is_dir())
        };
        let wanted = bytes(token);
        let has = |number, path: &str| fs::read(at(number, path)).is_ok_and(|it| it == wanted);
        paths.iter().any(|path| {
            let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
            let above: Vec<&str> = ends.map(|end| &path[..end]).collect();
            let hides = |number, own| {
                number != own && above.iter().any(|part| is_there(number, part, part == path))
            };
            let mut own = (0..BRANCHES).filter(|number| has(*number, path));
            own.any(|own| (0..BRANCHES).any(|number| hides(number, own)))
        })
    }

    /// No file is on two disks, and nothing of the union's own is left.
    fn check_places(&self) -> Verdict {
        let io = |error: std::io::Error| error.to_string();
        let mut all = BTreeMap::<Vec<u8>, Vec<PathBuf>>::new();
        for number in 0..BRANCHES {
            let disk = self.dir.join(disk(number));
            for entry in fs::read_dir(&disk).map_err(io)? {
                let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
                if name.starts_with(".braid-") && name != ".braid-branch" {
                    return Err(format!("{name} is left on disk {number}"));
                }
            }
            walk(&disk, &mut all).map_err(io)?;
        }
        for token in 0..self.place.begun as u64 {
            if let Some(places) = all.get(&bytes(token)).filter(|places| places.len() > 1) {
                return Err(format!("token {token} is at {places:?}"));
            }
        }
        let left = fs::read_dir(self.dir.join(META).join("renames")).map_err(io)?.count();
        if left > 0 { Err(format!("{left} intents are left")) } else { Ok(()) }
    }

    /// Leaves the directory where it is.
    pub fn keep(self) -> PathBuf {
        let image = std::mem::ManuallyDrop::new(self);
        image.dir.clone()
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Where a file may be. Each disk keeps its own order, so a later rename of a directory may be
/// there without an earlier one.
fn paths(token: u64, states: &[State<'_>]) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for State { model, after, .. } in states {
        let renamed: Vec<String> =
            paths.iter().filter_map(|path: &String| renamed(path, (*after)?)).collect();
        paths.extend(renamed);
        paths.extend(model.path_of(token).cloned());
    }
    paths
}

fn renamed(path: &str, operation: &Operation) -> Option<String> {
    let below = |from: &str, to: &str| {
        let rest = path.strip_prefix(from)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
    };
    match operation {
        Operation::Rename(from, to) => below(from, to),
        Operation::Exchange(one, other) => below(one, other).or_else(|| below(other, one)),
        _ => None,
    }
}

/// Whether a file was synced, and has had a name ever since.
fn is_due(token: u64, states: &[State<'_>]) -> bool {
    let has = |state: &State<'_>| state.model.path_of(token).is_some();
    let synced = states.iter().rposition(|state| match state.after.filter(|_| state.done) {
        Some(Operation::Sync(path)) => state.model.names.get(path) == Some(&Some(token)),
        Some(Operation::SyncAll) => has(state),
        _ => false,
    });
    synced.is_some_and(|since| states[since..].iter().all(has))
}

/// `[inode, seconds, nanoseconds]`.
fn inode(value: &Value) -> Option<InodeThen> {
    let [number, seconds, nanoseconds] = &value.as_array()?[..] else { return None };
    Some((number.as_u64()?, seconds.as_i64()?, u32::try_from(nanoseconds.as_u64()?).ok()?))
}

fn now(path: &Path) -> Result<Value> {
    let found = fs::symlink_metadata(path).with_context(|| format!("no {}", path.display()))?;
    let created = found.created()?.duration_since(UNIX_EPOCH)?;
    Ok(serde_json::json!([found.ino(), created.as_secs(), created.subsec_nanos()]))
}

fn see(
    union: &Union,
    directory: NodeId,
    path: &str,
    shown: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), (String, Errno)> {
    let listing = union.list(directory).map_err(|error| (path.to_owned(), error))?;
    for entry in listing.entries.iter() {
        let name = String::from_utf8_lossy(&entry.name);
        let below = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
        let failed = |error| (below.clone(), error);
        let found = union.look_up(directory, &entry.name).map_err(failed)?;
        if found.attributes.is_directory() {
            see(union, found.node, &below, shown)?;
            continue;
        }
        let file = union.open_file(found.node, OFlags::RDONLY).map_err(failed)?;
        let mut bytes = vec![0; found.attributes.size as usize];
        let read = union.read(&file, 0, &mut bytes);
        union.close(&file);
        bytes.truncate(read.map_err(failed)?);
        shown.insert(below, bytes);
    }
    Ok(())
}

fn walk(directory: &Path, all: &mut BTreeMap<Vec<u8>, Vec<PathBuf>>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), all)?;
        } else {
            all.entry(fs::read(entry.path())?).or_default().push(entry.path());
        }
    }
    Ok(())
}
