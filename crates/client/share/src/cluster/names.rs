//! Calls that change directories, with the change counters of the directories. Each is one call of
//! the metadata server, whose reply has the counters before and after the change, both read in the
//! batch of the change (ADR 0041). A retry is answered from the replay record, with the same
//! counters.

use braid_client::{NewEntry, message::entry};
use braid_types::{FileIndex, Status};

use super::session::{Client, Session};
use crate::{
    Attributes, DirectoryChange, Error, FileKind, Identity, RenameMode, Result, name::check_name,
};

/// How often a call is repeated if its name leads to another file in the meantime (I8).
pub(super) const NAME_CHANGES_MAX: usize = 8;

/// Fails for a name that no entry can have.
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

/// The change of a directory that the metadata server made.
pub(super) fn atomic(change: entry::DirectoryChange) -> DirectoryChange {
    DirectoryChange { atomic: true, before: change.before, after: change.after }
}

impl Session {
    async fn make(
        &self,
        who: &Identity,
        at: (FileIndex, &[u8]),
        what: NewEntry<'_>,
    ) -> Result<(Attributes, DirectoryChange)> {
        check(at.1)?;
        let made = self.run_as(who, async |user: Client| user.make_entry(at, &what).await).await?;
        Ok((made.attributes, atomic(made.change)))
    }

    pub(super) async fn make_directory(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Result<(Attributes, DirectoryChange)> {
        self.make(who, (dir, name), NewEntry::Directory { mode }).await
    }

    pub(super) async fn make_symlink(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.make(who, (dir, name), NewEntry::Symlink { target }).await
    }

    pub(super) async fn make_node(
        &self,
        who: &Identity,
        at: (FileIndex, &[u8]),
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Result<(Attributes, DirectoryChange)> {
        self.make(who, at, NewEntry::Node { kind, mode, device }).await
    }

    pub(super) async fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<(Attributes, DirectoryChange)> {
        self.make(who, (dir, name), NewEntry::Link { file }).await
    }

    pub(super) async fn remove(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Result<DirectoryChange> {
        check(name)?;
        let change =
            self.run_as(who, async |user: Client| user.remove_entry((dir, name)).await).await?;
        Ok(atomic(change))
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
        let renamed =
            self.run_as(who, async |user: Client| user.rename_entry(from, to, mode).await).await?;
        Ok((atomic(renamed.from), atomic(renamed.to)))
    }
}
