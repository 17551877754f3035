//! Extended attributes.

use std::ops::ControlFlow;

use braid_types::limits::{NAME_BYTES_MAX, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use braid_types::{Failure, FileIndex, Status};

use super::attributes;
use crate::acl::{self, AclKind, AclList};
use crate::acl_xattr;
use crate::identity::{Call, Identity, Want, permit};
use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode, Outcome};
use crate::tx::Op;

/// What to do if the attribute exists or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Create or replace.
    Either,
    /// Only create.
    Create,
    /// Only replace.
    Replace,
}

impl Namespace {
    /// The value of an extended attribute.
    pub fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Result<Vec<u8>, Failure> {
        let inode = self.inode(file)?;
        if let Some(which) = AclKind::of(name) {
            return acl::list_of(&inode, which)
                .map(|list| acl_xattr::encode(&list))
                .ok_or_else(|| Status::NoAttribute.into());
        }
        if name == acl::NFS4_NAME {
            if inode.kind == FileKind::Symlink {
                return Err(Status::NoAttribute.into());
            }
            return Ok(acl::nfs4_of(&inode)?.to_xdr());
        }
        check(who, &inode, name, Want::READ)?;
        let value = if inode.has_xattrs { self.store.get(&key::xattr(file, name))? } else { None };
        value.ok_or_else(|| Status::NoAttribute.into())
    }

    /// The names of all extended attributes that the caller may see, in order.
    pub fn list_xattrs(&self, who: &Identity, file: FileIndex) -> Result<Vec<Vec<u8>>, Failure> {
        let inode = self.inode(file)?;
        let mut names = if inode.has_xattrs { self.xattr_names(file)? } else { Vec::new() };
        names.retain(|name| who.is_root() || !name.starts_with(b"trusted."));
        let lists = [(AclKind::Access, acl::ACCESS_NAME), (AclKind::Default, acl::DEFAULT_NAME)];
        let lists = lists.into_iter().filter(|(which, _)| acl::list_of(&inode, *which).is_some());
        names.extend(lists.map(|(_, name)| name.to_vec()));
        names.extend(inode.nfs4_acl().map(|_| acl::NFS4_NAME.to_vec()));
        Ok(names)
    }

    /// Sets an extended attribute of at most 64 KiB. `drop_setgid`: the caller has checked
    /// permissions, and sets the access list of a file whose group the user is not in.
    pub fn set_xattr(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        drop_setgid: bool,
    ) -> Result<(), Failure> {
        if let Some(which) = AclKind::of(name) {
            return self.set_list(call, file, which, acl_xattr::decode(value)?, drop_setgid);
        }
        if name == acl::NFS4_NAME {
            return self.set_nfs4_list(call, file, Some(value));
        }
        self.change(call, Op::SetXattr, file, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            check(call.who, &inode, name, Want::WRITE)?;
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(Status::LimitExceeded.into());
            }
            let there = tx.get(&key::xattr(file, name))?.is_some();
            match (mode, there) {
                (XattrMode::Create, true) => return Err(Status::Exists.into()),
                (XattrMode::Replace, false) => return Err(Status::NoAttribute.into()),
                (_, false) => self.check_list_size(file, name)?,
                _ => {}
            }
            tx.batch.put(key::xattr(file, name), value);
            inode.has_xattrs = true;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        name: &[u8],
    ) -> Result<(), Failure> {
        if let Some(which) = AclKind::of(name) {
            return self.set_list(call, file, which, None, false);
        }
        if name == acl::NFS4_NAME {
            return self.set_nfs4_list(call, file, None);
        }
        self.change(call, Op::RemoveXattr, file, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            check(call.who, &inode, name, Want::WRITE)?;
            if tx.get(&key::xattr(file, name))?.is_none() {
                return Err(Status::NoAttribute.into());
            }
            tx.batch.remove(key::xattr(file, name));
            inode.has_xattrs = self.xattr_names(file)?.len() > 1;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Sets or removes a list. Linux checks neither whether it existed nor `XATTR_CREATE`.
    fn set_list(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        which: AclKind,
        list: Option<AclList>,
        drop_setgid: bool,
    ) -> Result<(), Failure> {
        self.change(call, Op::SetXattr, file, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            acl::check_kind(&inode, which, list.is_none())?;
            attributes::owner_only(call.who, &inode)?;
            let drops = which == AclKind::Access && list.is_some();
            acl::set(&mut inode, which, list);
            // Linux posix_acl_update_mode(): as with chmod, a caller outside the file's group does
            // not keep sgid.
            if drops
                && (drop_setgid
                    || !call.who.bypasses_permissions() && !call.who.in_group(inode.group))
            {
                inode.mode &= !0o2000;
            }
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Sets or removes the NFSv4 list.
    fn set_nfs4_list(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        value: Option<&[u8]>,
    ) -> Result<(), Failure> {
        self.change(call, Op::SetXattr, file, |tx| {
            let old = tx.inode(file)?;
            let mut inode = (*old).clone();
            attributes::apply_nfs4_acl(call.who, &old, &mut inode, value)?;
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    pub(crate) fn xattr_names(&self, file: FileIndex) -> Result<Vec<Vec<u8>>, Failure> {
        let range = key::all_of(file, Kind::Xattr);
        let mut names = Vec::new();
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, _| {
            names.push(key::tail_of(key).to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// All names of a file's attributes, each with a NUL, must fit the list that Linux can return.
    fn check_list_size(&self, file: FileIndex, name: &[u8]) -> Result<(), Failure> {
        let used: usize = self.xattr_names(file)?.iter().map(|name| name.len() + 1).sum();
        if used + name.len() + 1 > XATTR_LIST_BYTES_MAX {
            Err(Status::NoSpace.into())
        } else {
            Ok(())
        }
    }
}

/// Unknown `system.` names are refused: their meaning would not be enforced. Otherwise the rules of
/// Linux's xattr(7) apply. `user.`: by the permission bits, on files and directories only.
/// `trusted.`: only root. `security.`: everyone reads, root writes.
pub(super) fn check(who: &Identity, inode: &Inode, name: &[u8], want: Want) -> Result<(), Failure> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
        return Err(Status::Range.into());
    }
    let writes = want == Want::WRITE;
    if name.starts_with(b"user.") {
        if !matches!(inode.kind, FileKind::Regular | FileKind::Directory) {
            return Err(if writes { Status::NotPermitted } else { Status::NoAttribute }.into());
        }
        if writes
            && inode.is_directory()
            && inode.mode & 0o1000 != 0
            && !who.owns(inode)
            && !who.bypasses_permissions()
        {
            return Err(Status::NotPermitted.into());
        }
        return permit(who, inode, want);
    }
    let known = [&b"trusted."[..], b"security."].iter().any(|prefix| name.starts_with(prefix));
    match (known, who.bypasses_permissions(), writes || name.starts_with(b"trusted.")) {
        (false, ..) => Err(Status::Unsupported.into()),
        (true, true, _) | (true, false, false) => Ok(()),
        (true, false, true) if writes => Err(Status::NotPermitted.into()),
        (true, false, true) => Err(Status::NoAttribute.into()),
    }
}
