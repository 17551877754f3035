//! Salvage: copies what is readable of a damaged metadata store into a new one, reports what is
//! lost, and sets the needs-fsck flag until `braid fsck` has found the file system clean.
//!
//! ```text
//! DIR/{synced, log.*, base}  ──read──▶ DIR/salvaging/ ──whole──▶ DIR/salvaged/ ──▶ DIR/
//!                            ──moved, unchanged──▶ DIR/damaged-1/
//! ```
//!
//! 1. The damaged files are never written. They are moved once the new store is complete and
//!    synced.
//! 2. The next call finishes an interrupted move: `salvaged` exists until everything is in its
//!    place. A store without its file `synced`, which is moved away first and put in place last,
//!    does not start.
//! 3. No file index, cookie, session or epoch that a lost batch may have given out is given out
//!    again. The gaps below ensure it; nothing in the store could check it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braid_types::limits::SHARDS_DEFAULT;
use braid_types::{
    ClusterUuid, Failure, FileIndex, IdHashBuilder, MapEpoch, MdsEpoch, ShardId, Status, Timestamp,
    fold,
};

use crate::key::{self, Kind};
use crate::namespace::{COOKIE_FIRST, root};
use crate::record::{
    ClusterIdentity, Entry, FileKind, Inode, decode_cookie, decode_entry, decode_folded_name,
    write_cookie, write_entry, write_folded_name,
};
use crate::store::engine::{self, DumpSummary, SalvagedRecords};
use crate::store::{Batch, Engine, EngineOptions, Fence, MetaStore, StoreError};
use crate::tx::{decode_counter, encode_counter};

/// The gap that a salvaged or loaded store leaves between its recorded counters and the ones it
/// continues with. It is larger than lost batches can have used, and leaves 65,536 salvages in the
/// 48 bits of a file counter.
const COUNTER_GAP: u64 = 1 << 32;
/// The same for the cookies of each directory whose counter is behind its entries.
const COOKIE_GAP: u64 = 1 << 20;
/// The same for the epochs of the server. Far below 2^20, after which the change counter of files
/// begins again (`change_counter.rs`): a gap of 2^20 would repeat its numbers.
const EPOCH_GAP: u64 = 1 << 10;
/// The same for sessions and the epochs of the cluster map.
const SESSION_GAP: u64 = 1 << 20;
/// Approximate bytes of the batches in which changes are committed.
const BATCH_BYTES: usize = 64 << 10;
/// Names that are listed; further ones are counted.
const NAMES_MAX: usize = 1000;
/// Directories above a name, at most.
const DEPTH_MAX: usize = 4096;

const BUILDING: &str = "salvaging";
const BUILT: &str = "salvaged";
const DAMAGED: &str = "damaged-";

/// The result of a salvage.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SalvageOutcome {
    /// Nothing is damaged; nothing was done.
    Whole,
    /// An earlier salvage had been interrupted and was finished. The damaged files are in this
    /// directory.
    Ended(PathBuf),
    /// The store was replaced by a new one.
    Done(Box<Salvaged>),
}

/// A salvage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged {
    /// Why the store did not start.
    pub damage: String,
    /// What was copied and what is lost.
    pub salvaged: SalvagedRecords,
    /// What was repaired.
    pub repaired: Repaired,
    /// Where the damaged files are, unchanged.
    pub damaged_directory: PathBuf,
}

/// What was corrected in the records themselves. The rest is for `braid fsck`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Entries whose record by name or by cookie was lost and was restored from the other one.
    pub entries: u64,
    /// Names that lead to no file, at most 1000; with their path if the directories above exist.
    pub dangling: Vec<String>,
    /// How many names lead to no file.
    pub dangling_count: u64,
    /// The record of the cluster was lost and was created again.
    pub cluster: bool,
    /// The root directory's inode was lost and was created again.
    pub root: bool,
}

/// Turns the damaged store in `directory` into one that starts, and sets the needs-fsck flag.
/// `uuid` is needed if the record of the cluster is lost.
///
/// # Errors
/// [`Status::Busy`] while a server runs on it; [`Status::NotFound`] if the directory holds no
/// store; a full disk; a format that this program does not know.
pub fn salvage(
    directory: &Path,
    uuid: Option<ClusterUuid>,
    now: Timestamp,
) -> Result<SalvageOutcome, Failure> {
    let fail = |what| move |error| Failure::from(StoreError::disk(what, error));
    if !directory.is_dir()
        || !(engine::holds_anything(directory)? || directory.join(BUILT).exists())
    {
        return Err(StoreError::Missing(directory.display().to_string()).into());
    }
    let _lock = engine::lock(directory)?;
    if directory.join(BUILT).is_dir() {
        return Ok(SalvageOutcome::Ended(install(directory)?));
    }
    engine::refuse_other_format(directory)?;
    let damage = match engine::check(directory) {
        Ok(()) => return Ok(SalvageOutcome::Whole),
        Err(error) => error.to_string(),
    };
    let building = directory.join(BUILDING);
    if building.exists() {
        std::fs::remove_dir_all(&building)
            .map_err(fail("remove the remains of an earlier salvage"))?;
    }
    let built = build(directory, &building, &damage, uuid, now).inspect_err(|_| {
        // The next salvage removes what stays.
        let _ = std::fs::remove_dir_all(&building);
    });
    let (taken, repaired) = built?;
    std::fs::rename(&building, directory.join(BUILT)).map_err(fail("name the salvaged store"))?;
    engine::sync_directory(directory)?;
    let damaged = install(directory)?;
    Ok(SalvageOutcome::Done(Box::new(Salvaged {
        damage,
        salvaged: taken,
        repaired,
        damaged_directory: damaged,
    })))
}

/// Builds a complete store in `building` from what is readable in `directory`.
fn build(
    directory: &Path,
    building: &Path,
    damage: &str,
    uuid: Option<ClusterUuid>,
    now: Timestamp,
) -> Result<(SalvagedRecords, Repaired), Failure> {
    let store = Engine::create(building, EngineOptions::default())?;
    let taken = engine::salvage_records(directory, &mut |batch| match batch.is_empty() {
        true => Ok(()),
        false => store.commit(batch, store.fence()).map(drop),
    })?;
    let repaired = restore(&store, damage, uuid, taken.fence, now)?;
    store.sync(store.committed())?;
    store.checkpoint()?;
    Ok((taken, repaired))
}

/// Moves the damaged store aside and the one in `salvaged` into its place.
fn install(directory: &Path) -> Result<PathBuf, Failure> {
    let fail = |error| Failure::from(StoreError::disk("move files of the metadata store", error));
    let built = directory.join(BUILT);
    let number =
        (1..).find(|n| !directory.join(format!("{DAMAGED}{}", n + 1)).exists()).unwrap_or(1);
    let latest = directory.join(format!("{DAMAGED}{number}"));
    // An interrupted installation continues in the directory that it created, which holds its mark.
    let mark = "unfinished";
    let aside = match latest.join(mark).exists() || !latest.exists() {
        true => latest,
        false => directory.join(format!("{DAMAGED}{}", number + 1)),
    };
    std::fs::create_dir_all(&aside).map_err(fail)?;
    std::fs::write(aside.join(mark), b"").map_err(fail)?;
    engine::sync_directory(&aside)?;
    engine::sync_directory(directory)?;
    // Until the first new file is in place, everything there belongs to the old store.
    if engine::base_directory(&built).exists() {
        for name in engine::files(directory)? {
            std::fs::rename(directory.join(&name), aside.join(&name)).map_err(fail)?;
            engine::sync_directory(directory)?;
        }
        engine::sync_directory(&aside)?;
    }
    // The base comes first; the file that makes the directory a store comes last.
    for name in engine::files(&built)?.into_iter().rev() {
        std::fs::rename(built.join(&name), directory.join(&name)).map_err(fail)?;
        engine::sync_directory(directory)?;
    }
    std::fs::remove_dir_all(&built).map_err(fail)?;
    std::fs::remove_file(aside.join(mark)).map_err(fail)?;
    engine::sync_directory(directory)?;
    Ok(aside)
}

/// Creates a store in `directory`, which must hold none, from a dump, synced. Sets the needs-fsck
/// flag, since the objects may be newer.
///
/// # Errors
/// [`Status::Exists`]; [`Status::Corrupted`] for an incomplete dump. Nothing is created then.
pub fn load(directory: &Path, from: &mut dyn Read, now: Timestamp) -> Result<DumpSummary, Failure> {
    let (store, dumped) = engine::load(directory, from)?;
    let loaded = restore(&store, "loaded from a dump", None, Fence(0), now).and_then(|_| {
        store.sync(store.committed())?;
        Ok(store.checkpoint()?)
    });
    drop(store);
    if loaded.is_err() {
        engine::remove(directory)?;
    }
    loaded.map(|()| dumped)
}

/// What a pass over every record finds.
#[derive(Default)]
struct RecordSurvey {
    repaired: Repaired,
    fixes: Batch,
    /// The next file counter of each shard.
    counters: BTreeMap<u16, u64>,
    /// The highest cookie of each directory.
    cookies: HashMap<FileIndex, u64, IdHashBuilder>,
    /// The parent and name of each directory.
    directories: HashMap<FileIndex, (FileIndex, Vec<u8>), IdHashBuilder>,
    /// The last directory of an entry, and whether it keeps an index of folded names.
    indexed: Option<(FileIndex, bool)>,
    dangling: Vec<(FileIndex, Vec<u8>)>,
    root_entries: u64,
    has_root: bool,
    next_session: u64,
    next_iod: u32,
    next_key: u64,
}

/// Makes the records of `store` consistent where that is certain, raises the counters that must not
/// repeat, and sets the needs-fsck flag.
fn restore(
    store: &Engine,
    why: &str,
    uuid: Option<ClusterUuid>,
    fence: Fence,
    now: Timestamp,
) -> Result<Repaired, Failure> {
    let mut survey = survey_records(store)?;
    let bytes = store.get(&key::cluster())?;
    let known = bytes.and_then(|bytes| ClusterIdentity::decode(&bytes).ok());
    survey.repaired.cluster = known.is_none();
    let shards = survey.counters.keys().last().map_or(0, |shard| shard + 1);
    let mut cluster = match (known, uuid) {
        (Some(known), _) => known,
        (None, Some(uuid)) => ClusterIdentity {
            uuid,
            epoch: MdsEpoch(0),
            map_epoch: MapEpoch(0),
            shards: shards.max(SHARDS_DEFAULT),
            next_session: 1,
            next_iod: 1,
            next_key: 1,
        },
        (None, None) => {
            let why = "the record of the cluster is lost; \
                       try: the same command with --config braid.toml, which has its UUID";
            return Err(Failure::new(Status::Corrupted, why));
        }
    };
    cluster.shards = cluster.shards.max(shards);
    cluster.epoch.0 = cluster.epoch.0.max(fence.0) + EPOCH_GAP;
    cluster.map_epoch.0 += SESSION_GAP;
    cluster.next_session = cluster.next_session.max(survey.next_session) + SESSION_GAP;
    cluster.next_iod = cluster.next_iod.max(survey.next_iod);
    cluster.next_key = cluster.next_key.max(survey.next_key);
    let fence = Fence(cluster.epoch.0);
    let mut fixes = std::mem::take(&mut survey.fixes);
    fixes.put(key::cluster(), cluster.encode());
    for shard in 0..cluster.shards {
        let next = survey.counters.get(&shard).copied().unwrap_or(0) + COUNTER_GAP;
        fixes.put(key::counter(ShardId(shard)), encode_counter(next));
    }
    if !survey.has_root {
        survey.repaired.root = true;
        let last = survey.cookies.get(&FileIndex::ROOT).copied().unwrap_or(COOKIE_FIRST);
        let root = Inode { size: survey.root_entries, next_cookie: last + COOKIE_GAP, ..root(now) };
        fixes.put(key::inode(FileIndex::ROOT), root.encode());
    }
    fixes.put(key::needs_fsck(), [&[1], why.as_bytes()].concat());
    let mut batch = Batch::new();
    for change in fixes.changes() {
        let value = change.value.unwrap_or_default();
        if !batch.is_empty() && batch.bytes() + change.key.len() + value.len() >= BATCH_BYTES {
            store.commit(std::mem::take(&mut batch), fence)?;
        }
        match change.value {
            Some(value) => batch.put(change.key, value),
            None => batch.remove(change.key),
        }
    }
    store.commit(batch, fence)?;
    survey.repaired.dangling_count = survey.dangling.len() as u64;
    let listed = survey.dangling.iter().take(NAMES_MAX);
    survey.repaired.dangling =
        listed.map(|(directory, name)| survey.path(*directory, name)).collect();
    Ok(survey.repaired)
}

fn survey_records(store: &Engine) -> Result<RecordSurvey, Failure> {
    let mut survey = RecordSurvey::default();
    let view = store.snapshot()?;
    let mut outcome = Ok(());
    view.scan(b"", &[0xff; 16], &mut |key, value| {
        outcome = survey.record(&*view, key, value);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome?;
    Ok(survey)
}

impl RecordSurvey {
    fn record(
        &mut self,
        view: &dyn crate::store::Snapshot,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let (Some(shard), Some(kind)) =
            (key.first_chunk::<2>().map(|shard| u16::from_be_bytes(*shard)), key.get(2))
        else {
            return Ok(());
        };
        let number = key
            .get(3..)
            .unwrap_or_default()
            .iter()
            .take(8)
            .fold(0, |n, byte| n << 8 | u64::from(*byte));
        let file = key::file_of(key).unwrap_or_default();
        match *kind {
            b if b == Kind::Cookie as u8 => self.by_cookie(view, file, key, value)?,
            b if b == Kind::Entry as u8 => self.by_name(view, file, key, value)?,
            b if b == Kind::FoldedName as u8 => self.by_folded_name(view, file, key, value)?,
            b if b == Kind::Inode as u8 => self.inode(shard, file, value),
            b if b == Kind::Counter as u8 => {
                let counter = self.counters.entry(shard).or_default();
                *counter = (*counter).max(decode_counter(value).unwrap_or_default());
            }
            b if b == Kind::Session as u8 => self.next_session = self.next_session.max(number + 1),
            b if b == Kind::ClientKey as u8 => self.next_key = self.next_key.max(number + 1),
            b if b == Kind::Iod as u8 => self.next_iod = self.next_iod.max(number as u32 + 1),
            _ => {}
        }
        Ok(())
    }

    fn by_cookie(
        &mut self,
        view: &dyn crate::store::Snapshot,
        directory: FileIndex,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let Some((cookie, Ok((entry, name)))) =
            key::number_of(key).map(|cookie| (cookie, decode_cookie(cookie, value)))
        else {
            return Ok(());
        };
        self.entry(directory, cookie, entry, name);
        self.index(view, directory, cookie, name)?;
        if view.get(&key::entry(directory, name))?.is_none() {
            self.repaired.entries += 1;
            self.fixes.put_with(key::entry(directory, name), |out| write_entry(out, &entry));
        }
        if view.get(&key::inode(entry.file))?.is_none() {
            self.dangling.push((directory, name.to_vec()));
        }
        Ok(())
    }

    fn by_name(
        &mut self,
        view: &dyn crate::store::Snapshot,
        directory: FileIndex,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let (name, Ok(entry)) = (key::tail_of(key), decode_entry(value)) else { return Ok(()) };
        if view.get(&key::cookie(directory, entry.cookie))?.is_none() {
            self.entry(directory, entry.cookie, entry, name);
            self.index(view, directory, entry.cookie, name)?;
            self.repaired.entries += 1;
            self.fixes.put_with(key::cookie(directory, entry.cookie), |out| {
                write_cookie(out, &entry, name)
            });
            if view.get(&key::inode(entry.file))?.is_none() {
                self.dangling.push((directory, name.to_vec()));
            }
        }
        Ok(())
    }

    /// An index record whose name or whose directory's mark was lost is removed.
    fn by_folded_name(
        &mut self,
        view: &dyn crate::store::Snapshot,
        directory: FileIndex,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let mut is_used = false;
        if let (Some(cookie), Ok(name)) = (key::cookie_of_folded(key), decode_folded_name(value)) {
            let entry = view.get(&key::entry(directory, name))?;
            let entry = entry.and_then(|bytes| decode_entry(&bytes).ok());
            is_used = key[..] == key::folded_name(directory, &fold(name), cookie)[..]
                && (entry.is_some_and(|entry| entry.cookie == cookie)
                    || view.get(&key::cookie(directory, cookie))?.is_some());
        }
        if !is_used || !self.keeps_name_index(view, directory)? {
            self.fixes.remove(key);
        }
        Ok(())
    }

    /// Restores the index record of a name.
    fn index(
        &mut self,
        view: &dyn crate::store::Snapshot,
        directory: FileIndex,
        cookie: u64,
        name: &[u8],
    ) -> Result<(), StoreError> {
        let key = key::folded_name(directory, &fold(name), cookie);
        if self.keeps_name_index(view, directory)? && view.get(&key)?.is_none() {
            self.fixes.put_with(key, |out| write_folded_name(out, name));
        }
        Ok(())
    }

    fn keeps_name_index(
        &mut self,
        view: &dyn crate::store::Snapshot,
        directory: FileIndex,
    ) -> Result<bool, StoreError> {
        if let Some((_, keeps)) = self.indexed.filter(|(last, _)| *last == directory) {
            return Ok(keeps);
        }
        let inode = view.get(&key::inode(directory))?;
        let inode = inode.and_then(|bytes| Inode::decode(directory, &bytes).ok());
        let keeps = inode.is_some_and(|inode| inode.keeps_name_index());
        self.indexed = Some((directory, keeps));
        Ok(keeps)
    }

    fn entry(&mut self, directory: FileIndex, cookie: u64, entry: Entry, name: &[u8]) {
        let last = self.cookies.entry(directory).or_default();
        *last = (*last).max(cookie);
        self.root_entries += u64::from(directory == FileIndex::ROOT);
        if entry.kind == FileKind::Directory {
            self.directories.insert(entry.file, (directory, name.to_vec()));
        }
        self.note_used_index(entry.file);
    }

    /// An inode. The entries of its shard have been visited already: their keys come first.
    fn inode(&mut self, shard: u16, file: FileIndex, value: &[u8]) {
        self.counters.entry(shard).or_default();
        self.note_used_index(file);
        self.has_root |= file == FileIndex::ROOT;
        let Ok(inode) = Inode::decode(file, value) else { return };
        let last = self.cookies.get(&file).copied().unwrap_or_default();
        if inode.next_cookie <= last {
            let inode = Arc::new(Inode { next_cookie: last + COOKIE_GAP, ..inode });
            self.fixes.put(key::inode(file), inode.encode());
        }
    }

    fn note_used_index(&mut self, file: FileIndex) {
        let counter = self.counters.entry(file.shard().0).or_default();
        *counter = (*counter).max((file.0 & ((1 << 48) - 1)) + 1);
    }

    fn path(&self, mut directory: FileIndex, name: &[u8]) -> String {
        let mut names = vec![String::from_utf8_lossy(name).into_owned()];
        for _ in 0..DEPTH_MAX {
            if directory == FileIndex::ROOT {
                return names.iter().rev().fold(String::new(), |path, name| path + "/" + name);
            }
            let Some((above, name)) = self.directories.get(&directory) else { break };
            names.push(String::from_utf8_lossy(name).into_owned());
            directory = *above;
        }
        let below = names.iter().rev().map(String::as_str).collect::<Vec<_>>().join("/");
        format!("{below} in directory {directory}")
    }
}
