//! Opening and closing files.

use std::sync::Arc;

use braid_share::{
    Attributes, Deny, DirectoryChange, FileIndex, FileKind, Identity, OpenMode, OpenTarget, Rights,
    SessionId, Status,
    tables::{Open, Outcome},
};
use braid_union::{Access, NewAttributes, OpenFile};
use rustix::{fs::OFlags, io::Errno};

use crate::{
    attributes::kind_of,
    files::NodeRef,
    names::Named,
    rights::{CHANGE_NAMES, is_privileged, mode_of_new, user_of},
    service::Service,
    sessions::BranchFile,
    status::{OrStatus, status_of},
};

/// How often a create is tried while others create and remove the name.
const CREATE_TRIES: u32 = 100;

/// An open, as [`braid_share::Opened`] with the number of the open in place of the file.
#[derive(Debug)]
pub(crate) struct OpenedNumber {
    pub(crate) id: u64,
    pub(crate) attributes: Attributes,
    pub(crate) created: bool,
    pub(crate) directory: Option<DirectoryChange>,
}

/// What a client wants to open, and for whom.
struct Wanted<'w> {
    who: &'w Identity,
    session: SessionId,
    mode: OpenMode,
}

/// A name that is created if it does not exist.
struct Create<'c> {
    directory: FileIndex,
    name: &'c [u8],
    exclusive: bool,
    truncate: bool,
    bits: u32,
}

impl Service {
    pub(crate) fn open(
        &self,
        who: &Identity,
        session: SessionId,
        target: &OpenTarget,
        mode: OpenMode,
    ) -> Outcome<OpenedNumber> {
        check_bits(mode)?;
        let wanted = Wanted { who, session, mode };
        match target {
            OpenTarget::File(file) => {
                let node = self.files.node(*file)?;
                let found = self.union.attributes(node.node).or_status()?;
                self.open_existing(&wanted, &Named { file: *file, node, found }, false)
            }
            OpenTarget::Name { dir, name } => {
                let parent = self.directory(*dir)?;
                let named = self.find(who, *dir, &parent, name)?.ok_or(Status::NotFound)?;
                self.open_existing(&wanted, &named, false)
            }
            OpenTarget::Create { dir, name, exclusive, truncate, mode: bits } => {
                if *truncate && !mode.rights.allow(Rights::WRITE) {
                    return Err(Status::Invalid);
                }
                let (exclusive, truncate, bits) = (*exclusive, *truncate, *bits);
                let create = Create { directory: *dir, name, exclusive, truncate, bits };
                let created =
                    self.changing(*dir, |parent| self.open_or_create(&wanted, &create, parent));
                let (opened, directory) = created?;
                Ok(OpenedNumber { directory: Some(directory), ..opened })
            }
        }
    }

    fn open_or_create(
        &self,
        wanted: &Wanted<'_>,
        create: &Create<'_>,
        parent: &Arc<NodeRef>,
    ) -> Outcome<OpenedNumber> {
        for _ in 0..CREATE_TRIES {
            match self.find(wanted.who, create.directory, parent, create.name)? {
                Some(_) if create.exclusive => return Err(Status::Exists),
                Some(named) => return self.open_existing(wanted, &named, create.truncate),
                None => {}
            }
            match self.open_new(wanted, create, parent) {
                // A program on the mount was faster.
                Err(Status::Exists) if !create.exclusive => {}
                created => return created,
            }
        }
        Err(Status::TryAgain)
    }

    fn open_new(
        &self,
        wanted: &Wanted<'_>,
        create: &Create<'_>,
        parent: &Arc<NodeRef>,
    ) -> Outcome<OpenedNumber> {
        let who = wanted.who;
        self.permit(who, parent.node, CHANGE_NAMES)?;
        let above = self.union.attributes(parent.node).or_status()?;
        let mode = mode_of_new(who, &above, create.bits & 0o7777);
        let (flags, user) = (flags_of(wanted.mode.rights), user_of(who)?);
        let (found, file) =
            self.union.create(parent.node, create.name, flags, (mode, 0), user).or_status()?;
        let file = BranchFile { union: Arc::clone(&self.union), file };
        self.name_changed(create.directory, parent.node, create.name);
        let named = self.entered(create.directory, parent, create.name, &found)?;
        // POSIX open(): the creator may open the file whatever its mode.
        let id = self.sessions().opens.add(wanted.open(named.file));
        self.enter_branch_file(id, &named, file);
        let attributes = self.shown(named.file, &named.found);
        Ok(OpenedNumber { id, attributes, created: true, directory: None })
    }

    fn open_existing(
        &self,
        wanted: &Wanted<'_>,
        named: &Named,
        truncate: bool,
    ) -> Outcome<OpenedNumber> {
        match kind_of(named.found.mode) {
            FileKind::File => {}
            FileKind::Directory => return Err(Status::IsDirectory),
            // open(2) with O_NOFOLLOW: ELOOP.
            FileKind::Symlink => return Err(Status::TooManyLinks),
            _ => return Err(Status::NoDevice),
        }
        let Wanted { who, mode, .. } = wanted;
        self.permit(who, named.node.node, access_of(mode.rights))?;
        let id = {
            // Checked and entered together: nobody opens between.
            let mut sessions = self.sessions();
            sessions.opens.check(named.file, *mode, None)?;
            sessions.opens.add(wanted.open(named.file))
        };
        match self.open_branch_file(wanted, named, truncate) {
            Ok(file) => self.enter_branch_file(id, named, file),
            Err(status) => {
                self.sessions().opens.remove(id);
                return Err(status);
            }
        }
        let attributes = self.attributes(named.file)?;
        Ok(OpenedNumber { id, attributes, created: false, directory: None })
    }

    fn open_branch_file(
        &self,
        wanted: &Wanted<'_>,
        named: &Named,
        truncate: bool,
    ) -> Outcome<BranchFile> {
        let node = named.node.node;
        let file = self.union.open_file(node, flags_of(wanted.mode.rights)).or_status()?;
        let file = BranchFile { union: Arc::clone(&self.union), file };
        if truncate {
            let kill_suidgid = !is_privileged(wanted.who);
            let new = NewAttributes { size: Some(0), kill_suidgid, ..NewAttributes::default() };
            self.union.set_attributes(node, &new).or_status()?;
            self.file_changed(named.file, node);
        }
        Ok(file)
    }

    fn enter_branch_file(&self, id: u64, named: &Named, file: BranchFile) {
        self.files.opened(named.file, &named.node);
        self.sessions().branch_files.insert(id, Arc::new(file));
    }

    /// Changes access and denial of an open. More access is checked again.
    pub(crate) fn set_mode(&self, id: u64, mode: OpenMode) -> Outcome<()> {
        check_bits(mode)?;
        let (file, had, who) = {
            let sessions = self.sessions();
            let open = sessions.opens.get(id)?;
            (open.file, open.mode, open.who.clone())
        };
        let node = self.files.node(file)?;
        let more = Rights(mode.rights.0 & !had.rights.0);
        let opened = match more {
            Rights(0) => None,
            more => {
                self.permit(&who, node.node, access_of(more))?;
                let flags = flags_of(Rights(mode.rights.0 | had.rights.0));
                let opened = self.union.open_file(node.node, flags).or_status()?;
                Some(BranchFile { union: Arc::clone(&self.union), file: opened })
            }
        };
        let mut sessions = self.sessions();
        sessions.opens.check(file, mode, Some(id))?;
        sessions.opens.get_mut(id)?.mode = mode;
        let replaced = opened.and_then(|file| sessions.branch_files.insert(id, Arc::new(file)));
        drop(sessions);
        drop(replaced);
        Ok(())
    }

    /// Closes an open, once.
    pub(crate) fn close(&self, id: u64) {
        let mut sessions = self.sessions();
        let (open, file) = (sessions.opens.remove(id), sessions.branch_files.remove(&id));
        drop(sessions);
        drop(file);
        if let Some(Open { file, .. }) = open {
            self.files.closed(file);
        }
    }

    /// Ends a session with its opens and locks.
    pub(crate) fn end_session(&self, session: SessionId) {
        let (files, branch_files) = self.sessions().end(session);
        drop(branch_files);
        files.into_iter().for_each(|file| self.files.closed(file));
    }

    /// The open file of an open that has this right.
    pub(crate) fn opened(
        &self,
        id: u64,
        right: Rights,
    ) -> Outcome<(FileIndex, Arc<BranchFile>, Identity)> {
        let sessions = self.sessions();
        let open = sessions.opens.get(id)?;
        // POSIX has EBADF; this is the status of a cluster's client.
        if !open.mode.rights.allow(right) {
            return Err(Status::NotPermitted);
        }
        let file = sessions.branch_files.get(&id).ok_or(Status::StaleHandle)?;
        Ok((open.file, Arc::clone(file), open.who.clone()))
    }
}

impl Wanted<'_> {
    fn open(&self, file: FileIndex) -> Open {
        let Self { who, session, mode } = *self;
        Open { session, file, mode, who: who.clone(), unflushed_since: None }
    }
}

fn check_bits(mode: OpenMode) -> Outcome<()> {
    let valid = (1..=Rights::READ_WRITE.0).contains(&mode.rights.0) && mode.deny.0 <= Deny::ALL.0;
    if valid { Ok(()) } else { Err(Status::Invalid) }
}

fn access_of(rights: Rights) -> Access {
    let bit = |right, access| if rights.allow(right) { access } else { Access::empty() };
    bit(Rights::READ, Access::READ_OK) | bit(Rights::WRITE, Access::WRITE_OK)
}

fn flags_of(rights: Rights) -> OFlags {
    match (rights.allow(Rights::READ), rights.allow(Rights::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    }
}

/// Bits that a write by a user without rights ends.
pub(crate) fn has_set_ids(file: &OpenFile) -> Outcome<bool> {
    let stat = rustix::fs::fstat(&*file.fd()).map_err(|error: Errno| status_of(error))?;
    Ok(stat.st_mode & 0o6000 != 0)
}
