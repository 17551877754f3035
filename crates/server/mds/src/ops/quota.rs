//! Quota: limits and usage, and how far files may be written (growth grants). ADR 0012.

use braid_layout::Layout;
use braid_meta::{Inode, Quota, QuotaLimit, QuotaOwner, QuotaState, Usage};
use braid_types::{ByteCount, Failure, FileIndex, SessionId, Status, limits::FILE_BYTES_MAX};
use braid_wire::{
    Rights,
    message::{
        mds::{
            ExtendGrowthGrant, FsckUsage, QuotaGet, QuotaList, QuotaRemove, QuotaSet, QuotaWalk,
            QuotaWalked, StatFsReply,
        },
        quota::{
            QuotaBound, QuotaDifference, QuotaKind, QuotaLimits, QuotaOwner as WireOwner,
            QuotaReport, QuotaWalkReply,
        },
    },
};

use super::open::session_of;
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

/// Owners in one reply: about 100 bytes each, and up to 4 KiB for the path of a directory.
const LIST_MAX: usize = 64;

/// A growth grant of at most `fits`. `None` if only the size of the largest file is a limit.
fn bounded(allowed: Option<u64>, fits: u64) -> Option<u64> {
    let fits = (fits < FILE_BYTES_MAX).then_some(fits);
    [allowed, fits].into_iter().flatten().min()
}

impl MdsCore {
    /// The growth grant of an open file: how far the session may write it without asking, as quotas
    /// and the daemons' disks allow.
    pub(super) fn growth_grant(
        &self,
        session: SessionId,
        (file, layout): (FileIndex, &Layout),
        rights: Rights,
        size: ByteCount,
    ) -> Result<Option<u64>, Failure> {
        if !rights.allow(Rights::WRITE) {
            return Ok(None);
        }
        let allowed =
            self.namespace.growth_grant(session, file, size.0, None, self.env.clock.wall())?;
        Ok(bounded(allowed, self.state().cluster.object_bytes_max(layout)))
    }

    pub(super) fn extend_write_end(&self, call: Call, r: &ExtendGrowthGrant) -> CallOutcome {
        let extended = session_of(&call).and_then(|session| {
            let held =
                self.state().sessions.live.get(session).and_then(|live| live.opened(r.open_id));
            match held {
                Some(open) if open.file == r.file && open.rights.allow(Rights::WRITE) => {
                    let fits = self.file_bytes_max(&*self.namespace.getattr(r.file)?, r.end)?;
                    let allowed = self.namespace.growth_grant(
                        session,
                        r.file,
                        0,
                        Some(r.end),
                        self.env.clock.wall(),
                    )?;
                    Ok(bounded(allowed, fits))
                }
                Some(_) => Err(Failure::new(
                    Status::Invalid,
                    format!("handle {} is open for something else", r.open_id),
                )),
                None => Err(Failure::new(
                    Status::StaleHandle,
                    format!("handle {} is not open", r.open_id),
                )),
            }
        });
        CallOutcome::from(call, extended)
    }

    /// The largest size that a file can have on its daemons' disks.
    ///
    /// # Errors
    /// [`Status::TooLarge`] when that is less than `size`.
    pub(super) fn file_bytes_max(&self, inode: &Inode, size: u64) -> Result<u64, Failure> {
        let layout = inode.layout.as_deref();
        layout
            .map_or(Ok(FILE_BYTES_MAX), |layout| self.state().cluster.file_bytes_max(layout, size))
    }

    pub(super) fn quota_set(&self, call: Call, r: &QuotaSet) -> CallOutcome {
        let QuotaLimits { bytes, inodes, grace_seconds } = &r.limits;
        let bound = |bound: &QuotaBound| QuotaLimit {
            hard: bound.hard,
            soft: bound.soft,
            over_since: None,
        };
        let quota = Quota {
            bytes: bound(bytes),
            inodes: bound(inodes),
            grace_seconds: *grace_seconds,
            complete: true,
        };
        let set = stored(&r.owner)
            .and_then(|owner| self.namespace.set_quota(&self.unrecorded(&call), owner, quota));
        CallOutcome::from(call, set.and_then(|state| self.report(state)))
    }

    pub(super) fn quota_get(&self, call: Call, r: &QuotaGet) -> CallOutcome {
        let state = stored(&r.owner).and_then(|owner| {
            self.may_see(&call, owner)?;
            self.report(self.namespace.quota_state(owner))
        });
        CallOutcome::from(call, state)
    }

    /// Users see their own quotas, and those of directories that they reach.
    fn may_see(&self, call: &Call, owner: QuotaOwner) -> Result<(), Failure> {
        let who = &call.who;
        let sees = match owner {
            QuotaOwner::User(id) => who.is_root() || who.uid == id,
            QuotaOwner::Group(id) => who.is_root() || who.gid == id || who.groups.contains(&id),
            QuotaOwner::Directory(directory) => {
                let inode = self.file_named(call, directory)?;
                return if inode.is_directory() {
                    Ok(())
                } else {
                    Err(Status::NotDirectory.into())
                };
            }
        };
        if sees { Ok(()) } else { Err(Status::PermissionDenied.into()) }
    }

    pub(super) fn quota_list(&self, call: Call, r: &QuotaList) -> CallOutcome {
        let listed = r.after.as_ref().map(stored).transpose().and_then(|after| {
            self.namespace
                .quota_states(after, LIST_MAX)
                .into_iter()
                .map(|state| self.report(state))
                .collect::<Result<Vec<_>, _>>()
        });
        CallOutcome::from(call, listed)
    }

    pub(super) fn quota_remove(&self, call: Call, r: &QuotaRemove) -> CallOutcome {
        let removed = stored(&r.owner)
            .and_then(|owner| self.namespace.remove_quota(&self.unrecorded(&call), owner));
        CallOutcome::from(call, removed)
    }

    pub(super) fn quota_walk(&self, call: Call, r: &QuotaWalk) -> CallOutcome {
        let page = self.namespace.assign_quota_directory(&self.unrecorded(&call), r.dir, r.cookie);
        let reply = |page: braid_meta::QuotaWalkPage| QuotaWalkReply {
            next: page.next,
            moved: page.moved,
            directories: page.directories,
        };
        CallOutcome::from(call, page.map(reply))
    }

    pub(super) fn quota_walked(&self, call: Call, r: &QuotaWalked) -> CallOutcome {
        let done = self.namespace.complete_quota_directory(&self.unrecorded(&call), r.dir);
        CallOutcome::from(call, done)
    }

    pub(super) fn fsck_usage(&self, call: Call, r: &FsckUsage) -> CallOutcome {
        let found = self.namespace.recount_usage(r.shard, r.mend);
        let difference = |found: braid_meta::UsageDifference| QuotaDifference {
            owner: wire_owner(found.owner),
            bytes_recorded: narrow(found.recorded.bytes),
            bytes_counted: narrow(found.counted.bytes),
            inodes_recorded: found.recorded.inodes,
            inodes_counted: found.counted.inodes,
            mended: r.mend,
        };
        CallOutcome::from(
            call,
            found.map(|found| found.into_iter().map(difference).collect::<Vec<_>>()),
        )
    }

    /// Free space as limited by a directory's quota.
    pub(super) fn free_space_at(
        &self,
        space: StatFsReply,
        file: FileIndex,
    ) -> Result<StatFsReply, Failure> {
        let Some(QuotaState { usage, in_flight, quota: Some(quota), .. }) =
            self.namespace.quota_directory_state(file)?
        else {
            return Ok(space);
        };
        let mut left = space;
        if let Some(limit) = quota.bytes.soft.or(quota.bytes.hard) {
            let used = narrow(usage.bytes + in_flight);
            let available = limit.saturating_sub(used).min(left.available.0);
            (left.total, left.available) =
                (ByteCount(limit.min(left.total.0)), ByteCount(available));
            left.free = left.available;
        }
        if let Some(limit) = quota.inodes.soft.or(quota.inodes.hard) {
            (left.files, left.files_max) = (usage.inodes, Some(limit));
        }
        Ok(left)
    }

    fn report(&self, state: QuotaState) -> Result<QuotaReport, Failure> {
        let QuotaState { owner, usage: Usage { bytes, inodes }, in_flight, quota } = state;
        let bound = |bound: &QuotaLimit| QuotaBound { hard: bound.hard, soft: bound.soft };
        let limits = |quota: Quota| QuotaLimits {
            bytes: bound(&quota.bytes),
            inodes: bound(&quota.inodes),
            grace_seconds: quota.grace_seconds,
        };
        Ok(QuotaReport {
            owner: wire_owner(owner),
            path: self.path_of_owner(owner)?,
            limits: quota.map(limits),
            bytes: narrow(bytes),
            bytes_in_flight: narrow(in_flight),
            inodes,
            bytes_over_since: quota.and_then(|quota| quota.bytes.over_since),
            inodes_over_since: quota.and_then(|quota| quota.inodes.over_since),
            complete: quota.is_none_or(|quota| quota.complete),
        })
    }

    fn path_of_owner(&self, owner: QuotaOwner) -> Result<Vec<u8>, Failure> {
        match owner {
            QuotaOwner::Directory(FileIndex::ROOT) => Ok(b"/".to_vec()),
            QuotaOwner::Directory(directory) => match self.namespace.getattr(directory) {
                Ok(inode) => self.path_of(&inode),
                Err(failure) if failure.status == Status::StaleHandle => Ok(Vec::new()),
                Err(failure) => Err(failure),
            },
            QuotaOwner::User(_) | QuotaOwner::Group(_) => Ok(Vec::new()),
        }
    }

    /// A change without a replay record: a second try changes nothing.
    fn unrecorded<'c>(&self, call: &'c Call) -> braid_meta::Call<'c> {
        braid_meta::Call { replay: None, ..self.change(call) }
    }
}

/// As many bytes as the wire can express.
fn narrow(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn stored(owner: &WireOwner) -> Result<QuotaOwner, Failure> {
    match owner.kind {
        QuotaKind::User => Ok(QuotaOwner::User(owner.id)),
        QuotaKind::Group => Ok(QuotaOwner::Group(owner.id)),
        QuotaKind::Directory => Ok(QuotaOwner::Directory(FileIndex(owner.id))),
        _ => Err(Status::Unsupported.into()),
    }
}

fn wire_owner(owner: QuotaOwner) -> WireOwner {
    match owner {
        QuotaOwner::User(id) => WireOwner { kind: QuotaKind::User, id },
        QuotaOwner::Group(id) => WireOwner { kind: QuotaKind::Group, id },
        QuotaOwner::Directory(directory) => {
            WireOwner { kind: QuotaKind::Directory, id: directory.0 }
        }
    }
}
