//! What an online check reads: inodes and entries of a shard, page by page, and what it may mend.

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
    /// Up to `count_max` (at most 1024) inodes of a shard after `after`, in the order of their indexes. An inode
    /// whose record cannot be read comes as an error beside its index.
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
        self.store.view()?.scan(&range.from, &range.end, &mut |key, value| {
            if found.len() == count_max.min(PAGE_ENTRIES_MAX) {
                return ControlFlow::Break(());
            }
            let file = key::file_of(key).unwrap_or_default();
            found.push((file, self.decode(file, value).map(Arc::new)));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Why the file system must be checked, where it must: its metadata was salvaged, or loaded from a dump.
    pub fn fsck_mark(&self) -> Result<Option<String>, Failure> {
        let value = self.store.get(&key::fsck_mark())?;
        Ok(value
            .map(|value| String::from_utf8_lossy(value.get(1..).unwrap_or_default()).into_owned()))
    }

    /// The file system was checked and found clean: the mark is taken off, synced.
    pub fn clear_fsck_mark(&self) -> Result<(), Failure> {
        let mut batch = Batch::new();
        batch.remove(key::fsck_mark());
        let sequence = self.store.commit(batch, self.fence)?;
        Ok(self.store.sync(sequence)?)
    }

    /// Records a true size, or parts besides those on record, for fsck. No part is taken off the record: one that is
    /// missing is a loss (I11). Root's alone.
    ///
    /// # Errors
    /// [`Status::Busy`] while the size is in the objects or a truncate stands: what was measured may be old.
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
                    "the file is being written; try: braid fsck --mend once more",
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

    /// Records parts as existing of a file that is being written: their daemon is gone, and nobody can tell any more whether they
    /// exist. Who reads them is told so, and gets no zeros (I11). Root's alone.
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

    /// Records how many names lead to a file, or what a directory's count is, unless the file changed after its
    /// change counter was `change`: then the count may be old, and nothing is done. Root's alone.
    ///
    /// # Errors
    /// [`Status::TryAgain`] when it changed.
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

    /// Gives a file that no name leads to one in a directory: lost+found. A directory keeps its link count, which is
    /// that of the directories in it; anything else has one name from then on. `change` as in
    /// [`Namespace::mend_links`]. Root's alone.
    ///
    /// # Errors
    /// [`Status::TryAgain`] when it changed.
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
            let place = make::free_name(tx, call, directory, name)?;
            make::add_name(tx, &place.directory, name, file, inode.kind);
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

/// The inode that root wants mended, as it was when its change counter was `change`.
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
