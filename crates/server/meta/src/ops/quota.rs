//! Quota: set and show limits, and grant growth of files. ADR 0012.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use braid_types::{Failure, FileIndex, SessionId, ShardId, Status, Timestamp};

use crate::identity::Call;
use crate::key;
use crate::namespace::{Namespace, Writer};
use crate::quota::Recount;
use crate::record::{Inode, Outcome, Quota, QuotaLimit, QuotaOwner, Usage, decode_cookie};
use crate::store::Batch;
use crate::tx::{Op, Tx};

/// Inodes that one page of a count or a walk reads or changes under the writer's lock. Even with
/// layouts of 256 parts they are far below the limit of a batch.
const PAGE_INODES: usize = 128;

/// An owner's usage and limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaState {
    /// The owner.
    pub owner: QuotaOwner,
    /// The recorded usage.
    pub usage: Usage,
    /// Further counted bytes: of files that are being written, or whose size is not recorded yet.
    pub in_flight: u128,
    /// Its limits; `None` if it has none.
    pub quota: Option<Quota>,
}

/// The result of one step of a walk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuotaWalkPage {
    /// The cookie after which to continue; `None`: the walk is complete.
    pub next: Option<u64>,
    /// Inodes that were counted elsewhere before.
    pub moved: u64,
    /// Directories in it that must be walked too.
    pub directories: Vec<FileIndex>,
}

/// A recorded usage that differs from that of the inodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageDifference {
    /// The owner.
    pub owner: QuotaOwner,
    /// Recorded.
    pub recorded: Usage,
    /// Counted.
    pub counted: Usage,
}

impl Namespace {
    /// An owner's usage and limits.
    pub fn quota_state(&self, owner: QuotaOwner) -> QuotaState {
        state(&self.writer(), owner)
    }

    /// Up to `count_max` owners that have a usage or limits, in order, after `after`.
    pub fn quota_states(&self, after: Option<QuotaOwner>, count_max: usize) -> Vec<QuotaState> {
        let writer = self.writer();
        let owners = writer
            .usage
            .owners()
            .into_iter()
            .filter(|owner| after.is_none_or(|after| *owner > after));
        owners.take(count_max).map(|owner| state(&writer, owner)).collect()
    }

    /// The limits of the quota directory that a file is in, with their usage; `None` if there are
    /// none.
    pub fn quota_directory_state(&self, file: FileIndex) -> Result<Option<QuotaState>, Failure> {
        if !self.has_quotas.load(Ordering::Acquire) {
            return Ok(None);
        }
        let tree = self.inode(file)?.quota_directory;
        Ok(Some(self.quota_state(QuotaOwner::Directory(tree)))
            .filter(|state| state.quota.is_some()))
    }

    /// Sets an owner's limits. A directory becomes a quota directory. [`Quota::complete`] of the
    /// result says whether its contents need not be walked ([`Namespace::assign_quota_directory`]).
    /// Only for root.
    pub fn set_quota(
        &self,
        call: &Call<'_>,
        owner: QuotaOwner,
        wanted: Quota,
    ) -> Result<QuotaState, Failure> {
        self.change(call, Op::SetQuota, FileIndex::ROOT, |tx| {
            root_only(call)?;
            check(owner, &wanted)?;
            let complete = match owner {
                QuotaOwner::Directory(directory) => make_quota_directory(tx, directory)?,
                QuotaOwner::User(_) | QuotaOwner::Group(_) => true,
            };
            let before = tx.quota(owner);
            let since = |now: QuotaLimit, before: Option<QuotaLimit>| QuotaLimit {
                over_since: before.and_then(|b| b.over_since),
                ..now
            };
            let quota = Quota {
                bytes: since(wanted.bytes, before.map(|quota| quota.bytes)),
                inodes: since(wanted.inodes, before.map(|quota| quota.inodes)),
                complete,
                ..wanted
            };
            let quota = quota.with_grace_updated(tx.writer.usage.recorded_usage(owner), tx.now);
            tx.set_quota(owner, Some(quota));
            Ok(Outcome::Done)
        })?;
        Ok(self.quota_state(owner))
    }

    /// Removes an owner's limits. Returns whether there were any; then a directory's contents must
    /// be walked. Only for root.
    pub fn remove_quota(&self, call: &Call<'_>, owner: QuotaOwner) -> Result<bool, Failure> {
        let had = self.quota_state(owner).quota.is_some();
        self.change(call, Op::SetQuota, FileIndex::ROOT, |tx| {
            root_only(call)?;
            if let QuotaOwner::Directory(directory) = owner {
                leave_quota_directory(tx, directory)?;
            }
            if tx.quota(owner).is_some() {
                tx.set_quota(owner, None);
            }
            Ok(Outcome::Done)
        })?;
        Ok(had)
    }

    /// Assigns a directory's entries to the quota directory that it is in: one page after `cookie`.
    /// Repeating the call changes nothing. Only for root.
    pub fn assign_quota_directory(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        cookie: u64,
    ) -> Result<QuotaWalkPage, Failure> {
        let mut page = QuotaWalkPage::default();
        self.change(call, Op::AssignQuotaDirectory, directory, |tx| {
            root_only(call)?;
            let tree = tx.directory(directory)?.quota_directory;
            let entries = self.entries_after(directory, cookie)?;
            page.next =
                entries.last().map(|(cookie, _)| *cookie).filter(|_| entries.len() == PAGE_INODES);
            for (_, file) in entries {
                let Some(inode) = tx.find_inode(file)? else { continue };
                if inode.is_directory() && inode.quota_directory == file {
                    continue; // it has a quota of its own
                }
                if inode.is_directory() {
                    page.directories.push(file);
                }
                if inode.quota_directory != tree {
                    page.moved += 1;
                    tx.put_inode_keeping_change(Inode {
                        quota_directory: tree,
                        ..(*inode).clone()
                    });
                }
            }
            Ok(Outcome::Done)
        })?;
        Ok(page)
    }

    fn entries_after(
        &self,
        directory: FileIndex,
        cookie: u64,
    ) -> Result<Vec<(u64, FileIndex)>, Failure> {
        let range = key::cookies_after(directory, cookie);
        let mut found = Vec::new();
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, value| {
            let number = key::number_of(key).unwrap_or_default();
            found.push(decode_cookie(number, value).map(|(entry, _)| (number, entry.file)));
            if found.len() == PAGE_INODES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }

    /// Everything below a directory was walked: its quota is exact from now on. Only for root.
    pub fn complete_quota_directory(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
    ) -> Result<(), Failure> {
        let owner = QuotaOwner::Directory(directory);
        self.change(call, Op::SetQuota, FileIndex::ROOT, |tx| {
            root_only(call)?;
            let quota = tx.quota(owner).ok_or(Status::NotFound)?;
            if !quota.complete {
                tx.set_quota(owner, Some(Quota { complete: true, ..quota }));
            }
            Ok(Outcome::Done)
        })
        .map(drop)
    }

    /// The growth grant of a session that has a file open for writing: at least to `wanted`, if
    /// given. `size`: the file's observed size. `None`: no bound.
    ///
    /// # Errors
    /// [`Status::QuotaExceeded`].
    pub fn growth_grant(
        &self,
        session: SessionId,
        file: FileIndex,
        size: u64,
        wanted: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<u64>, Failure> {
        if !self.has_quotas.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut writer = self.writer();
        let inode = self.inode(file)?;
        if !inode.size_in_objects {
            // Another call of the same client closed it: nobody writes.
            return Ok(Some(inode.size));
        }
        writer.usage.extend_grant(session, &inode, size, wanted, now)
    }

    /// The daemons have reported the size of a file that nobody writes any more.
    pub fn size_collected(&self, file: FileIndex, size: u64) -> Result<(), Failure> {
        if self.has_quotas.load(Ordering::Acquire) {
            let mut writer = self.writer();
            if let Some(inode) = self.find_inode(file)? {
                writer.usage.set_collected_size(&inode, size);
            }
        }
        Ok(())
    }

    /// Counts a shard's usage again while the file system is in use. Returns the differences from
    /// the recorded usage, and records the counted one if `mend`.
    ///
    /// # Errors
    /// [`Status::Busy`] while another count is in progress.
    pub fn recount_usage(
        &self,
        shard: ShardId,
        mend: bool,
    ) -> Result<Vec<UsageDifference>, Failure> {
        {
            let mut writer = self.writer();
            if writer.recount.is_some() {
                return Err(Failure::new(Status::Busy, "usage is being counted already"));
            }
            writer.recount = Some(Recount::new(shard));
        }
        let counted = loop {
            match self.count_page() {
                Ok(true) => {}
                Ok(false) => break self.end_count(shard, mend),
                Err(failure) => break Err(failure),
            }
        };
        self.writer().recount = None;
        counted
    }

    /// Counts one more page. Returns whether there may be another.
    fn count_page(&self) -> Result<bool, Failure> {
        let mut writer = self.writer();
        let recount = writer.recount.as_mut().ok_or(Status::Internal)?;
        let page = self.files(recount.shard, recount.after, PAGE_INODES)?;
        // An inode that cannot be read is reported by the check of names.
        page.iter().for_each(|(file, inode)| recount.add(*file, inode.as_ref().ok()));
        Ok(!page.is_empty())
    }

    /// Compares under the same lock as the last change.
    fn end_count(&self, shard: ShardId, mend: bool) -> Result<Vec<UsageDifference>, Failure> {
        let mut writer = self.writer();
        let counted = writer.recount.take().ok_or(Status::Internal)?.counted();
        let recorded = writer.usage.of_shard(shard);
        let differences = differences(&recorded, &counted);
        if mend && !differences.is_empty() {
            let mut batch = Batch::new();
            for difference in &differences {
                match difference.counted == Usage::default() {
                    true => batch.remove(key::usage(shard, difference.owner)),
                    false => {
                        batch.put(key::usage(shard, difference.owner), difference.counted.encode())
                    }
                }
            }
            self.store.commit(batch, self.fence)?;
            differences
                .iter()
                .for_each(|found| writer.usage.set_usage(shard, found.owner, found.counted));
        }
        Ok(differences)
    }
}

fn differences(
    recorded: &HashMap<QuotaOwner, Usage>,
    counted: &HashMap<QuotaOwner, Usage>,
) -> Vec<UsageDifference> {
    let mut owners: Vec<QuotaOwner> = recorded.keys().chain(counted.keys()).copied().collect();
    owners.sort_unstable();
    owners.dedup();
    let of =
        |usage: &HashMap<QuotaOwner, Usage>, owner| usage.get(&owner).copied().unwrap_or_default();
    let both = owners.into_iter().map(|owner| UsageDifference {
        owner,
        recorded: of(recorded, owner),
        counted: of(counted, owner),
    });
    both.filter(|found| found.recorded != found.counted).collect()
}

fn state(writer: &Writer, owner: QuotaOwner) -> QuotaState {
    let usage = &writer.usage;
    QuotaState {
        owner,
        usage: usage.recorded_usage(owner),
        in_flight: usage.in_flight(owner),
        quota: usage.quota(owner),
    }
}

fn root_only(call: &Call<'_>) -> Result<(), Failure> {
    if call.who.is_root() { Ok(()) } else { Err(Status::NotPermitted.into()) }
}

fn check(owner: QuotaOwner, quota: &Quota) -> Result<(), Failure> {
    if matches!(owner, QuotaOwner::User(0) | QuotaOwner::Group(0)) {
        return Err(Failure::new(Status::Invalid, "root and its group cannot have limits"));
    }
    let soft_above_hard =
        |limit: &QuotaLimit| limit.soft.zip(limit.hard).is_some_and(|(soft, hard)| soft > hard);
    if soft_above_hard(&quota.bytes) || soft_above_hard(&quota.inodes) {
        return Err(Failure::new(Status::Invalid, "the soft limit is above the hard one"));
    }
    if quota.grace_seconds > i64::MAX as u64 {
        return Err(Failure::new(Status::Invalid, "the grace time is too long"));
    }
    Ok(())
}

/// Makes a directory a quota directory. Returns whether its contents are counted there already.
fn make_quota_directory(tx: &mut Tx<'_>, directory: FileIndex) -> Result<bool, Failure> {
    let inode: Arc<Inode> = tx.directory(directory)?;
    if inode.quota_directory == directory {
        return Ok(tx.quota(QuotaOwner::Directory(directory)).is_some_and(|quota| quota.complete));
    }
    tx.put_inode_keeping_change(Inode { quota_directory: directory, ..(*inode).clone() });
    Ok(inode.size == 0)
}

/// Makes a directory belong to the quota directory around it again.
fn leave_quota_directory(tx: &mut Tx<'_>, directory: FileIndex) -> Result<(), Failure> {
    let inode = tx.directory(directory)?;
    if inode.quota_directory != directory {
        return Ok(());
    }
    let tree = if directory == FileIndex::ROOT {
        FileIndex(0)
    } else {
        tx.directory(inode.parent)?.quota_directory
    };
    tx.put_inode_keeping_change(Inode { quota_directory: tree, ..(*inode).clone() });
    Ok(())
}
