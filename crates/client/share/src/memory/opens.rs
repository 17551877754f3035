//! Opening and closing files.

use braid_types::{FileIndex, SessionId, Status};

use super::{
    inode::Inode,
    permission::{CHANGE_ENTRIES, READ, WRITE, is_privileged, permit},
    state::{Outcome, State},
};
use crate::{
    Attributes, Deny, DirectoryChange, FileKind, Identity, OpenMode, OpenTarget, Rights,
    tables::Open,
};

/// An open, as [`crate::Opened`] with the number of the open in place of the file.
#[derive(Debug)]
pub(super) struct OpenedNumber {
    pub(super) id: u64,
    pub(super) attributes: Attributes,
    pub(super) created: bool,
    pub(super) directory: Option<DirectoryChange>,
}

impl State {
    pub(super) fn open(
        &mut self,
        who: &Identity,
        session: SessionId,
        target: &OpenTarget,
        mode: OpenMode,
    ) -> Outcome<OpenedNumber> {
        check_bits(mode)?;
        let who = (who, session);
        match target {
            OpenTarget::File(file) => self.open_existing(who, *file, mode, false),
            OpenTarget::Name { dir, name } => {
                let file = self.find(who.0, *dir, name)?.ok_or(Status::NotFound)?;
                self.open_existing(who, file, mode, false)
            }
            OpenTarget::Create { dir, name, exclusive, truncate, mode: bits } => {
                if *truncate && !mode.rights.allow(Rights::WRITE) {
                    return Err(Status::Invalid);
                }
                let (opened, directory) =
                    self.changing(*dir, |state| match state.find(who.0, *dir, name)? {
                        Some(_) if *exclusive => Err(Status::Exists),
                        Some(file) => state.open_existing(who, file, mode, *truncate),
                        None => state.open_new(who, (*dir, name), *bits, mode),
                    })?;
                Ok(OpenedNumber { directory: Some(directory), ..opened })
            }
        }
    }

    fn open_existing(
        &mut self,
        (who, session): (&Identity, SessionId),
        file: FileIndex,
        mode: OpenMode,
        truncate: bool,
    ) -> Outcome<OpenedNumber> {
        let inode = self.inode(file)?;
        match inode.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Status::IsDirectory),
            // open(2) with O_NOFOLLOW: ELOOP.
            FileKind::Symlink => return Err(Status::TooManyLinks),
            _ => return Err(Status::NoDevice),
        }
        permit_rights(who, inode, mode.rights)?;
        self.opens.check(file, mode, None)?;
        if truncate {
            self.resize(who, file, 0)?;
        }
        self.clear_set_ids_for(who, file, mode.rights)?;
        let attributes = self.inode(file)?.attributes();
        let id = self.add_open(who, session, file, mode);
        Ok(OpenedNumber { id, attributes, created: false, directory: None })
    }

    fn open_new(
        &mut self,
        (who, session): (&Identity, SessionId),
        (dir, name): (FileIndex, &[u8]),
        bits: u32,
        mode: OpenMode,
    ) -> Outcome<OpenedNumber> {
        permit(who, self.inode(dir)?, CHANGE_ENTRIES)?;
        let inode = self.new_inode_in(who, dir, FileKind::File, bits)?;
        let attributes = self.add(dir, name, inode)?;
        // POSIX open(): the creator may open the file whatever its mode.
        let id = self.add_open(who, session, attributes.file, mode);
        Ok(OpenedNumber { id, attributes, created: true, directory: None })
    }

    fn add_open(
        &mut self,
        who: &Identity,
        session: SessionId,
        file: FileIndex,
        mode: OpenMode,
    ) -> u64 {
        self.opens.add(Open { session, file, mode, who: who.clone(), unflushed_since: None })
    }

    /// Changes access and denial of an open. More access is checked against the file's mode.
    pub(super) fn set_mode(&mut self, id: u64, mode: OpenMode) -> Outcome<()> {
        check_bits(mode)?;
        let Open { file, mode: had, ref who, .. } = *self.opens.get(id)?;
        let (who, more) = (who.clone(), Rights(mode.rights.0 & !had.rights.0));
        permit_rights(&who, self.inode(file)?, more)?;
        self.opens.check(file, mode, Some(id))?;
        if !mode.rights.allow(Rights::WRITE) {
            // It may not flush afterwards.
            self.commit(id)?;
        }
        self.clear_set_ids_for(&who, file, more)?;
        self.opens.get_mut(id)?.mode = mode;
        Ok(())
    }

    /// Closes an open, once. Fails if unflushed bytes were lost that no commit has reported.
    pub(super) fn close(&mut self, id: u64) -> Outcome<()> {
        let Some(open) = self.opens.remove(id) else { return Ok(()) };
        self.drop_if_unused(open.file);
        match open.unflushed_since {
            Some(since) if since != self.losses => Err(Status::UnsyncedDataLost),
            _ => Ok(()),
        }
    }

    /// POSIX write(): setuid and setgid may be cleared by a write. They are cleared when the right
    /// to write is given.
    fn clear_set_ids_for(
        &mut self,
        who: &Identity,
        file: FileIndex,
        rights: Rights,
    ) -> Outcome<()> {
        let has = self.inode(file)?.mode & 0o6000 != 0;
        if has && rights.allow(Rights::WRITE) && !is_privileged(who) {
            self.change(file, Inode::clear_set_ids)?;
        }
        Ok(())
    }
}

fn check_bits(mode: OpenMode) -> Outcome<()> {
    let valid = (1..=Rights::READ_WRITE.0).contains(&mode.rights.0) && mode.deny.0 <= Deny::ALL.0;
    if valid { Ok(()) } else { Err(Status::Invalid) }
}

fn permit_rights(who: &Identity, inode: &Inode, rights: Rights) -> Outcome<()> {
    let bit = |right, bit| if rights.allow(right) { bit } else { 0 };
    permit(who, inode, bit(Rights::READ, READ) | bit(Rights::WRITE, WRITE))
}
