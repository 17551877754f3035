//! Calls that change directories, with the change counters of the directories.
//!
//! The native protocol does not return the counters: its replies contain the attributes of the
//! directory only for sessions that hold leases, and read after the change, when another change may
//! have happened. So the counters are read before the call is sent and after it was answered, and
//! [`DirectoryChange::atomic`] is false. What would be needed: `Create`, `MakeDirectory`,
//! `MakeNode`, `MakeSymlink`, `MakeLink`, `Unlink`, `RemoveDirectory` and `Rename` return the
//! counter of each changed directory before and after the change, both read under the lock of the
//! namespace in which the change is made, and stored in the replay record, so that a retry returns
//! the same. That would also save the two calls.

use braid_types::{FileIndex, Status};

use super::session::{Client, Session};
use crate::{
    Attributes, DirectoryChange, Error, FileKind, Identity, RenameMode, Result, name::check_name,
};

/// How often a call is repeated if its name leads to another file in the meantime (I8).
pub(super) const NAME_CHANGES_MAX: usize = 8;

/// Fails for a name that no entry can have. A `/` would otherwise be a path.
pub(super) fn check(name: &[u8]) -> Result<()> {
    check_name(name).map_err(|status| {
        let why = format!("{}: {:?}", status.text(), String::from_utf8_lossy(name));
        Error::new(status, why)
    })
}

/// The error of a call whose name leads to another file each time.
pub(super) fn changes_too_often() -> Error {
    Error::new(Status::TryAgain, "the name was replaced too often")
}

impl Session {
    /// The change counter of a directory.
    pub(super) async fn counter(&self, dir: FileIndex) -> Result<u64> {
        self.client().lstat(dir).await.map(|attributes| attributes.change)
    }

    /// Runs a call that changes a directory.
    async fn changing<T>(
        &self,
        dir: FileIndex,
        call: impl Future<Output = Result<T>>,
    ) -> Result<(T, DirectoryChange)> {
        let before = self.counter(dir).await?;
        let done = call.await?;
        Ok((done, self.change_since(dir, before).await))
    }

    /// The change of a directory since its counter was `before`.
    pub(super) async fn change_since(&self, dir: FileIndex, before: u64) -> DirectoryChange {
        // The change was made: an error here must not hide that. A directory that is gone has no
        // counter.
        let after = self.counter(dir).await.unwrap_or(before);
        DirectoryChange { atomic: false, before, after }
    }

    pub(super) async fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Result<(Attributes, DirectoryChange)> {
        check(name)?;
        let made = async |user: Client| self.changing(dir, user.mkdir((dir, name), mode)).await;
        self.run_as(who, made).await
    }

    pub(super) async fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        check(name)?;
        self.run_as(who, async |user: Client| {
            self.changing(dir, user.symlink((dir, name), target)).await
        })
        .await
    }

    pub(super) async fn make_node(
        &self,
        who: &Identity,
        (dir, name): (FileIndex, &[u8]),
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Result<(Attributes, DirectoryChange)> {
        check(name)?;
        self.run_as(who, async |user: Client| {
            self.changing(dir, user.mknod((dir, name), kind, mode, device)).await
        })
        .await
    }

    pub(super) async fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        check(name)?;
        self.run_as(who, async |user: Client| {
            self.changing(dir, user.hard_link(file, (dir, name))).await
        })
        .await
    }

    pub(super) async fn remove(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<DirectoryChange> {
        check(name)?;
        self.run_as(who, async |user: Client| {
            self.changing(dir, remove_any(&user, dir, name)).await.map(|((), change)| change)
        })
        .await
    }

    pub(super) async fn rename(
        &self,
        who: &Identity,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        check(from.1)?;
        check(to.1)?;
        self.run_as(who, async |user: Client| {
            if from.0 == to.0 {
                let ((), change) = self.changing(from.0, user.rename(from, to, mode)).await?;
                return Ok((change, change));
            }
            let (of_from, of_to) = tokio::join!(self.counter(from.0), self.counter(to.0));
            let (of_from, of_to) = (of_from?, of_to?);
            user.rename(from, to, mode).await?;
            Ok(tokio::join!(self.change_since(from.0, of_from), self.change_since(to.0, of_to)))
        })
        .await
    }
}

/// Removes a name of a file or of an empty directory.
async fn remove_any(user: &Client, dir: FileIndex, name: &[u8]) -> Result<()> {
    for _ in 0..NAME_CHANGES_MAX {
        match user.unlink((dir, name)).await {
            Err(error) if error.status() == Status::IsDirectory => {}
            done => return done,
        }
        match user.rmdir((dir, name)).await {
            // A file has got the name since.
            Err(error) if error.status() == Status::NotDirectory => {}
            done => return done,
        }
    }
    Err(changes_too_often())
}
