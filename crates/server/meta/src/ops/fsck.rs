//! What an online check reads: inodes and entries of a shard, page by page, and what it may mend.

use std::ops::ControlFlow;
use std::sync::Arc;

use braid_types::{Failure, FileIndex, ShardId};

use super::make;
use super::readdir::PAGE_ENTRIES_MAX;
use crate::identity::Call;
use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::record::{Inode, Outcome, Parts, RecordError};
use crate::tx::Op;

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
            range.from = key::inode(after);
            range.from.push(0);
        }
        let mut found = Vec::new();
        self.store.view()?.scan(&range.from, &range.end, &mut |key, value| {
            if found.len() == count_max.min(PAGE_ENTRIES_MAX) {
                return ControlFlow::Break(());
            }
            let file = key::file_of(key).unwrap_or_default();
            found.push((file, Inode::decode(file, value).map(Arc::new)));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Records a true size, true parts, or a true link count, for fsck. Root's alone.
    pub fn mend(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        size: Option<u64>,
        parts: Option<Parts>,
        nlink: Option<u32>,
    ) -> Result<(), Failure> {
        self.change(call, Op::Mend, file, |tx| {
            if !call.who.is_root() {
                return Err(braid_types::Status::NotPermitted.into());
            }
            let mut inode = (*tx.inode(file)?).clone();
            inode.size = size.unwrap_or(inode.size);
            inode.parts = parts.unwrap_or(std::mem::take(&mut inode.parts));
            inode.nlink = nlink.unwrap_or(inode.nlink);
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Gives a file that no name leads to one in a directory: lost+found. Its link count stays as recorded: a file
    /// that lost its only name has one. Root's alone.
    pub fn adopt(&self, call: &Call<'_>, file: FileIndex, directory: FileIndex, name: &[u8]) -> Result<(), Failure> {
        self.change(call, Op::Mend, directory, |tx| {
            if !call.who.is_root() {
                return Err(braid_types::Status::NotPermitted.into());
            }
            let mut inode = (*tx.inode(file)?).clone();
            let place = make::free_name(tx, call, directory, name)?;
            make::add_name(tx, &place.directory, name, file, inode.kind);
            inode.parent = directory;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }
}
