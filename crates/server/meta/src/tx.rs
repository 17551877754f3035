//! One change of the namespace: an operation collects its changes here and commits them as one
//! batch (I7).
//!
//! Invariants:
//! 1. Nothing outside the transaction changes before the store has committed the batch: neither
//!    caches, nor counters, nor the open table. A failed operation leaves no trace. `publish`
//!    asserts that the batch is gone when it begins.
//! 2. Operations read inodes through the transaction, which returns the version that it has
//!    changed. An inode is in `dirty` at most once; `commit` asserts it.
//! 3. A file index is given out once. `new_file` asserts that it is below the counter's
//!    reservation; `reserve` forces the reservation to disk before an index of it is given out.
//! 4. A file that a session has open for writing has the size mark (I5), which is in the batch of
//!    the open. `commit` asserts it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use braid_layout::Layout;
use braid_types::{Failure, FileIndex, SessionId, ShardId, Status, Timestamp, fold};

use crate::identity::Replay;
use crate::key;
use crate::lease::modes::{self, IgnoredOpens, OpenMode};
use crate::namespace::{COUNTERS_RESERVED, Counter, Namespace, Writer};
use crate::opens::OpenFile;
use crate::quota::{GrantChange, UsageDelta, add_usage_deltas};
use crate::record::{
    self, ClusterIdentity, Deletion, DirectoryChange, Entry, Inode, Outcome, Quota, QuotaOwner,
    ReplayRecord, Usage, decode_entry, write_cookie, write_entry, write_folded_name,
};
use crate::store::{Batch, ReserveUse};

/// The operation that a replay record belongs to. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Op {
    Create = 1,
    Mkdir = 2,
    Mknod = 3,
    Symlink = 4,
    Link = 5,
    Unlink = 6,
    Rmdir = 7,
    Rename = 8,
    SetAttributes = 9,
    SetXattr = 10,
    RemoveXattr = 11,
    Open = 12,
    Close = 13,
    BeginIntent = 14,
    FinishIntent = 15,
    RecordSize = 16,
    SetDefault = 17,
    SetLayout = 18,
    Sessions = 19,
    Cluster = 20,
    Reap = 21,
    Mend = 22,
    CreateUnnamed = 23,
    SetQuota = 24,
    AssignQuotaDirectory = 25,
    Remove = 26,
    IndexNames = 27,
}

impl Op {
    /// Whether a used-up quota refuses it. The other operations undo something, or record what has
    /// happened already.
    pub(crate) fn is_bounded(self) -> bool {
        use Op::{Create, CreateUnnamed, Mkdir, Mknod, SetAttributes, Symlink};
        matches!(self, Create | Mkdir | Mknod | Symlink | CreateUnnamed | SetAttributes)
    }

    /// How much of the log's reserve it may use when the disk of the metadata is full.
    pub(crate) fn reserve_use(self) -> ReserveUse {
        use Op::{
            BeginIntent, Close, Cluster, FinishIntent, Mend, Reap, RecordSize, Remove, RemoveXattr,
            Rmdir, Sessions, Unlink,
        };
        match self {
            Unlink | Rmdir | Remove | Close | FinishIntent | RecordSize | Cluster | Reap | Mend
            | RemoveXattr => ReserveUse::All,
            // A client that removes files needs a session, and one that truncates an intent.
            BeginIntent | Sessions => ReserveUse::Half,
            _ => ReserveUse::None,
        }
    }
}

pub(crate) struct Tx<'a> {
    ns: &'a Namespace,
    pub(crate) writer: &'a mut Writer,
    pub(crate) now: Timestamp,
    pub(crate) batch: Batch,
    /// Changed inodes in their newest version; `None` removes one. There are few of them, so this
    /// is a list.
    dirty: Vec<(FileIndex, Option<Arc<Inode>>)>,
    counters: Vec<(ShardId, Counter)>,
    opens: Vec<OpenFile>,
    cluster: Option<ClusterIdentity>,
    /// Names that may have led to a directory and no longer do.
    stale_names: Vec<(FileIndex, Box<[u8]>)>,
    /// Files that this transaction created: they have no earlier version in the store.
    new_files: Vec<FileIndex>,
    /// Further changes of growth grants.
    grant_changes: Vec<GrantChange>,
    quotas: Vec<(QuotaOwner, Option<Quota>)>,
    /// How many deletions it adds to the queue.
    deletions: u64,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(ns: &'a Namespace, writer: &'a mut Writer, now: Timestamp) -> Self {
        Self {
            ns,
            writer,
            now,
            batch: Batch::new(),
            dirty: Vec::with_capacity(4),
            counters: Vec::new(),
            opens: Vec::new(),
            cluster: None,
            stale_names: Vec::new(),
            new_files: Vec::new(),
            grant_changes: Vec::new(),
            quotas: Vec::new(),
            deletions: 0,
        }
    }

    pub(crate) fn find_inode(&self, file: FileIndex) -> Result<Option<Arc<Inode>>, Failure> {
        match self.dirty.iter().find(|(changed, _)| *changed == file) {
            Some((_, inode)) => Ok(inode.clone()),
            None => self.ns.find_inode(file),
        }
    }

    pub(crate) fn inode(&self, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        self.find_inode(file)?.ok_or_else(|| Status::StaleHandle.into())
    }

    /// A directory in which names may be created. One that was removed while it was open is
    /// `NotFound`.
    pub(crate) fn directory(&self, file: FileIndex) -> Result<Arc<Inode>, Failure> {
        let inode = self.inode(file)?;
        match (inode.is_directory(), inode.nlink) {
            (false, _) => Err(Status::NotDirectory.into()),
            (true, 0) => Err(Status::NotFound.into()),
            (true, _) => Ok(inode),
        }
    }

    /// The inode that an entry leads to. If it is missing, the store is corrupted.
    pub(crate) fn target(&self, entry: &Entry) -> Result<Arc<Inode>, Failure> {
        let what = || {
            Failure::new(
                Status::Corrupted,
                format!("an entry leads to file {}, which does not exist", entry.file),
            )
        };
        self.find_inode(entry.file)?.ok_or_else(what)
    }

    /// Changes an inode. It gets the newest number of the change counter.
    pub(crate) fn put_inode(&mut self, mut inode: Inode) -> Arc<Inode> {
        inode.change = inode.change.max(self.ns.next_change());
        self.put_inode_keeping_change(inode)
    }

    /// Changes an inode and leaves its change counter: the counter is set already, or nothing
    /// changes that it stands for.
    pub(crate) fn put_inode_keeping_change(&mut self, inode: Inode) -> Arc<Inode> {
        let inode = Arc::new(inode);
        self.set_dirty(inode.file, Some(inode.clone()));
        inode
    }

    fn set_dirty(&mut self, file: FileIndex, inode: Option<Arc<Inode>>) {
        match self.dirty.iter_mut().find(|(changed, _)| *changed == file) {
            Some(slot) => slot.1 = inode,
            None => self.dirty.push((file, inode)),
        }
    }

    /// The one shared copy of a layout in memory.
    pub(crate) fn intern_layout(&self, layout: Arc<Layout>) -> Arc<Layout> {
        // The placement keeps its own copy of a layout and hands it out again: it is shared
        // already.
        if Arc::strong_count(&layout) > 1 { layout } else { self.ns.layouts.intern(layout) }
    }

    /// Reads a key as it was before this transaction.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.ns.store.get(key)?)
    }

    pub(crate) fn entry(
        &self,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Option<Entry>, Failure> {
        self.ns.find_entry(directory, name)
    }

    /// Makes an existing name lead to another file.
    /// The cookie stays, and so does the folded name.
    pub(crate) fn replace_entry(&mut self, directory: FileIndex, name: &[u8], entry: &Entry) {
        self.stale_names.push((directory, name.into()));
        self.put_entry(directory, name, entry);
    }

    /// Adds a name under all of its keys.
    pub(crate) fn add_entry(&mut self, directory: &Inode, name: &[u8], entry: &Entry) {
        self.put_entry(directory.file, name, entry);
        if directory.keeps_name_index() {
            self.index_name(directory.file, name, entry.cookie);
        }
    }

    /// Adds a name to the index of folded names.
    pub(crate) fn index_name(&mut self, directory: FileIndex, name: &[u8], cookie: u64) {
        let key = key::folded_name(directory, &fold(name), cookie);
        self.batch.put_with(key, |out| write_folded_name(out, name));
    }

    fn put_entry(&mut self, directory: FileIndex, name: &[u8], entry: &Entry) {
        self.batch.put_with(key::entry(directory, name), |out| write_entry(out, entry));
        self.batch
            .put_with(key::cookie(directory, entry.cookie), |out| write_cookie(out, entry, name));
    }

    pub(crate) fn remove_entry(&mut self, from: &Inode, name: &[u8], entry: &Entry) {
        let directory = from.file;
        if from.keeps_name_index() {
            self.batch.remove(key::folded_name(directory, &fold(name), entry.cookie));
        }
        if entry.kind == record::FileKind::Directory {
            self.stale_names.push((directory, name.into()));
        }
        self.batch.remove(key::entry(directory, name));
        self.batch.remove(key::cookie(directory, entry.cookie));
    }

    /// A file index that was never given out.
    pub(crate) fn new_file(&mut self, shard: ShardId) -> Result<FileIndex, Failure> {
        let mut counter = self.counter(shard)?;
        if counter.next == counter.reserved {
            counter.reserved += COUNTERS_RESERVED;
            self.reserve(shard, counter.reserved)?;
        }
        assert!(counter.next < counter.reserved, "3: a file index is reserved before it is used");
        let file = FileIndex::new(shard, counter.next);
        counter.next += 1;
        self.counters.retain(|(other, _)| *other != shard);
        self.counters.push((shard, counter));
        let file = file.ok_or_else(|| {
            Failure::new(Status::NoSpace, format!("shard {shard} has no file index left"))
        })?;
        self.new_files.push(file);
        Ok(file)
    }

    /// The first of `count` file indexes that follow each other and were never given out. Files get
    /// them later (`ops/import.rs`).
    pub(crate) fn reserve_files(
        &mut self,
        shard: ShardId,
        count: u32,
    ) -> Result<FileIndex, Failure> {
        let mut counter = self.counter(shard)?;
        let (first, next) = (counter.next, counter.next + u64::from(count));
        let none_left =
            || Failure::new(Status::NoSpace, format!("shard {shard} has no file index left"));
        let index = FileIndex::new(shard, first).ok_or_else(none_left)?;
        FileIndex::new(shard, next).ok_or_else(none_left)?;
        if next > counter.reserved {
            counter.reserved = next + COUNTERS_RESERVED;
            self.reserve(shard, counter.reserved)?;
        }
        counter.next = next;
        self.counters.retain(|(other, _)| *other != shard);
        self.counters.push((shard, counter));
        Ok(index)
    }

    /// Whether [`Tx::reserve_files`] or [`Tx::new_file`] gave out a file index, before this
    /// transaction.
    pub(crate) fn was_given_out(&self, file: FileIndex) -> Result<bool, Failure> {
        let is_shard = file.shard().0 < self.ns.shards;
        Ok(is_shard && file.counter() > 1 && file.counter() < self.counter(file.shard())?.next)
    }

    /// Commits the reservation in a batch of its own and forces it. A loss of power may take the
    /// create; if it took the reservation too, the index would be given out again while objects of
    /// the first file are still on the daemons.
    fn reserve(&self, shard: ShardId, reserved: u64) -> Result<(), Failure> {
        let mut batch = Batch::new();
        batch.put(key::counter(shard), encode_counter(reserved));
        let sequence = self.ns.store.commit(batch, self.ns.fence)?;
        Ok(self.ns.store.sync(sequence)?)
    }

    fn counter(&self, shard: ShardId) -> Result<Counter, Failure> {
        let mine =
            self.counters.iter().find(|(other, _)| *other == shard).map(|(_, counter)| *counter);
        if let Some(counter) = mine.or_else(|| self.writer.counters.get(&shard).copied()) {
            return Ok(counter);
        }
        // After a start, every counter below the recorded one may have been given out. Counter 0 is
        // no file, 1 is the root.
        let reserved =
            self.get(&key::counter(shard))?.map_or(Ok(2), |bytes| decode_counter(&bytes))?;
        Ok(Counter { first: reserved, next: reserved, reserved })
    }

    /// The shard of a new directory: round robin.
    pub(crate) fn next_shard(&mut self) -> ShardId {
        let shard = self.writer.next_shard % self.ns.shards;
        self.writer.next_shard = (shard + 1) % self.ns.shards;
        ShardId(shard)
    }

    /// One session's opens of a file, with this transaction's changes.
    pub(crate) fn open_of(&self, file: FileIndex, session: SessionId) -> OpenFile {
        let mine = self.opens.iter().rfind(|open| open.file == file && open.session == session);
        mine.cloned().unwrap_or_else(|| self.writer.opens.of(file, session))
    }

    pub(crate) fn set_open(&mut self, open: OpenFile) {
        let before = self.open_of(open.file, open.session);
        if before.writers != open.writers {
            let key = key::write_open(open.file, open.session);
            match open.writers {
                0 => self.batch.remove(key),
                writers => self.batch.put(key, encode_writers(writers)),
            }
        }
        if before.denying != open.denying {
            let key = key::modes(open.file, open.session);
            match open.denying.is_empty() {
                true => self.batch.remove(key),
                false => self.batch.put(key, record::encode_modes(&open.denying)),
            }
        }
        self.opens.push(open);
    }

    /// Refuses an open whose mode conflicts with another open.
    pub(crate) fn check_mode(
        &self,
        file: FileIndex,
        mode: OpenMode,
        beside: IgnoredOpens,
    ) -> Result<(), Failure> {
        if mode.deny.is_none() && self.writer.opens.denying() == 0 {
            return Ok(());
        }
        modes::find_conflict(mode, self.writer.opens.of_file(file), beside)
            .map_or(Ok(()), |excluded| Err(excluded.into()))
    }

    /// Refuses to remove or move a name of a file while an open of it denies that.
    pub(crate) fn check_delete(&self, file: FileIndex) -> Result<(), Failure> {
        if !self.writer.opens.denied(file).delete {
            return Ok(());
        }
        Err(Failure::new(
            Status::SharingViolation,
            "another program has the file open and denies that it is moved or removed",
        ))
    }

    /// Whether another session has the file open.
    pub(crate) fn open_elsewhere(&self, file: FileIndex, session: SessionId) -> bool {
        self.writer.opens.is_open_elsewhere(file, session)
    }

    pub(crate) fn set_cluster(&mut self, cluster: ClusterIdentity) {
        self.batch.put(key::cluster(), cluster.encode());
        self.cluster = Some(cluster);
    }

    /// Whether a truncate or punch of the file was begun and not finished.
    pub(crate) fn has_intent(&self, inode: &Inode) -> Result<bool, Failure> {
        // The first intent of a file raises its generation, so that generation 0 has none.
        Ok(inode.size_generation.0 != 0 && self.get(&key::intent(inode.file))?.is_some())
    }

    /// The change counter of a directory, with this transaction's changes; 0 if it does not exist.
    pub(crate) fn change_counter(&self, directory: FileIndex) -> Result<u64, Failure> {
        Ok(self.find_inode(directory)?.map_or(0, |inode| inode.change))
    }

    /// Removes an inode that has neither names nor opens, and queues its objects for deletion.
    pub(crate) fn delete_inode(&mut self, inode: &Inode) -> Result<(), Failure> {
        let file = inode.file;
        let intent = self.has_intent(inode)?;
        if let Some(deletion) = Deletion::of(inode, intent) {
            self.batch.put(key::deletion(file), deletion.encode());
            self.deletions += 1;
        }
        if inode.kind == record::FileKind::Symlink {
            self.batch.remove(key::symlink(file));
        }
        if inode.has_default {
            self.batch.remove(key::directory_default(file));
        }
        if inode.has_xattrs {
            for name in self.ns.xattr_names(file)? {
                self.batch.remove(key::xattr(file, &name));
            }
        }
        if intent {
            self.batch.remove(key::intent(file));
        }
        if inode.quota_directory == file {
            self.set_quota(QuotaOwner::Directory(file), None);
        }
        self.set_dirty(file, None);
        Ok(())
    }

    /// Commits the collected changes. If nothing changes, nothing is committed, and a retry simply
    /// runs again. An open counts as a change even if it leaves no record: a retry must not count
    /// it twice.
    pub(crate) fn commit(
        mut self,
        replay: Option<Replay>,
        op: Op,
        home: ShardId,
        (outcome, directories): (&Outcome, &[DirectoryChange]),
        bounded: bool,
    ) -> Result<(), Failure> {
        let changed = self.account(bounded)?;
        debug_assert!(self.dirty_files_differ(), "2: an inode is changed in one place");
        debug_assert!(self.writers_are_marked(), "4: a file with a writer has the size mark (I5)");
        let mut encoded = None;
        for (file, inode) in &self.dirty {
            let Some(inode) = inode else {
                self.batch.remove(key::inode(*file));
                continue;
            };
            let record = self.batch.put_with(key::inode(*file), |out| inode.write(out));
            if outcome.returns(inode) {
                encoded = Some(record);
            }
        }
        if !self.batch.is_empty() || (replay.is_some() && !self.opens.is_empty()) {
            if let Some(Replay { session, slot, sequence, request }) = replay {
                let recorded = ReplayRecord {
                    sequence,
                    op: op as u8,
                    request: Some(request),
                    outcome: outcome.clone(),
                    directories: directories.to_vec(),
                };
                self.batch
                    .put_with(key::replay(home, session, slot), |out| recorded.write(out, encoded));
            }
            self.ns.store.commit(std::mem::take(&mut self.batch), self.ns.fence)?;
            if let Some(Replay { session, slot, sequence, .. }) = replay {
                self.writer.replays.insert((session, slot), sequence);
            }
        }
        self.publish(changed);
        Ok(())
    }

    fn dirty_files_differ(&self) -> bool {
        let is_first =
            |at: usize| self.dirty[..at].iter().all(|(file, _)| *file != self.dirty[at].0);
        (0..self.dirty.len()).all(is_first)
    }

    fn writers_are_marked(&self) -> bool {
        self.opens.iter().filter(|open| open.writers > 0).all(|open| {
            match self.find_inode(open.file) {
                Ok(Some(inode)) => inode.size_in_objects,
                _ => true,
            }
        })
    }

    /// Makes the committed changes visible in memory.
    fn publish(mut self, changed: UsageChanges) {
        assert!(self.batch.is_empty(), "1: the batch is committed before memory changes");
        self.publish_quotas(changed);
        self.ns.deletions.fetch_add(self.deletions, Ordering::Relaxed);
        for (file, inode) in self.dirty {
            match inode {
                Some(inode) => self.ns.cache.set(inode),
                None => self.ns.cache.remove(file),
            }
        }
        self.stale_names
            .iter()
            .for_each(|(directory, name)| self.ns.directory_names.forget(*directory, name));
        self.writer.counters.extend(self.counters);
        if !self.opens.is_empty() {
            self.opens.into_iter().for_each(|open| self.writer.opens.set(open));
            self.ns.denying.store(self.writer.opens.denying(), Ordering::Release);
        }
        if let Some(cluster) = self.cluster {
            self.writer.cluster = cluster;
        }
    }
}

/// How a batch changes usage.
#[derive(Default)]
pub(crate) struct UsageChanges {
    /// Each changed inode as it was before.
    before: Vec<Option<Arc<Inode>>>,
    usage: Vec<(ShardId, QuotaOwner, Usage)>,
}

/// Quotas: invariant 1 of `quota/mod.rs`.
impl Tx<'_> {
    pub(crate) fn set_quota(&mut self, owner: QuotaOwner, quota: Option<Quota>) {
        match &quota {
            Some(quota) => self.batch.put(key::quota(owner), quota.encode()),
            None => self.batch.remove(key::quota(owner)),
        }
        self.quotas.push((owner, quota));
    }

    /// An owner's limits, with this transaction's changes.
    pub(crate) fn quota(&self, owner: QuotaOwner) -> Option<Quota> {
        let mine = self.quotas.iter().rfind(|(of, _)| *of == owner);
        mine.map_or_else(|| self.writer.usage.quota(owner), |(_, quota)| *quota)
    }

    pub(crate) fn note_grant_change(&mut self, mark: GrantChange) {
        self.grant_changes.push(mark);
    }

    /// Adds the new usage of each owner to the batch. With `bounded`, refuses usage above a limit.
    fn account(&mut self, bounded: bool) -> Result<UsageChanges, Failure> {
        let mut accounts = UsageChanges::default();
        let mut shards: Vec<(ShardId, Vec<UsageDelta>)> = Vec::new();
        let mut all = Vec::new();
        for (file, new) in &self.dirty {
            let old =
                if self.new_files.contains(file) { None } else { self.ns.find_inode(*file)? };
            let mut deltas = Vec::new();
            add_usage_deltas(&mut deltas, old.as_ref(), new.as_ref());
            if !deltas.is_empty() {
                add_usage_deltas(&mut all, old.as_ref(), new.as_ref());
                match shards.iter_mut().find(|(shard, _)| *shard == file.shard()) {
                    Some((_, shard)) => add_usage_deltas(shard, old.as_ref(), new.as_ref()),
                    None => shards.push((file.shard(), deltas)),
                }
            }
            accounts.before.push(old);
        }
        let usage_table = &self.writer.usage;
        for delta in all.iter().filter(|_| bounded) {
            usage_table.check(delta, self.now)?;
        }
        for (shard, deltas) in shards {
            accounts.usage.extend(
                deltas
                    .iter()
                    .map(|delta| (shard, delta.owner, usage_table.usage_after(shard, delta))),
            );
        }
        for (shard, owner, usage) in &accounts.usage {
            match *usage == Usage::default() {
                true => self.batch.remove(key::usage(*shard, *owner)),
                false => self.batch.put(key::usage(*shard, *owner), usage.encode()),
            }
        }
        for delta in all {
            self.update_grace_start(&delta);
        }
        Ok(accounts)
    }

    /// The start of the time above a soft limit changes together with the usage.
    fn update_grace_start(&mut self, delta: &UsageDelta) {
        let untouched = !self.quotas.iter().any(|(owner, _)| *owner == delta.owner);
        if let Some(after) =
            self.writer.usage.quota_after(delta.owner, delta, self.now).filter(|_| untouched)
        {
            self.set_quota(delta.owner, Some(after));
        }
    }

    fn publish_quotas(&mut self, accounts: UsageChanges) {
        let leaving = self.leaving();
        let Writer { usage: usage_table, recount, .. } = &mut *self.writer;
        accounts
            .usage
            .into_iter()
            .for_each(|(shard, owner, usage)| usage_table.set_usage(shard, owner, usage));
        for (owner, quota) in self.quotas.drain(..) {
            usage_table.set_quota(owner, quota);
            self.ns.has_quotas.store(usage_table.has_limits(), Ordering::Release);
        }
        for ((file, new), old) in self.dirty.iter().zip(&accounts.before) {
            if let Some(recount) = recount {
                recount.inode_changed(*file, old.as_ref(), new.as_ref());
            }
            if let Some(inode) = new {
                let of_inode = |mark: &&GrantChange| {
                    let (GrantChange::SizeChangeBegun { file, .. }
                    | GrantChange::SizeChangeDone { file, .. }) = mark;
                    *file == inode.file
                };
                self.grant_changes
                    .iter()
                    .filter(of_inode)
                    .for_each(|mark| usage_table.apply_grant_change(inode, *mark));
            }
            usage_table.update_file(*file, new.as_deref());
        }
        leaving.into_iter().for_each(|(inode, session)| usage_table.end_writer(&inode, session));
    }

    /// Sessions that no longer have a file open for writing while other sessions do.
    fn leaving(&self) -> Vec<(Arc<Inode>, SessionId)> {
        if !self.ns.has_quotas.load(Ordering::Acquire) {
            return Vec::new();
        }
        let others = |open: &&OpenFile| {
            open.writers == 0
                && self
                    .writer
                    .opens
                    .writers(open.file)
                    .iter()
                    .any(|session| *session != open.session)
        };
        let leaving = self.opens.iter().filter(others);
        leaving.filter_map(|open| Some((self.find_inode(open.file).ok()??, open.session))).collect()
    }
}

impl Namespace {
    pub(crate) fn find_entry(
        &self,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Option<Entry>, Failure> {
        let bytes = self.store.get(&key::entry(directory, name))?;
        Ok(bytes.map(|bytes| decode_entry(&bytes)).transpose()?)
    }
}

const COUNTER_VERSION: u8 = 1;

pub(crate) fn encode_counter(reserved: u64) -> Vec<u8> {
    let mut out = crate::codec::Encoder::new(COUNTER_VERSION);
    out.u64(reserved);
    out.finish()
}

pub(crate) fn decode_counter(bytes: &[u8]) -> Result<u64, Failure> {
    let mut from = crate::codec::Decoder::new("counter", COUNTER_VERSION, bytes)?;
    let reserved = from.u64()?;
    from.finish()?;
    Ok(reserved)
}

fn encode_writers(writers: u32) -> Vec<u8> {
    let mut out = crate::codec::Encoder::new(1);
    out.u32(writers);
    out.finish()
}
