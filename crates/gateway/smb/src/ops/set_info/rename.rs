//! Renames and links. MS-FSA 2.1.5.15.11, 2.1.5.15.6.

use braid_share::{Attributes, Deny, DirectoryChange, FileKind, RenameMode, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{NotifyAction, RenameFlags, RenameTarget};

use super::Change;
use crate::file_state::{Claim, Removal, StreamKey};
use crate::open::Place;
use crate::path::SharePath;
use crate::removal::is_read_only;
use crate::status::failed;
use crate::walk::{Target, walk};
use crate::watch::name_of;

/// A new name.
struct NewName {
    /// What has it already, perhaps in another case.
    to: Target,
    /// The name as the client wants it.
    name: Vec<u8>,
    /// Its path from the root of the share.
    path: String,
}

impl<S: Share> Change<'_, S> {
    /// Gives the file another name, and takes that through which it was opened.
    pub(super) async fn rename(&self, target: &RenameTarget) -> Result<(), NtStatus> {
        if self.open.stream.is_some() || target.name.starts_with(':') {
            return self.rename_stream(target).await;
        }
        let from = self.open.place();
        // The root of a share has no name in it.
        if from.name.is_empty() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let NewName { to, name, path } = self.find(target).await?;
        let is_same = (to.dir, &to.name) == (from.dir, &from.name);
        if is_same && to.name == name {
            return Ok(());
        }
        // If only the case changes, the file does not collide with itself.
        if let Some(found) = to.found.as_ref().filter(|_| !is_same) {
            self.make_way(found.file).await?;
            self.check_replaced(found, target.flags)?;
        }
        // MS-FSA 2.1.5.15.11.
        self.make_way(self.open.file).await?;
        let files = &self.context.server.files;
        // MS-FSA 2.1.5.15.11: a file with an open stream keeps its name.
        if files.has_open_stream(self.open.file) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if files.others_deny_delete(self.open.file, self.open.claim()) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        // MS-FSA 2.1.5.15.11. Windows opens the new directory to write to it, and lets others have
        // all but its removal. A working directory, open with FILE_SHARE_READ and
        // FILE_SHARE_WRITE, does not stop this.
        files.check(to.dir, Claim { has: Deny::WRITE, denies: Deny::DELETE })?;
        self.check_source(&from).await?;
        let mode = match target.flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            true => RenameMode::Replace,
            false => RenameMode::NoReplace,
        };
        let (old, new) = ((from.dir, &from.name[..]), (to.dir, &name[..]));
        let replaced = (to.dir, &to.name[..]);
        let changes;
        let name = match is_same || to.name == name {
            true => {
                changes = self.client.rename(self.who, old, new, mode).await.map_err(failed)?;
                name
            }
            false => {
                changes =
                    self.client.rename(self.who, old, replaced, mode).await.map_err(failed)?;
                // The file has replaced one whose name differs in case, and now gets its own name.
                let new = self.client.rename(self.who, replaced, new, RenameMode::NoReplace).await;
                if new.is_ok() { name } else { to.name }
            }
        };
        let place = Place { dir: to.dir, name, path };
        let key = StreamKey::of_file(self.open.file);
        if files.is_delete_pending(key) {
            let (root, place, who) = (self.open.tree.root(), place.clone(), self.who.clone());
            files.set_removal(key, Some(Removal { root, place, who }));
        }
        self.report_rename(&from, &place, changes);
        self.open.set_place(place);
        Ok(())
    }

    /// Lets those who watch the directories know. MS-FSA 2.1.5.15.11.
    fn report_rename(&self, from: &Place, to: &Place, changes: (DirectoryChange, DirectoryChange)) {
        let (old, new) = match from.dir == to.dir {
            true => (NotifyAction::RENAMED_OLD_NAME, NotifyAction::RENAMED_NEW_NAME),
            false => (NotifyAction::REMOVED, NotifyAction::ADDED),
        };
        let (root, name) = (self.open.tree.root(), name_of(self.open.is_directory));
        let watches = &self.context.server.watches;
        watches.report(root, from, (old, name), Some(changes.0));
        watches.report(root, to, (new, name), Some(changes.1));
    }

    /// Gives the file one more name.
    pub(super) async fn link(&self, target: &RenameTarget) -> Result<(), NtStatus> {
        if self.open.tree.is_read_only() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        // MS-FSA 2.1.5.15.6: a stream has no name of its own.
        if self.open.stream.is_some() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if self.open.is_directory {
            return Err(NtStatus::FILE_IS_A_DIRECTORY);
        }
        let NewName { to, name, path } = self.find(target).await?;
        if let Some(found) = &to.found {
            if found.file == self.open.file {
                return match target.flags.has(RenameFlags::REPLACE_IF_EXISTS) {
                    true => Ok(()),
                    false => Err(NtStatus::OBJECT_NAME_COLLISION),
                };
            }
            self.check_replaced(found, target.flags)?;
            return self.link_over(&to).await;
        }
        let linked = self.client.link(self.who, self.open.file, to.dir, &name).await;
        let (_, change) = linked.map_err(failed)?;
        let place = Place { dir: to.dir, name, path };
        let what = (NotifyAction::ADDED, name_of(false));
        self.context.server.watches.report(self.open.tree.root(), &place, what, Some(change));
        Ok(())
    }

    /// Gives the file a name that another file has. That file keeps it if this fails: the link is
    /// made with a name of its own, and renamed.
    async fn link_over(&self, to: &Target) -> Result<(), NtStatus> {
        let server = &self.context.server;
        let (gateway, number) = (server.share.gateway_id(), server.new_file_id().volatile);
        let name = format!(".smb-link-{gateway:x}-{number:x}").into_bytes();
        let linked = self.client.link(self.who, self.open.file, to.dir, &name).await;
        linked.map_err(failed)?;
        let (old, new) = ((to.dir, &name[..]), (to.dir, &to.name[..]));
        let renamed = self.client.rename(self.who, old, new, RenameMode::Replace).await;
        if renamed.is_err()
            && let Err(error) = self.client.remove(self.who, to.dir, &name).await
        {
            let name = String::from_utf8_lossy(&name);
            tracing::warn!(%error, %name, "a name of a link that was not made is left");
        }
        renamed.map(drop).map_err(failed)
    }

    /// Checks that the name is still that of the file: another client may have renamed it, and
    /// given the name to another file.
    async fn check_source(&self, from: &Place) -> Result<(), NtStatus> {
        let found = self.client.look_up(self.who, from.dir, &from.name).await.map_err(failed)?;
        // The name of a symbolic link leads to the file that is open.
        match found.file == self.open.file || found.kind == FileKind::Symlink {
            true => Ok(()),
            false => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        }
    }

    /// Where the new name leads.
    async fn find(&self, target: &RenameTarget) -> Result<NewName, NtStatus> {
        // MS-FSCC 2.4.42.2: no directory is named beside the path.
        if target.root_directory != 0 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        // Samba's clients send a separator in front.
        let name = target.name.strip_prefix('\\').unwrap_or(&target.name);
        let path = SharePath::parse(name)?;
        if path.is_root() || path.is_data || path.stream.is_some() {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let root = self.open.tree.root().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
        let to = walk(self.client, self.who, root, &path, false).await?;
        let name = path.names().last().map(|name| name.clone().into_bytes()).unwrap_or_default();
        Ok(NewName { to, name, path: path.text() })
    }

    /// Checks that what has the new name may be replaced.
    fn check_replaced(&self, found: &Attributes, flags: RenameFlags) -> Result<(), NtStatus> {
        if !flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let is_protected = is_read_only(found) && !flags.has(RenameFlags::IGNORE_READONLY);
        let files = &self.context.server.files;
        // While its removal runs, whatever has the name then would be removed.
        let is_open = found.file != self.open.file
            && (files.open_count(found.file) > 0
                || files.is_delete_pending(StreamKey::of_file(found.file)));
        if found.kind == FileKind::Directory || is_protected || is_open {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(())
    }
}
