//! Attributes, permissions, size, free space, and layouts.

use braid_net::Driver;
use braid_types::{ByteCount, FileIndex, Status, Timestamp};
use braid_wire::message::{
    mds::{
        Access, AttributeChanges, LayoutSet, LayoutShow, LayoutShowReply, SetAttributes,
        SetAttributesAndAcl, SetAttributesAndBirth, SetTime, Stat, StatFs, StatFsReply,
    },
    types::{Attributes, IodState, LayoutHint, PathRef},
};

use super::Caller;
use crate::error::{Error, Result};

impl<D: Driver> Caller<D> {
    /// Attributes of a file or directory. Follows a symbolic link.
    pub async fn stat(&self, at: &PathRef) -> Result<Attributes> {
        self.repeatable("stat", at, Stat { at: at.clone(), follow: true }).send().await
    }

    /// Attributes of a file, directory or symbolic link. Does not follow a symbolic link.
    pub async fn lstat(&self, at: &PathRef) -> Result<Attributes> {
        self.repeatable("stat", at, Stat { at: at.clone(), follow: false }).send().await
    }

    /// Succeeds if the caller may read (4), write (2), execute or search (1); `mask` combines these
    /// bits.
    pub async fn access(&self, at: &PathRef, mask: u8) -> Result<()> {
        self.repeatable("access", at, Access { at: at.clone(), mask }).send().await
    }

    /// Changes several attributes in one step. If `follow` is not set, a symbolic link itself is
    /// changed.
    pub async fn set_attributes(
        &self,
        at: &PathRef,
        follow: bool,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        let change = self.engine.begin_change(changes.bytes.is_some());
        let call = SetAttributes { at: at.clone(), follow, changes };
        let changed = self.once("set attributes of", at, call).send().await?;
        change.was_of(changed.file);
        Ok(changed)
    }

    /// Changes attributes and the time of creation in one step; a symbolic link is not followed.
    pub async fn set_attributes_and_birth(
        &self,
        at: &PathRef,
        changes: AttributeChanges,
        btime: Timestamp,
    ) -> Result<Attributes> {
        let change = self.engine.begin_change(changes.bytes.is_some());
        let call = SetAttributesAndBirth { at: at.clone(), changes, btime };
        let changed = self.once("set attributes of", at, call).send().await?;
        change.was_of(changed.file);
        Ok(changed)
    }

    /// Changes attributes and the NFSv4 access control list in one step; a symbolic link is not
    /// followed. `list` is a value of the extended attribute `system.nfs4_acl`. The mode is set
    /// before the list, which then decides its permission bits (RFC 8881 6.4.1.3).
    pub async fn set_attributes_and_acl(
        &self,
        at: &PathRef,
        changes: AttributeChanges,
        list: Vec<u8>,
    ) -> Result<Attributes> {
        let change = self.engine.begin_change(changes.bytes.is_some());
        let call = SetAttributesAndAcl { at: at.clone(), changes, nfs4_acl: list };
        let changed = self.once("set attributes of", at, call).send().await?;
        change.was_of(changed.file);
        Ok(changed)
    }

    /// Changes the low 12 bits of the mode.
    pub async fn chmod(&self, at: &PathRef, mode: u32) -> Result<Attributes> {
        self.set_attributes(
            at,
            true,
            AttributeChanges { mode: Some(mode), ..AttributeChanges::none() },
        )
        .await
    }

    /// Changes owner and group; `None` leaves a value unchanged. If `follow` is not set, a symbolic
    /// link itself is changed.
    pub async fn chown(
        &self,
        at: &PathRef,
        uid: Option<u64>,
        gid: Option<u64>,
        follow: bool,
    ) -> Result<Attributes> {
        self.set_attributes(at, follow, AttributeChanges { uid, gid, ..AttributeChanges::none() })
            .await
    }

    /// Changes the times of the last read and the last write; `None` leaves a value unchanged.
    pub async fn set_times(
        &self,
        at: &PathRef,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        follow: bool,
    ) -> Result<Attributes> {
        self.set_attributes(
            at,
            follow,
            AttributeChanges { atime, mtime, ..AttributeChanges::none() },
        )
        .await
    }

    /// Truncates the file to `bytes`, or extends it with zeros (I5).
    pub async fn truncate(&self, at: &PathRef, bytes: u64) -> Result<Attributes> {
        let bytes = Some(ByteCount(bytes));
        self.set_attributes(at, true, AttributeChanges { bytes, ..AttributeChanges::none() }).await
    }

    /// Free space of the file system; in a directory with a quota, the space that the quota leaves.
    pub async fn statfs(&self, file: FileIndex) -> Result<StatFsReply> {
        self.repeatable("statfs", &PathRef::file(file), StatFs { file }).send().await
    }

    /// The layout of a file, and the default layout of its directory.
    pub async fn layout(&self, at: &PathRef) -> Result<LayoutShowReply> {
        self.repeatable("show layout of", at, LayoutShow { at: at.clone() }).send().await
    }

    /// Fails if a layout has more parts than the cluster has I/O daemons, whether they are up or
    /// not.
    pub async fn check_iod_count(&self, wish: &LayoutHint) -> Result<()> {
        let Some(parts) = wish.parts else { return Ok(()) };
        let map = self.cluster_map().await?;
        let iods = map.iods.iter().filter(|iod| iod.state != IodState::Removed).count();
        // If there are no daemons at all, the server fails the call with another status.
        if usize::from(parts) <= iods.max(1) {
            return Ok(());
        }
        let why = format!("a layout over {parts} I/O daemons: the cluster has {iods}");
        Err(Error::new(Status::Invalid, why).with_hint(format!("at most {iods} of them")))
    }

    /// Sets the default layout of a directory, or the layout of a file that was never written.
    pub async fn set_layout(&self, at: &PathRef, wish: LayoutHint) -> Result<()> {
        self.once("set layout of", at, LayoutSet { at: at.clone(), layout_hint: wish }).send().await
    }
}
