//! Names: looking up, listing, making and removing them.

use braid_types::{
    FileIndex, Status,
    limits::{LINKS_MAX, SYMLINK_BYTES_MAX},
};

use super::{
    inode::{Content, Inode},
    permission::{CHANGE_ENTRIES, EXECUTE, READ, is_privileged, permit, permit_sticky},
    state::{Outcome, State},
};
use crate::{Attributes, Deny, DirectoryChange, FileKind, Identity, Listing, name::check_name};

/// Bytes that an entry counts for besides its name.
const ENTRY_BYTES: usize = 64;
/// Entries of one listing at most.
const ENTRIES_MAX: usize = 1024;

impl State {
    pub(super) fn look_up(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<Attributes> {
        let found = self.find(who, dir, name)?.ok_or(Status::NotFound)?;
        Ok(self.inode(found)?.attributes())
    }

    pub(super) fn look_up_folded(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<(Vec<u8>, Attributes)> {
        check_name(name)?;
        let (inode, directory) = self.directory(dir)?;
        permit(who, inode, EXECUTE)?;
        let (name, file) = directory.find_folded(name).ok_or(Status::NotFound)?;
        Ok((name.to_vec(), self.inode(file)?.attributes()))
    }

    /// The file of a name without regard to case.
    pub(super) fn named_folded(&self, dir: FileIndex, name: &[u8]) -> Option<FileIndex> {
        let (_, directory) = self.directory(dir).ok()?;
        directory.find_folded(name).map(|(_, file)| file)
    }

    /// The file of a name, if it exists. The user must be able to search the directory.
    pub(super) fn find(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<Option<FileIndex>> {
        check_name(name)?;
        let (inode, directory) = self.directory(dir)?;
        permit(who, inode, EXECUTE)?;
        Ok(directory.find(name))
    }

    pub(super) fn parent(&self, who: &Identity, dir: FileIndex) -> Outcome<Attributes> {
        let (inode, _) = self.directory(dir)?;
        permit(who, inode, EXECUTE)?;
        Ok(self.inode(inode.parent)?.attributes())
    }

    pub(super) fn list(
        &self,
        who: &Identity,
        dir: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Outcome<Listing> {
        let (inode, directory) = self.directory(dir)?;
        permit(who, inode, READ)?;
        let (mut listing, mut bytes) = (Listing { entries: Vec::new(), end: true }, 0);
        for mut entry in directory.after(cookie) {
            let full = bytes >= bytes_max as usize || listing.entries.len() == ENTRIES_MAX;
            if full && !listing.entries.is_empty() {
                listing.end = false;
                break;
            }
            bytes += entry.name.len() + ENTRY_BYTES;
            // POSIX stat(): attributes need search permission of the directory.
            if with_attributes && permit(who, inode, EXECUTE).is_ok() {
                entry.attributes = Some(self.inode(entry.file)?.attributes());
            }
            listing.entries.push(entry);
        }
        Ok(listing)
    }

    pub(super) fn read_link(&self, file: FileIndex) -> Outcome<Vec<u8>> {
        match &self.inode(file)?.content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(Status::Invalid),
        }
    }

    pub(super) fn make_directory(
        &mut self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        mode: u32,
    ) -> Outcome<(Attributes, DirectoryChange)> {
        self.changing(dir, |state| {
            state.check_free_name(who, dir, name)?;
            if state.inode(dir)?.links >= LINKS_MAX {
                return Err(Status::LinkLimit);
            }
            let inode = state.new_inode_in(who, dir, FileKind::Directory, mode)?;
            state.add(dir, name, inode)
        })
    }

    pub(super) fn make_symlink(
        &mut self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Outcome<(Attributes, DirectoryChange)> {
        self.changing(dir, |state| {
            match target.len() {
                0 => return Err(Status::NotFound),
                bytes if bytes > SYMLINK_BYTES_MAX => return Err(Status::NameTooLong),
                _ if target.contains(&0) => return Err(Status::Invalid),
                _ => {}
            }
            state.check_free_name(who, dir, name)?;
            let mut inode = state.new_inode_in(who, dir, FileKind::Symlink, 0o777)?;
            inode.content = Content::Symlink(target.to_vec());
            state.add(dir, name, inode)
        })
    }

    pub(super) fn make_node(
        &mut self,
        who: &Identity,
        (dir, name): (FileIndex, &[u8]),
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Outcome<(Attributes, DirectoryChange)> {
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        if !is_device && !matches!(kind, FileKind::Fifo | FileKind::Socket) {
            return Err(Status::Invalid);
        }
        self.changing(dir, |state| {
            state.check_free_name(who, dir, name)?;
            if is_device && !is_privileged(who) {
                return Err(Status::NotPermitted);
            }
            let mut inode = state.new_inode_in(who, dir, kind, mode)?;
            inode.device = if is_device { device } else { 0 };
            state.add(dir, name, inode)
        })
    }

    pub(super) fn link(
        &mut self,
        who: &Identity,
        file: FileIndex,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<(Attributes, DirectoryChange)> {
        self.inode(file)?;
        self.changing(dir, |state| {
            state.check_free_name(who, dir, name)?;
            let inode = state.inode(file)?;
            match inode.links {
                // POSIX link(): EPERM for a directory.
                _ if inode.is_directory() => return Err(Status::NotPermitted),
                // Its last name was removed while it was open: it gets no new one.
                0 => return Err(Status::NotFound),
                LINKS_MAX.. => return Err(Status::LinkLimit),
                _ => {}
            }
            state.set_name(dir, name, file)?;
            state.change(file, |inode| {
                inode.links += 1;
                inode.attributes()
            })
        })
    }

    pub(super) fn remove(
        &mut self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<DirectoryChange> {
        let removed = self.changing(dir, |state| {
            let file = state.find(who, dir, name)?.ok_or(Status::NotFound)?;
            state.check_may_remove(who, dir, Some(file))?;
            if state.inode(file)?.is_directory() {
                state.check_empty(file)?;
            } else {
                state.check_may_delete(file)?;
            }
            state.remove_name(dir, name)?;
            state.drop_name(file)
        });
        removed.map(|((), change)| change)
    }

    /// Requires a name that is free, and the right to change the directory. `Exists` comes before
    /// `PermissionDenied`, as on Linux.
    pub(super) fn check_free_name(
        &self,
        who: &Identity,
        dir: FileIndex,
        name: &[u8],
    ) -> Outcome<()> {
        if self.find(who, dir, name)?.is_some() {
            return Err(Status::Exists);
        }
        permit(who, self.inode(dir)?, CHANGE_ENTRIES)
    }

    /// Requires the right to remove or replace an entry, which leads to `target` if it exists.
    pub(super) fn check_may_remove(
        &self,
        who: &Identity,
        dir: FileIndex,
        target: Option<FileIndex>,
    ) -> Outcome<()> {
        let (inode, _) = self.directory(dir)?;
        permit(who, inode, CHANGE_ENTRIES)?;
        target.map_or(Ok(()), |target| permit_sticky(who, inode, self.inode(target)?))
    }

    pub(super) fn check_empty(&self, dir: FileIndex) -> Outcome<()> {
        if self.directory(dir)?.1.is_empty() { Ok(()) } else { Err(Status::NotEmpty) }
    }

    /// Requires that no open denies deleting.
    pub(super) fn check_may_delete(&self, file: FileIndex) -> Outcome<()> {
        match self.opens.denied(file).has(Deny::DELETE) {
            true => Err(Status::SharingViolation),
            false => Ok(()),
        }
    }

    /// Puts a new inode under a free name.
    pub(super) fn add(&mut self, dir: FileIndex, name: &[u8], inode: Inode) -> Outcome<Attributes> {
        let (file, attributes) = (inode.file, inode.attributes());
        self.inodes.insert(file, inode);
        self.set_name(dir, name, file)?;
        Ok(attributes)
    }

    /// Adds a name to a directory, or makes it lead to another file.
    pub(super) fn set_name(&mut self, dir: FileIndex, name: &[u8], file: FileIndex) -> Outcome<()> {
        let had = match self.directory(dir)?.1.find(name) {
            Some(old) => self.inode(old)?.is_directory(),
            None => false,
        };
        let kind = self.inode(file)?.kind;
        let has = kind == FileKind::Directory;
        self.change_names(
            dir,
            |links| links + u32::from(has) - u32::from(had),
            |directory| directory.set(name, file, kind),
        )
    }

    pub(super) fn remove_name(&mut self, dir: FileIndex, name: &[u8]) -> Outcome<()> {
        let old = self.directory(dir)?.1.find(name).ok_or(Status::NotFound)?;
        let had = self.inode(old)?.is_directory();
        self.change_names(dir, |links| links - u32::from(had), |directory| directory.remove(name))
    }

    /// A name of a file was removed. The file goes with its last name, or with its last open.
    pub(super) fn drop_name(&mut self, file: FileIndex) -> Outcome<()> {
        self.change(file, |inode| {
            inode.links = if inode.is_directory() { 0 } else { inode.links - 1 };
        })?;
        self.drop_if_unused(file);
        Ok(())
    }
}
