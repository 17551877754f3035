//! Renames and links. MS-FSA 2.1.5.15.11, 2.1.5.15.6.

use braid_share::{Attributes, Deny, FileKind, RenameMode, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{RenameFlags, RenameTarget};

use super::Change;
use crate::file_state::{Claim, Removal};
use crate::open::Place;
use crate::path::SharePath;
use crate::removal::is_read_only;
use crate::status::failed;
use crate::walk::{Target, walk};

impl<S: Share> Change<'_, S> {
    /// Gives the file another name, and takes that through which it was opened.
    pub(super) async fn rename(&self, target: &RenameTarget) -> Result<(), NtStatus> {
        let from = self.open.place();
        // The root of a share has no name in it.
        if from.name.is_empty() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let (to, path) = self.find(target).await?;
        let is_same = (to.dir, &to.name) == (from.dir, &from.name);
        if is_same {
            return Ok(());
        }
        if let Some(found) = &to.found {
            self.check_replaced(found, target.flags)?;
        }
        let files = &self.context.server.files;
        if files.others_deny_delete(self.open.file, self.open.claim()) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        // MS-FSA 2.1.5.15.11: the new directory may not be open for its own removal or rename, nor
        // by an open that excludes those.
        files.check(to.dir, Claim { has: Deny::DELETE, denies: Deny::DELETE })?;
        let mode = match target.flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            true => RenameMode::Replace,
            false => RenameMode::NoReplace,
        };
        let (old, new) = ((from.dir, &from.name[..]), (to.dir, &to.name[..]));
        self.client.rename(self.who, old, new, mode).await.map_err(failed)?;
        let place = Place { dir: to.dir, name: to.name, path };
        if files.is_delete_pending(self.open.file) {
            let (dir, name, who) = (place.dir, place.name.clone(), self.who.clone());
            files.set_removal(self.open.file, Some(Removal { dir, name, who }));
        }
        self.open.set_place(place);
        Ok(())
    }

    /// Gives the file one more name.
    pub(super) async fn link(&self, target: &RenameTarget) -> Result<(), NtStatus> {
        if self.open.tree.is_read_only() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        if self.open.is_directory {
            return Err(NtStatus::FILE_IS_A_DIRECTORY);
        }
        let (to, _) = self.find(target).await?;
        if let Some(found) = &to.found {
            if found.file == self.open.file {
                return match target.flags.has(RenameFlags::REPLACE_IF_EXISTS) {
                    true => Ok(()),
                    false => Err(NtStatus::OBJECT_NAME_COLLISION),
                };
            }
            self.check_replaced(found, target.flags)?;
            self.client.remove(self.who, to.dir, &to.name).await.map_err(failed)?;
        }
        let linked = self.client.link(self.who, self.open.file, to.dir, &to.name).await;
        linked.map(drop).map_err(failed)
    }

    /// Where the new name leads, and its path from the root of the share.
    async fn find(&self, target: &RenameTarget) -> Result<(Target, String), NtStatus> {
        // MS-FSCC 2.4.42.2: no directory is named beside the path.
        if target.root_directory != 0 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        // Samba's clients send a separator in front.
        let name = target.name.strip_prefix('\\').unwrap_or(&target.name);
        let path = SharePath::parse(name)?;
        if path.is_root() || path.is_data {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let root = self.open.tree.root().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
        let found = walk(self.client, self.who, root, &path, false).await?;
        Ok((found, path.text()))
    }

    /// Checks that what has the new name may be replaced.
    fn check_replaced(&self, found: &Attributes, flags: RenameFlags) -> Result<(), NtStatus> {
        if !flags.has(RenameFlags::REPLACE_IF_EXISTS) {
            return Err(NtStatus::OBJECT_NAME_COLLISION);
        }
        let is_protected = is_read_only(found) && !flags.has(RenameFlags::IGNORE_READONLY);
        let is_open =
            found.file != self.open.file && self.context.server.files.open_count(found.file) > 0;
        if found.kind == FileKind::Directory || is_protected || is_open {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(())
    }
}
