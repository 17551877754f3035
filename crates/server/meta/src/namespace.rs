//! The namespace as a whole: how it is created, opened, read and changed.
//!
//! Lock order: `writer`, then the store's locks, then one slice of a cache. Readers do not take
//! `writer`. They look up names in the store, and inodes in the cache or the store; they see each
//! batch completely.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};

use braid_types::{
    ClusterUuid, Failure, FileIndex, IdHashBuilder, MapEpoch, MdsEpoch, SessionId, ShardId, Status,
    Timestamp,
};

use crate::cache::InodeCache;
use crate::change_counter::ChangeCounter;
use crate::directory_name_cache::DirectoryNameCache;
use crate::identity::{Call, Replay};
use crate::key::{self, Kind};
use crate::layout_table::LayoutTable;
use crate::opens::{OpenFile, OpenTable};
use crate::quota::{self, Recount, UsageTable};
use crate::record::{
    ClusterIdentity, DirectoryChange, FileKind, Inode, Outcome, Parts, Principal, RecordError,
    ReplayRecord, decode_modes,
};
use crate::store::{Batch, Fence, MetaStore, Sequence, Snapshot, StoreError};
use crate::tx::{Op, Tx, encode_counter};

/// Limits and settings of the namespace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Inodes cached in memory, at about 400 B each.
    pub cached_inodes_max: usize,
    /// Identifies the host's boot: no committed change can have been lost with the power since
    /// then. `None` if it is unknown. See `change_counter.rs`.
    pub boot: Option<u128>,
}

impl Default for Options {
    /// 262,144 inodes, up to 100 MiB. A stat of an inode that is not in memory takes a fifth
    /// longer.
    fn default() -> Self {
        Self { cached_inodes_max: 262_144, boot: Some(0) }
    }
}

/// Names, inodes and their records over a [`MetaStore`]. See the crate's documentation.
pub struct Namespace {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) cache: InodeCache,
    pub(crate) directory_names: DirectoryNameCache,
    pub(crate) layouts: LayoutTable,
    pub(crate) fence: Fence,
    pub(crate) shards: u16,
    /// Whether any owner has a quota. If not, opens pass without the writer's lock.
    pub(crate) has_quotas: AtomicBool,
    /// As [`OpenTable::denying`]. If it is 0, calls pass without the writer's lock.
    pub(crate) denying: AtomicUsize,
    /// Files whose objects wait for deletion.
    pub(crate) deletions: AtomicU64,
    changes: ChangeCounter,
    writer: Mutex<Writer>,
}

/// State that only the holder of the writer's lock reads and changes.
pub(crate) struct Writer {
    pub(crate) counters: HashMap<ShardId, Counter, IdHashBuilder>,
    pub(crate) next_shard: u16,
    pub(crate) opens: OpenTable,
    /// See [`Namespace::keep_orphans`].
    pub(crate) keep_orphans: bool,
    /// The newest sequence of each slot seen since the start. A newer one needs no lookup in the
    /// store.
    pub(crate) replays: HashMap<(SessionId, u32), u64, IdHashBuilder>,
    pub(crate) cluster: ClusterIdentity,
    pub(crate) usage: UsageTable,
    /// A recount by fsck that is in progress.
    pub(crate) recount: Option<Recount>,
}

/// File counters of one shard. Those in `[next, reserved)` may be given out without a record.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    /// The first one that this epoch of the server gives out.
    pub(crate) first: u64,
    pub(crate) next: u64,
    pub(crate) reserved: u64,
}

/// Counters reserved at a time; a crash wastes at most twice as many of 2^48. At 60,000 creates a
/// second, half of them last a shard for two ticks of the server, in which
/// [`Namespace::reserve_ahead`] gets the next ones.
pub(crate) const COUNTERS_RESERVED: u64 = 65_536;
/// The first cookie of a directory. 0 means "from the start"; 1 and 2 are left to gateways for "."
/// and "..".
pub(crate) const COOKIE_FIRST: u64 = 3;

impl Namespace {
    /// Creates an empty namespace with `shards` shards in an empty store, synced.
    pub fn format(
        store: &dyn MetaStore,
        uuid: ClusterUuid,
        shards: u16,
        now: Timestamp,
    ) -> Result<(), Failure> {
        if store.get(&key::cluster())?.is_some() {
            return Err(Failure::new(
                Status::Exists,
                "the metadata directory already holds a cluster",
            ));
        }
        let identity = ClusterIdentity {
            uuid,
            epoch: MdsEpoch(0),
            map_epoch: MapEpoch(0),
            shards: shards.max(1),
            next_session: 1,
            next_iod: 1,
            next_key: 1,
        };
        let mut batch = Batch::new();
        batch.put(key::cluster(), identity.encode());
        let root = Arc::new(root(now));
        batch.put(key::inode(FileIndex::ROOT), root.encode());
        let mut deltas = Vec::new();
        quota::add_usage_deltas(&mut deltas, None, Some(&root));
        for delta in deltas {
            let usage = UsageTable::default().usage_after(FileIndex::ROOT.shard(), &delta);
            batch.put(key::usage(FileIndex::ROOT.shard(), delta.owner), usage.encode());
        }
        let sequence = store.commit(batch, store.fence())?;
        Ok(store.sync(sequence)?)
    }

    /// Opens a namespace and takes it over: the epoch rises, and with it the leader fence, so that
    /// an older server's commits are refused.
    pub fn open(store: Arc<dyn MetaStore>, options: Options) -> Result<Self, Failure> {
        let Some(bytes) = store.get(&key::cluster())? else {
            let why = "the metadata store holds no cluster: its creation was interrupted; \
                       try: braid init with a new directory";
            return Err(Failure::new(Status::NotFound, why));
        };
        let mut cluster = ClusterIdentity::decode(&bytes)?;
        cluster.epoch.0 = cluster.epoch.0.max(store.fence().0) + 1;
        let fence = Fence(cluster.epoch.0);
        let mut batch = Batch::new();
        batch.put(key::cluster(), cluster.encode());
        let changes = ChangeCounter::begin(&*store, &mut batch, cluster.epoch, options.boot)?;
        let sequence = store.commit(batch, fence)?;
        store.sync(sequence)?;
        let opens = load_opens(&*store, cluster.shards)?;
        let usage = load_usage(&*store, cluster.shards)?;
        let limited = AtomicBool::new(usage.has_limits());
        let denying = AtomicUsize::new(opens.denying());
        let deletions = AtomicU64::new(count_deletions(&*store, cluster.shards)?);
        let (counters, replays) = (HashMap::default(), HashMap::default());
        let writer = Writer {
            counters,
            next_shard: 0,
            opens,
            keep_orphans: false,
            replays,
            cluster,
            usage,
            recount: None,
        };
        let cache = InodeCache::new(options.cached_inodes_max);
        Ok(Self {
            store,
            cache,
            directory_names: DirectoryNameCache::new(),
            layouts: LayoutTable::default(),
            fence,
            shards: cluster.shards,
            has_quotas: limited,
            denying,
            deletions,
            changes,
            writer: Mutex::new(writer),
        })
    }

    /// This server's epoch.
    pub fn epoch(&self) -> MdsEpoch {
        MdsEpoch(self.fence.0)
    }

    /// The next number of the change counter, above every number that was reported.
    pub fn next_change(&self) -> u64 {
        self.changes.next()
    }

    /// Shards in use: shard ids are below it.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// Inodes cached now.
    pub fn cached_inodes(&self) -> usize {
        self.cache.len()
    }

    /// The number of the last change; for [`Namespace::sync_to`].
    pub fn committed(&self) -> Sequence {
        self.store.committed()
    }

    /// Reserves file indexes for shards that have given out half of theirs, so that no create waits
    /// for the disk while others queue behind it. The log is forced outside the lock; the new
    /// indexes are given out after that.
    pub fn reserve_ahead(&self) -> Result<(), Failure> {
        let mut batch = Batch::new();
        let mut writer = self.writer();
        let low = |counter: &Counter| counter.reserved - counter.next < COUNTERS_RESERVED / 2;
        let mut ahead: Vec<(ShardId, u64)> = Vec::new();
        for (shard, counter) in writer.counters.iter().filter(|(_, counter)| low(counter)) {
            let reserved = counter.reserved + COUNTERS_RESERVED;
            batch.put(key::counter(*shard), encode_counter(reserved));
            ahead.push((*shard, reserved));
        }
        if ahead.is_empty() {
            return Ok(());
        }
        // Under the lock, in the order of other reservations: no recorded counter may fall.
        let sequence = self.store.commit(batch, self.fence)?;
        drop(writer);
        self.store.sync(sequence)?;
        writer = self.writer();
        for (shard, reserved) in ahead {
            if let Some(counter) = writer.counters.get_mut(&shard) {
                assert!(counter.next <= counter.reserved, "an index is reserved before it is used");
                counter.reserved = counter.reserved.max(reserved);
            }
        }
        Ok(())
    }

    /// Whether [`Namespace::reserve_ahead`] has something to do.
    pub fn is_low_on_indexes(&self) -> bool {
        self.writer()
            .counters
            .values()
            .any(|counter| counter.reserved - counter.next < COUNTERS_RESERVED / 2)
    }

    /// Returns when everything done so far survives a loss of power (I6). Callers at the same time
    /// share a flush.
    pub fn sync(&self) -> Result<(), Failure> {
        self.sync_to(self.store.committed())
    }

    /// Returns when everything up to `sequence` survives a loss of power (I6).
    pub fn sync_to(&self, sequence: Sequence) -> Result<(), Failure> {
        Ok(self.store.sync(sequence)?)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(braid_types::poisoned)
    }

    /// Runs one operation as one batch with its replay record, or answers it from the record (I7).
    /// `home` is the shard of the record. It depends on the request alone, so that a retry finds
    /// the record.
    pub(crate) fn change(
        &self,
        call: &Call<'_>,
        op: Op,
        home: FileIndex,
        body: impl FnOnce(&mut Tx<'_>) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        self.change_directories(call, op, (home, &[]), body).map(|(outcome, _)| outcome)
    }

    /// As [`Namespace::change`]. Returns also the change counter of each of these directories
    /// before and after the operation, which its record has, too: a retry returns the same. None
    /// are returned from a record of an earlier version.
    pub(crate) fn change_directories(
        &self,
        call: &Call<'_>,
        op: Op,
        (home, directories): (FileIndex, &[FileIndex]),
        body: impl FnOnce(&mut Tx<'_>) -> Result<Outcome, Failure>,
    ) -> Result<(Outcome, Vec<DirectoryChange>), Failure> {
        let mut writer = self.writer();
        if let Some(replay) = call.replay
            && let Some(recorded) = self.recorded(&writer, replay, op, home.shard())?
        {
            return Ok((recorded.outcome, recorded.directories));
        }
        let mut tx = Tx::new(self, &mut writer, call.now);
        tx.batch.allow_reserve(op.reserve_use());
        let mut changes = Vec::with_capacity(directories.len());
        for directory in directories {
            let before = tx.change_counter(*directory)?;
            changes.push(DirectoryChange { before, after: before });
        }
        let outcome = body(&mut tx)?;
        for (change, directory) in changes.iter_mut().zip(directories) {
            change.after = tx.change_counter(*directory)?;
            // Invariant 1 of `change_counter.rs`.
            debug_assert!(change.after >= change.before, "1: a change counter never falls");
        }
        // chown(2) by root moves usage even above a limit, as on XFS.
        let bounded = op.is_bounded() && !(op == Op::SetAttributes && call.who.is_root());
        tx.commit(call.replay, op, home.shard(), (&outcome, &changes), bounded)?;
        Ok((outcome, changes))
    }

    fn recorded(
        &self,
        writer: &Writer,
        replay: Replay,
        op: Op,
        home: ShardId,
    ) -> Result<Option<ReplayRecord>, Failure> {
        let known = writer.replays.get(&(replay.session, replay.slot));
        if known.is_some_and(|known| replay.sequence > *known) {
            return Ok(None);
        }
        let Some(bytes) = self.store.get(&key::replay(home, replay.session, replay.slot))? else {
            return if known.is_some() { Err(reused(replay)) } else { Ok(None) };
        };
        let recorded = ReplayRecord::decode(&bytes)?;
        let is_it = recorded.op == op as u8
            && recorded.request.is_none_or(|request| request == replay.request);
        match recorded.sequence {
            same if same == replay.sequence && is_it => Ok(Some(recorded)),
            older if older < replay.sequence && known.is_none() => Ok(None),
            _ => Err(reused(replay)),
        }
    }

    /// Whether this server created the file, so that nothing of it can have been lost with the
    /// power. Every index that an earlier epoch may have given out is below the first one of this
    /// epoch in its shard.
    pub fn is_created_in_this_epoch(&self, file: FileIndex) -> bool {
        let first = self.writer().counters.get(&file.shard()).map(|counter| counter.first);
        first.is_some_and(|first| file.counter() >= first)
    }

    /// An inode, from memory or the store; `None` if it does not exist.
    pub(crate) fn find_inode(&self, file: FileIndex) -> Result<Option<Arc<Inode>>, Failure> {
        self.find_inode_by(file, |key| self.store.get(key))
    }

    /// As `find_inode`, for a caller with a snapshot: a thread takes no second one.
    pub(crate) fn find_inode_in(
        &self,
        view: &dyn Snapshot,
        file: FileIndex,
    ) -> Result<Option<Arc<Inode>>, Failure> {
        self.find_inode_by(file, |key| view.get(key))
    }

    fn find_inode_by(
        &self,
        file: FileIndex,
        read: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Option<Arc<Inode>>, Failure> {
        let missed = match self.cache.get(file) {
            Ok(inode) => return Ok(Some(inode)),
            Err(missed) => missed,
        };
        let Some(bytes) = read(&key::inode(file))? else { return Ok(None) };
        let mut inode = self.decode(file, &bytes)?;
        inode.layout = inode.layout.map(|layout| self.layouts.intern(layout));
        let inode = Arc::new(inode);
        self.cache.add(inode.clone(), missed);
        Ok(Some(inode))
    }

    /// Decodes an inode and raises its change counter to the floor.
    pub(crate) fn decode(&self, file: FileIndex, bytes: &[u8]) -> Result<Inode, RecordError> {
        let mut inode = Inode::decode(file, bytes)?;
        inode.change = inode.change.max(self.changes.floor());
        Ok(inode)
    }

    /// An inode that a caller named by its index.
    pub(crate) fn inode(&self, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        self.find_inode(file)?.ok_or_else(|| Status::StaleHandle.into())
    }

    /// A directory that a caller named by its index.
    pub(crate) fn directory(&self, directory: FileIndex) -> Result<Arc<Inode>, Failure> {
        let inode = self.inode(directory)?;
        if inode.is_directory() { Ok(inode) } else { Err(Status::NotDirectory.into()) }
    }
}

fn reused(replay: Replay) -> Failure {
    let Replay { session, slot, sequence, .. } = replay;
    Failure::new(
        Status::Malformed,
        format!(
            "slot {slot} of session {session} used sequence {sequence} for another call before"
        ),
    )
}

pub(crate) fn root(now: Timestamp) -> Inode {
    Inode {
        file: FileIndex::ROOT,
        kind: FileKind::Directory,
        mode: 0o755,
        owner: Principal::default(),
        group: Principal::default(),
        nlink: 2,
        size: 0,
        size_in_objects: false,
        mtime_set: false,
        linked: false,
        size_generation: Default::default(),
        rdev: 0,
        layout: None,
        parts: Parts::none(),
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        change: 1,
        flags: 0,
        parent: FileIndex::ROOT,
        quota_directory: FileIndex(0),
        next_cookie: COOKIE_FIRST,
        has_default: false,
        has_xattrs: false,
        acl: None,
        unnamed: false,
    }
}

fn load_opens(store: &dyn MetaStore, shards: u16) -> Result<OpenTable, Failure> {
    let mut opens = OpenTable::default();
    let view = store.snapshot()?;
    for shard in 0..shards {
        let mut broken = false;
        let mut load = |kind, take: &mut dyn FnMut(OpenFile, &[u8]) -> Option<OpenFile>| {
            let range = key::all(ShardId(shard), kind);
            view.scan(&range.from, &range.end, &mut |key, value| {
                let of = key::file_of(key).zip(key::number_of(key));
                let open =
                    of.and_then(|(file, session)| take(opens.of(file, SessionId(session)), value));
                match open {
                    Some(open) => opens.set(open),
                    None => broken = true,
                }
                ControlFlow::Continue(())
            })
        };
        load(Kind::WriteOpen, &mut |open, value| {
            let writers = value.strip_prefix(&[1])?;
            Some(OpenFile { writers: u32::from_le_bytes(writers.try_into().ok()?), ..open })
        })?;
        load(Kind::Modes, &mut |open, value| open.with_denying(decode_modes(value).ok()?))?;
        if broken {
            return Err(StoreError::Corrupted("a record of an open file is invalid".into()).into());
        }
    }
    Ok(opens)
}

fn load_usage(store: &dyn MetaStore, shards: u16) -> Result<UsageTable, Failure> {
    let mut usage = UsageTable::default();
    let view = store.snapshot()?;
    (0..shards).try_for_each(|shard| usage.load(&*view, ShardId(shard)))?;
    Ok(usage)
}

fn count_deletions(store: &dyn MetaStore, shards: u16) -> Result<u64, Failure> {
    let (mut count, view) = (0, store.snapshot()?);
    for shard in 0..shards {
        let range = key::all(ShardId(shard), Kind::Deletion);
        view.scan(&range.from, &range.end, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
    }
    Ok(count)
}
