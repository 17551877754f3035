//! Names: found, made, linked and removed.

use std::sync::Arc;

use braid_share::{
    Attributes, Deny, DirectoryChange, FileIndex, FileKind, Identity, Status, check_name,
    tables::Outcome,
};
use braid_union::{Found, User};
use rustix::io::Errno;

use crate::{
    files::NodeRef,
    rights::{CHANGE_NAMES, SEARCH, check_sticky, mode_of_new, user_of},
    service::Service,
    status::{OrStatus, status_of},
};

/// Linux's limit for the target of a symbolic link, without the NUL.
const TARGET_BYTES_MAX: usize = 4095;

/// A file that a name leads to.
pub(crate) struct Named {
    pub(crate) file: FileIndex,
    pub(crate) node: Arc<NodeRef>,
    /// As the union has them.
    pub(crate) found: braid_union::Attributes,
}

impl Service {
    pub(crate) fn look_up(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
    ) -> Outcome<Attributes> {
        let parent = self.directory(directory)?;
        let named = self.find(who, directory, &parent, name)?.ok_or(Status::NotFound)?;
        Ok(self.shown(named.file, &named.found))
    }

    /// Name and attributes of an entry whose name equals `name` without regard to case.
    pub(crate) fn look_up_folded(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
    ) -> Outcome<(Vec<u8>, Attributes)> {
        let parent = self.directory(directory)?;
        if let Some(named) = self.find(who, directory, &parent, name)? {
            return Ok((name.to_vec(), self.shown(named.file, &named.found)));
        }
        for stored in self.listed_as(directory, &parent, name)? {
            if let Some(named) = self.find(who, directory, &parent, &stored)? {
                return Ok((stored, self.shown(named.file, &named.found)));
            }
        }
        Err(Status::NotFound)
    }

    pub(crate) fn parent(&self, who: &Identity, directory: FileIndex) -> Outcome<Attributes> {
        let node = self.directory(directory)?;
        self.permit(who, node.node, SEARCH)?;
        let found = self.union.parent(node.node).or_status()?;
        let (file, _) = self.files.enter_parent(&found)?;
        Ok(self.shown(file, &found.attributes))
    }

    /// The file of a name, if it exists. The user must be able to search the directory.
    pub(crate) fn find(
        &self,
        who: &Identity,
        directory: FileIndex,
        parent: &Arc<NodeRef>,
        name: &[u8],
    ) -> Outcome<Option<Named>> {
        check_name(name)?;
        self.permit(who, parent.node, SEARCH)?;
        match self.union.look_up(parent.node, name) {
            Ok(found) => self.entered(directory, parent, name, &found).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(status_of(error)),
        }
    }

    pub(crate) fn entered(
        &self,
        directory: FileIndex,
        parent: &Arc<NodeRef>,
        name: &[u8],
        found: &Found,
    ) -> Outcome<Named> {
        let (file, node) = self.files.enter(found, (parent, directory), name)?;
        Ok(Named { file, node, found: found.attributes })
    }

    pub(crate) fn read_link(&self, file: FileIndex) -> Outcome<Vec<u8>> {
        let node = self.files.node(file)?;
        self.union.read_link(node.node).map_err(|error| match error {
            // readlink(2) of a descriptor of something else.
            Errno::NOENT => Status::Invalid,
            error => status_of(error),
        })
    }

    pub(crate) fn make_directory(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Outcome<(Attributes, DirectoryChange)> {
        self.make(who, directory, name, mode, |parent, mode, user| {
            self.union.create_directory(parent, name, (mode, 0), user)
        })
    }

    pub(crate) fn make_symlink(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Outcome<(Attributes, DirectoryChange)> {
        match target.len() {
            0 => return Err(Status::NotFound),
            bytes if bytes > TARGET_BYTES_MAX => return Err(Status::NameTooLong),
            _ if target.contains(&0) => return Err(Status::Invalid),
            _ => {}
        }
        self.make(who, directory, name, 0, |parent, _, user| {
            self.union.create_symlink(parent, name, target, user)
        })
    }

    pub(crate) fn make_node(
        &self,
        who: &Identity,
        (directory, name): (FileIndex, &[u8]),
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Outcome<(Attributes, DirectoryChange)> {
        let (kind, is_device) = match kind {
            FileKind::Fifo => (1, false),
            FileKind::CharDevice => (2, true),
            FileKind::BlockDevice => (6, true),
            FileKind::Socket => (12, false),
            _ => return Err(Status::Invalid),
        };
        let may = !is_device || who.uid == 0;
        let device = rustix::fs::makedev((device >> 32) as u32, device as u32);
        let device = if is_device { device } else { 0 };
        self.make(who, directory, name, mode, |parent, mode, user| match may {
            true => self.union.create_node(parent, name, (kind << 12 | mode, 0), device, user),
            false => Err(Errno::PERM),
        })
    }

    /// Makes something with a free name.
    fn make(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
        mode: u32,
        make: impl FnOnce(braid_union::NodeId, u32, User) -> braid_union::Result<Found>,
    ) -> Outcome<(Attributes, DirectoryChange)> {
        let user = user_of(who)?;
        self.changing(directory, |parent| {
            self.check_free_name(who, directory, parent, name)?;
            let above = self.union.attributes(parent.node).or_status()?;
            let mode = mode_of_new(who, &above, mode & 0o7777);
            let found = make(parent.node, mode, user).or_status()?;
            self.name_changed(directory, parent.node, name);
            let named = self.entered(directory, parent, name, &found)?;
            Ok(self.shown(named.file, &named.found))
        })
    }

    pub(crate) fn link(
        &self,
        who: &Identity,
        file: FileIndex,
        directory: FileIndex,
        name: &[u8],
    ) -> Outcome<(Attributes, DirectoryChange)> {
        let node = self.files.node(file)?;
        self.changing(directory, |parent| {
            self.check_free_name(who, directory, parent, name)?;
            let linked = self.union.link(node.node, parent.node, name).or_status()?;
            self.name_changed(directory, parent.node, name);
            self.file_changed(file, node.node);
            let named = self.entered(directory, parent, name, &linked)?;
            Ok(self.shown(named.file, &named.found))
        })
    }

    pub(crate) fn remove(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
    ) -> Outcome<DirectoryChange> {
        let removed = self.changing(directory, |parent| {
            let named = self.find(who, directory, parent, name)?.ok_or(Status::NotFound)?;
            self.check_may_remove(who, parent, Some(&named))?;
            if named.found.is_directory() {
                self.union.remove_directory(parent.node, name).or_status()?;
            } else {
                self.check_may_delete(named.file)?;
                self.union.unlink(parent.node, name).or_status()?;
            }
            self.name_changed(directory, parent.node, name);
            self.name_removed(&named);
            Ok(())
        });
        removed.map(|((), change)| change)
    }

    /// A file has one name less.
    pub(crate) fn name_removed(&self, named: &Named) {
        self.file_changed(named.file, named.node.node);
        if named.found.is_directory() || named.found.links <= 1 {
            self.files.removed(named.file);
            self.changes.forget_unless(named.file, self.sessions().opens.is_open(named.file));
        }
    }

    /// Requires a name that is free, and the right to change the directory. `Exists` comes before
    /// `PermissionDenied`, as on Linux.
    pub(crate) fn check_free_name(
        &self,
        who: &Identity,
        directory: FileIndex,
        parent: &Arc<NodeRef>,
        name: &[u8],
    ) -> Outcome<()> {
        match self.find(who, directory, parent, name)? {
            Some(_) => Err(Status::Exists),
            None => self.permit(who, parent.node, CHANGE_NAMES),
        }
    }

    /// Requires the right to remove or replace a name, which leads to a file if it exists.
    pub(crate) fn check_may_remove(
        &self,
        who: &Identity,
        parent: &Arc<NodeRef>,
        named: Option<&Named>,
    ) -> Outcome<()> {
        self.permit(who, parent.node, CHANGE_NAMES)?;
        let Some(named) = named else { return Ok(()) };
        let above = self.union.attributes(parent.node).or_status()?;
        check_sticky(who, &above, &named.found)
    }

    /// Requires that no open denies deleting.
    pub(crate) fn check_may_delete(&self, file: FileIndex) -> Outcome<()> {
        match self.sessions().opens.denied(file).has(Deny::DELETE) {
            true => Err(Status::SharingViolation),
            false => Ok(()),
        }
    }
}
