//! Creation of striped files.
//!
//! The stub is created without a name, in its directory, so that it gets its group and ACLs. Then
//! it gets its xattr, its pending link, its objects, its name, and loses the pending link (S2).

use std::{
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::{
    StripeChoice, StripedFile, StripedOpen,
    layout::{FileId, Layout, STRIPES_MIN},
    remove::Removal,
    stub::{STUB_XATTR, Stub},
};
use crate::{
    Found, NodeId, OpenFile, Result, Union, User,
    attributes::{copy_of, path_of, stat_fd},
    create::is_masked,
    credentials::as_user,
    node::Node,
};

/// Where a new file is created.
pub(crate) struct NewFile<'n> {
    pub(crate) directory: NodeId,
    pub(crate) name: &'n [u8],
    /// With the umask.
    pub(crate) mode: (u32, u32),
    pub(crate) user: User,
    pub(crate) flags: OFlags,
}

/// A stub and the branch it is on.
struct NewStub {
    branch: usize,
    fd: OwnedFd,
    layout: Arc<Layout>,
}

impl Union {
    /// Creates and opens a striped file. `None`: fewer than two branches take new files, so it is
    /// to be a plain one. The caller holds [`Union::renames`] shared.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a branch's file system has no `O_TMPFILE` or no xattrs; others of open(2).
    pub(crate) fn create_striped(
        &self,
        new: &NewFile<'_>,
        choice: StripeChoice,
    ) -> Result<Option<(Found, Arc<OpenFile>)>> {
        self.check_name(new.directory, new.name)?;
        let parent = self.nodes.get(new.directory)?;
        let adding = parent.names.begin_adding();
        self.check_absent(&adding, &parent, new.name)?;
        let has = |branch| parent.copy_on(branch).is_some();
        let placement = self.placement_of(&parent)?;
        let mut order = self.placer.order(&placement, &self.branches, new.user.uid, has);
        while order.len() >= STRIPES_MIN {
            let count = order.len().min(choice.branches_max());
            match self.create_striped_on(&parent, new, choice, &order[..count]) {
                Ok(created) => return Ok(Some(created)),
                // The others may have space.
                Err((branch, Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::NOTDIR)) => {
                    self.branches[branch].space_changed();
                    order.retain(|other| *other != branch);
                }
                Err((_, error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// An error comes with the branch that failed.
    fn create_striped_on(
        &self,
        parent: &Node,
        new: &NewFile<'_>,
        choice: StripeChoice,
        branches: &[usize],
    ) -> std::result::Result<(Found, Arc<OpenFile>), (usize, Errno)> {
        let home = branches[0];
        let at_home = |error| (home, error);
        for branch in branches {
            self.branches[*branch].ensure_store().map_err(|error| (*branch, error))?;
        }
        self.striped.exist.store(true, Ordering::Relaxed);
        let to = self.ensure_directory(parent, home).map_err(at_home)?;
        let stub = self.create_stub(parent, &to, new, choice, branches).map_err(at_home)?;
        let named = self.create_objects(&stub, branches).and_then(|()| {
            let from = path_of(&stub.fd);
            rustix::fs::linkat(CWD, from, &*to, new.name, AtFlags::SYMLINK_FOLLOW).map_err(at_home)
        });
        let removal = Removal { branch: home, layout: Arc::clone(&stub.layout), pending: true };
        if let Err(error) = named {
            self.remove_objects(&removal);
            return Err(error);
        }
        self.unlink_pending(&removal);
        self.enter_created(new, &to, stub).map_err(at_home)
    }

    /// Creates a stub that has no name but the pending one.
    fn create_stub(
        &self,
        parent: &Node,
        to: &OwnedFd,
        new: &NewFile<'_>,
        choice: StripeChoice,
        branches: &[usize],
    ) -> Result<NewStub> {
        let home = branches[0];
        let id = FileId::random().map_err(|_| Errno::IO)?;
        let numbers = branches.iter().map(|branch| self.branches[*branch].number).collect();
        let layout = Layout::new(id, choice.unit(), numbers).ok_or(Errno::INVAL)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (mode, umask) = new.mode;
        let umask = if is_masked(parent, to) { umask } else { 0 };
        let mode = Mode::from_raw_mode(mode & !umask);
        let fd = as_user(new.user, || rustix::fs::openat(to, c".", flags, mode));
        // A kernel that does not know O_TMPFILE opens the directory to write.
        let fd =
            fd.map_err(|error| if error == Errno::ISDIR { Errno::OPNOTSUPP } else { error })?;
        let text = layout.to_text(self.pool, stat_fd(&fd)?.stx_ino);
        rustix::fs::fsetxattr(&fd, STUB_XATTR, text.as_bytes(), XattrFlags::CREATE)?;
        self.branches[home].store()?.link_pending(&fd, id)?;
        Ok(NewStub { branch: home, fd, layout: Arc::new(layout) })
    }

    fn create_objects(
        &self,
        stub: &NewStub,
        branches: &[usize],
    ) -> std::result::Result<(), (usize, Errno)> {
        for (position, branch) in branches.iter().enumerate() {
            self.branches[*branch]
                .store()
                .and_then(|store| store.create_object(stub.layout.id, position))
                .map_err(|error| (*branch, error))?;
        }
        Ok(())
    }

    fn enter_created(
        &self,
        new: &NewFile<'_>,
        to: &OwnedFd,
        stub: NewStub,
    ) -> Result<(Found, Arc<OpenFile>)> {
        let copy = copy_of(stub.branch, &stat_fd(&stub.fd)?);
        let shared = stub.fd.try_clone().map_err(|_| Errno::MFILE)?;
        let found = self.entered(new.directory, new.name, stub.branch, to)?;
        let node = self.nodes.get(found.node)?;
        self.stub_is(&node, &Stub::Striped(Arc::clone(&stub.layout)));
        let file = StripedFile::new(copy, stub.layout, shared, false);
        let striped = StripedOpen::new(self.enter_striped(file)?);
        Ok((found, self.enter_open(&node, stub.fd, new.flags, Some(striped))))
    }
}
