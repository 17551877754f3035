//! What an online check reads, inodes and entries of a shard page by page, and what it may mend.

use std::ops::ControlFlow;
use std::sync::Arc;

use braid_types::{Failure, FileIndex, ShardId, Status};

use super::make;
use super::readdir::PAGE_ENTRIES_MAX;
use crate::identity::Call;
use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::record::{Inode, Outcome, Parts, RecordError};
use crate::store::Batch;
use crate::tx::{Op, Tx};

impl Namespace {
    /// Up to `count_max` (at most 1024) inodes of a shard after `after`, in the order of their
    /// indexes. An inode whose record cannot be read is an error next to its index.
    #[allow(clippy::type_complexity)]
    pub fn files(
        &self,
        shard: ShardId,
        after: Option<FileIndex>,
        count_max: usize,
    ) -> Result<Vec<(FileIndex, Result<Arc<Inode>, RecordError>)>, Failure> {
        let mut range = key::all(shard, Kind::Inode);
        if let Some(after) = after {
            range.from = key::inode(after).to_vec();
            range.from.push(0);
        }
        let mut found = Vec::new();
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, value| {
            if found.len() == count_max.min(PAGE_ENTRIES_MAX) {
                return ControlFlow::Break(());
            }
            let file = key::file_of(key).unwrap_or_default();
            found.push((file, self.decode(file, value).map(Arc::new)));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The needs-fsck flag: why the file system must be checked, if so. Its metadata was salvaged,
    /// or loaded from a dump.
    pub fn needs_fsck(&self) -> Result<Option<String>, Failure> {
        let value = self.store.get(&key::needs_fsck())?;
        Ok(value
            .map(|value| String::from_utf8_lossy(value.get(1..).unwrap_or_default()).into_owned()))
    }

    /// Clears the needs-fsck flag, synced: the file system was checked and found clean.
    pub fn clear_needs_fsck(&self) -> Result<(), Failure> {
        let mut batch = Batch::new();
        batch.remove(key::needs_fsck());
        let sequence = self.store.commit(batch, self.fence)?;
        Ok(self.store.sync(sequence)?)
    }

    /// Records a correct size, or parts in addition to the recorded ones, for fsck. No part is
    /// removed from the record: a missing part is a loss (I11). Only for root.
    ///
    /// # Errors
    /// [`Status::Busy`] while the file has the size mark or an intent: what was measured may be out
    /// of date.
    pub fn mend(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        size: Option<u64>,
        parts: Option<Parts>,
    ) -> Result<(), Failure> {
        self.change(call, Op::Mend, file, |tx| {
            let mut inode = found(tx, call, file, None)?;
            if inode.size_in_objects || tx.has_intent(&inode)? {
                return Err(Failure::new(
                    Status::Busy,
                    "the file is being written; try: braid fsck --mend again",
                ));
            }
            inode.size = size.unwrap_or(inode.size);
            parts.iter().for_each(|parts| inode.parts.merge(parts));
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Records parts of a file that is being written as existing: their daemon was removed, so
    /// nobody can find out whether they exist. Reads of them return an error instead of zeros
    /// (I11). Only for root.
    pub fn assume_parts(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        parts: &Parts,
    ) -> Result<(), Failure> {
        self.change(call, Op::Mend, file, |tx| {
            let mut inode = found(tx, call, file, None)?;
            if inode.size_in_objects {
                inode.parts.merge(parts);
                inode.touch(tx.now);
                tx.put_inode(inode);
            }
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Records how many names lead to a file, or a directory's link count. Nothing is done if the
    /// file changed after its change counter was `change`: the count may be out of date. Only for
    /// root.
    ///
    /// # Errors
    /// [`Status::TryAgain`] if it changed.
    pub fn mend_links(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        links: u32,
        change: u64,
    ) -> Result<(), Failure> {
        self.change(call, Op::Mend, file, |tx| {
            let mut inode = found(tx, call, file, Some(change))?;
            inode.nlink = links;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Gives a file without a name one in a directory: lost+found. A directory keeps its link
    /// count, which counts the directories in it; any other file then has one name. `change` as in
    /// [`Namespace::mend_links`]. Only for root.
    ///
    /// # Errors
    /// [`Status::TryAgain`] if it changed.
    pub fn adopt(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        directory: FileIndex,
        name: &[u8],
        change: u64,
    ) -> Result<(), Failure> {
        self.change(call, Op::Mend, directory, |tx| {
            let mut inode = found(tx, call, file, Some(change))?;
            let parent = make::free_name(tx, call, directory, name, inode.kind)?;
            make::add_name(tx, &parent.directory, name, file, inode.kind);
            if !inode.is_directory() {
                inode.nlink = 1;
            }
            inode.parent = directory;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }
}

/// The inode that root wants to mend, if its change counter is still `change`.
fn found(
    tx: &Tx<'_>,
    call: &Call<'_>,
    file: FileIndex,
    change: Option<u64>,
) -> Result<Inode, Failure> {
    if !call.who.is_root() {
        return Err(Status::NotPermitted.into());
    }
    let inode = tx.inode(file)?;
    match change {
        Some(change) if change != inode.change => Err(Status::TryAgain.into()),
        _ => Ok((*inode).clone()),
    }
}
