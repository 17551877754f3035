//! Calls for network gateways: an entry is named by its directory and one name, no symbolic link is
//! followed, and the change counters of the directories are returned (ADR 0041).

use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::message::{
    entry::{CreateMode, DirectoryChange, LookUpFoldedReply, MakeEntryReply, RenameEntryReply},
    mds::RenameMode,
    types::PathRef,
};

use super::{Client, File};
use crate::{
    engine::{NewEntry, OpenOptions},
    error::Result,
};

fn path((dir, name): (FileIndex, &[u8])) -> PathRef {
    PathRef { dir, path: name.to_vec() }
}

impl<D: Driver> Client<D> {
    /// Opens an entry of a directory, or creates it: `create` decides, not the options, which may
    /// request no lease. Returns also whether this call created the file, and, unless `create` is
    /// [`CreateMode::Never`], the change of the directory.
    ///
    /// # Errors
    /// `TooManyLinks` for a symbolic link, `IsDirectory`, and `NoDevice` for other files without
    /// bytes. `SharingViolation` if another open excludes this one.
    pub async fn open_entry(
        &self,
        at: (FileIndex, &[u8]),
        create: CreateMode,
        options: &OpenOptions,
    ) -> Result<(File<D>, bool, Option<DirectoryChange>)> {
        let (file, created, change) = self.caller().open_entry(&path(at), create, options).await?;
        Ok((File::new(file)?, created, change))
    }

    /// Name and attributes of the entry of a directory whose name equals this one without regard to
    /// case: the name itself, else the first one of a listing. No symbolic link is followed.
    ///
    /// # Errors
    /// `NotFound`; `UnknownMessage` from a server that has no such call.
    pub async fn look_up_folded(&self, at: (FileIndex, &[u8])) -> Result<LookUpFoldedReply> {
        self.caller().look_up_folded(&path(at)).await
    }

    /// Makes an entry of a directory.
    ///
    /// # Errors
    /// `Exists`; `NotPermitted` for a link to a directory.
    pub async fn make_entry(
        &self,
        at: (FileIndex, &[u8]),
        what: &NewEntry<'_>,
    ) -> Result<MakeEntryReply> {
        self.caller().make_entry(&path(at), what).await
    }

    /// Removes an entry of a directory: a name of a file, or an empty directory.
    ///
    /// # Errors
    /// `NotEmpty` for a directory with entries.
    pub async fn remove_entry(&self, at: (FileIndex, &[u8])) -> Result<DirectoryChange> {
        self.caller().remove_entry(&path(at)).await
    }

    /// Moves an entry.
    ///
    /// # Errors
    /// As `rename(2)`.
    pub async fn rename_entry(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<RenameEntryReply> {
        self.caller().rename_entry(&path(from), &path(to), mode).await
    }
}
