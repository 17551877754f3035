//! Attributes and extended attributes.

use braid_types::{
    FileIndex, SessionId, Status, dos_attributes,
    limits::{FILE_BYTES_MAX, NAME_BYTES_MAX, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX},
    nfs4_acl::Nfs4Acl,
};

use super::{
    inode::{Content, Inode},
    permission::{READ, WRITE, granted, in_group, is_privileged, owner_only, permit},
    state::{Outcome, State},
};
use crate::{
    AttributeChanges, Attributes, Deny, FileKind, Identity, OpenMode, Rights, SetTime, Timestamp,
    XattrMode, acl_of_mode,
};

impl State {
    pub(super) fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Outcome<u8> {
        Ok(wanted & granted(who, self.inode(file)?))
    }

    /// Changes attributes, all or none. A size needs the right to write, also if the session has
    /// the file open for writing: another user may have opened it.
    pub(super) fn set_attributes(
        &mut self,
        who: &Identity,
        session: SessionId,
        file: FileIndex,
        changes: &AttributeChanges,
    ) -> Outcome<Attributes> {
        let inode = self.inode(file)?;
        if let Some(bytes) = changes.bytes {
            self.check_resize(who, session, inode, bytes.0)?;
        }
        check_owner(who, inode, changes)?;
        check_mode(who, inode, changes)?;
        check_times(who, inode, changes)?;
        if let Some(flags) = changes.flags {
            if !dos_attributes::are_valid(flags) {
                return Err(Status::Unsupported);
            }
            owner_only(who, inode).or_else(|_| permit(who, inode, WRITE))?;
        }
        if let Some(bytes) = changes.bytes {
            self.resize(who, file, bytes.0)?;
        }
        let now = self.now();
        self.change(file, |inode| {
            apply_others(who, inode, changes, now);
            inode.attributes()
        })
    }

    /// As [`State::set_attributes`], with the time of creation. Only the owner and root set it in
    /// this double.
    pub(super) fn set_attributes_and_birth(
        &mut self,
        who: &Identity,
        session: SessionId,
        file: FileIndex,
        changes: &AttributeChanges,
        btime: Timestamp,
    ) -> Outcome<Attributes> {
        owner_only(who, self.inode(file)?)?;
        if btime.nanos >= 1_000_000_000 {
            return Err(Status::Invalid);
        }
        self.set_attributes(who, session, file, changes)?;
        self.change(file, |inode| {
            inode.btime = btime;
            inode.attributes()
        })
    }

    /// As [`State::set_attributes`], with an NFSv4 access control list. Only the owner and root set
    /// one in this double.
    pub(super) fn set_attributes_and_acl(
        &mut self,
        who: &Identity,
        session: SessionId,
        file: FileIndex,
        changes: &AttributeChanges,
        list: &Nfs4Acl,
    ) -> Outcome<Attributes> {
        let inode = self.inode(file)?;
        if inode.kind == FileKind::Symlink {
            return Err(Status::Unsupported);
        }
        owner_only(who, inode)?;
        let list = Nfs4Acl::new(list.aces().to_vec(), inode.is_directory());
        let list = list.map_err(|_| Status::Invalid)?;
        self.set_attributes(who, session, file, changes)?;
        self.change(file, |inode| {
            inode.set_nfs4_acl(list);
            inode.attributes()
        })
    }

    pub(super) fn nfs4_acl(&self, file: FileIndex) -> Outcome<Nfs4Acl> {
        let inode = self.inode(file)?;
        match &inode.nfs4_acl {
            _ if inode.kind == FileKind::Symlink => Err(Status::Unsupported),
            Some(list) => Ok(list.clone()),
            None => Ok(acl_of_mode(&inode.attributes())),
        }
    }

    fn check_resize(
        &self,
        who: &Identity,
        session: SessionId,
        inode: &Inode,
        bytes: u64,
    ) -> Outcome<()> {
        permit(who, inode, WRITE)?;
        match inode.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Status::IsDirectory),
            _ => return Err(Status::Invalid),
        }
        if bytes > FILE_BYTES_MAX {
            return Err(Status::TooLarge);
        }
        let mode = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
        if self.opens.writes(session, inode.file) {
            Ok(())
        } else {
            self.opens.check(inode.file, mode, None)
        }
    }

    /// Truncates or extends a file, durably.
    pub(super) fn resize(&mut self, who: &Identity, file: FileIndex, bytes: u64) -> Outcome<()> {
        self.modify(file, |inode| {
            inode.size_generation += 1;
            if !is_privileged(who) {
                inode.clear_set_ids();
            }
            inode.flags = dos_attributes::after_write(inode.flags);
            if let Content::File(data) = &mut inode.content {
                data.change_durably(|data| data.set_len(bytes));
            }
        })
    }

    pub(super) fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Outcome<Vec<u8>> {
        let inode = self.inode(file)?;
        check_xattr(who, inode, name, READ)?;
        inode.xattrs.get(name).cloned().ok_or(Status::NoAttribute)
    }

    pub(super) fn xattrs(&self, who: &Identity, file: FileIndex) -> Outcome<Vec<Vec<u8>>> {
        let names = self.inode(file)?.xattrs.keys();
        Ok(names.filter(|name| who.uid == 0 || !name.starts_with(b"trusted.")).cloned().collect())
    }

    pub(super) fn set_xattr(
        &mut self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        let inode = self.inode(file)?;
        check_xattr(who, inode, name, WRITE)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Status::LimitExceeded);
        }
        let exists = inode.xattrs.contains_key(name);
        let used: usize = inode.xattrs.keys().map(|name| name.len() + 1).sum();
        match (mode, exists) {
            (XattrMode::Create, true) => return Err(Status::Exists),
            (XattrMode::Replace, false) => return Err(Status::NoAttribute),
            (_, false) if used + name.len() + 1 > XATTR_LIST_BYTES_MAX => {
                return Err(Status::NoSpace);
            }
            _ => {}
        }
        self.change(file, |inode| drop(inode.xattrs.insert(name.to_vec(), value.to_vec())))
    }

    pub(super) fn remove_xattr(
        &mut self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
    ) -> Outcome<()> {
        let inode = self.inode(file)?;
        check_xattr(who, inode, name, WRITE)?;
        if !inode.xattrs.contains_key(name) {
            return Err(Status::NoAttribute);
        }
        self.change(file, |inode| drop(inode.xattrs.remove(name)))
    }
}

/// POSIX chown(): only root may change the owner; the owner may change the group to one of its own
/// groups.
fn check_owner(who: &Identity, inode: &Inode, changes: &AttributeChanges) -> Outcome<()> {
    if changes.uid.is_none() && changes.gid.is_none() {
        return Ok(());
    }
    if changes.uid.is_some_and(|uid| uid != inode.uid) && !is_privileged(who) {
        return Err(Status::NotPermitted);
    }
    owner_only(who, inode)?;
    match changes.gid {
        Some(gid) if gid != inode.gid && !is_privileged(who) && !in_group(who, gid) => {
            Err(Status::NotPermitted)
        }
        _ => Ok(()),
    }
}

fn check_mode(who: &Identity, inode: &Inode, changes: &AttributeChanges) -> Outcome<()> {
    match changes.mode {
        None => Ok(()),
        Some(mode) if mode > 0o7777 => Err(Status::Invalid),
        Some(_) => owner_only(who, inode),
    }
}

/// POSIX utimensat(): setting both times to now needs ownership or the right to write. Anything
/// else needs ownership.
fn check_times(who: &Identity, inode: &Inode, changes: &AttributeChanges) -> Outcome<()> {
    let (atime, mtime) = (&changes.atime, &changes.mtime);
    if atime.is_none() && mtime.is_none() {
        return Ok(());
    }
    let now = SetTime { time: None };
    let both_now = atime.as_ref() == Some(&now) && mtime.as_ref() == Some(&now);
    match owner_only(who, inode) {
        Err(_) if both_now => permit(who, inode, WRITE)?,
        refused => refused?,
    }
    let given = [atime, mtime].into_iter().flatten().filter_map(|set| set.time);
    match given.into_iter().all(|time| time.nanos < 1_000_000_000) {
        true => Ok(()),
        false => Err(Status::Invalid),
    }
}

/// Everything but the size; all checks have passed.
fn apply_others(who: &Identity, inode: &mut Inode, changes: &AttributeChanges, now: Timestamp) {
    if changes.uid.is_some() || changes.gid.is_some() {
        inode.uid = changes.uid.unwrap_or(inode.uid);
        inode.gid = changes.gid.unwrap_or(inode.gid);
        inode.clear_set_ids();
    }
    if let Some(mode) = changes.mode {
        inode.mode = mode;
        // POSIX chmod(): a user outside the file's group may not set setgid.
        if !is_privileged(who) && !in_group(who, inode.gid) {
            inode.mode &= !0o2000;
        }
        if let Some(list) = &inode.nfs4_acl
            && let Ok(list) = list.with_mode((mode & 0o777) as u16, inode.is_directory())
        {
            inode.set_nfs4_acl(list);
        }
    }
    let value = |set: &SetTime| set.time.unwrap_or(now);
    inode.atime = changes.atime.as_ref().map_or(inode.atime, value);
    inode.mtime = changes.mtime.as_ref().map_or(inode.mtime, value);
    inode.flags = changes.flags.unwrap_or(inode.flags);
    if changes.drop_set_ids {
        inode.clear_set_ids();
    }
}

/// The rules of xattr(7). `user.`: by the permission bits, on files and directories only.
/// `trusted.`: only root. `security.`: everyone reads, root writes. This file system has no
/// `system.` attributes, so no access control lists.
fn check_xattr(who: &Identity, inode: &Inode, name: &[u8], want: u8) -> Outcome<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(Status::Range);
    }
    let writes = want == WRITE;
    if name.starts_with(b"user.") {
        if !matches!(inode.kind, FileKind::File | FileKind::Directory) {
            return Err(if writes { Status::NotPermitted } else { Status::NoAttribute });
        }
        if writes && inode.is_directory() && inode.mode & 0o1000 != 0 {
            owner_only(who, inode)?;
        }
        return permit(who, inode, want);
    }
    let trusted = name.starts_with(b"trusted.");
    match (trusted || name.starts_with(b"security."), is_privileged(who)) {
        (false, _) => Err(Status::Unsupported),
        (true, true) => Ok(()),
        (true, false) if writes => Err(Status::NotPermitted),
        (true, false) if trusted => Err(Status::NoAttribute),
        (true, false) => Ok(()),
    }
}
