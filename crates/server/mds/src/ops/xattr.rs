//! Extended attributes.

use braid_meta::{
    CAPABILITY_XATTR, Inode, XattrMode as StoredMode,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::Status;
use braid_wire::message::mds::{GetXattr, ListXattrs, RemoveXattr, SetXattr, XattrMode};

use super::attributes::{SET_IDS, given_set_ids};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    lease::{claimed, delegation_of, names_of},
};

/// The prefix of attributes that may change the mode.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";
/// The attribute that shows an NFSv4 list, which changes the mode, too.
const NFS4_LIST: &[u8] = b"system.nfs4_acl";

impl MdsCore {
    pub(super) fn get_xattr(&self, call: Call, r: &GetXattr) -> CallOutcome {
        let value = self
            .file_at(&call, &r.at, false)
            .and_then(|inode| self.namespace.xattr(&call.who, inode.file, &r.name));
        CallOutcome::from(call, value)
    }

    pub(super) fn list_xattrs(&self, call: Call, r: &ListXattrs) -> CallOutcome {
        let names = self
            .file_at(&call, &r.at, false)
            .and_then(|inode| self.namespace.list_xattrs(&call.who, inode.file));
        CallOutcome::from(call, names)
    }

    pub(super) fn set_xattr(&self, call: Call, r: &SetXattr) -> CallOutcome {
        let mode = match r.mode {
            XattrMode::Either => StoredMode::Either,
            XattrMode::Create => StoredMode::Create,
            XattrMode::Replace => StoredMode::Replace,
            _ => return CallOutcome::Fail(call, Status::Unsupported.into()),
        };
        let inode = match self.file_at(&call, &r.at, false) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &needs_of(&inode, &r.name)));
        let set = self.namespace.set_xattr(
            &self.change(&call),
            inode.file,
            &r.name,
            &r.value,
            mode,
            r.drop_setgid,
        );
        CallOutcome::from(call, set)
    }

    pub(super) fn remove_xattr(&self, call: Call, r: &RemoveXattr) -> CallOutcome {
        let inode = match self.file_at(&call, &r.at, false) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &needs_of(&inode, &r.name)));
        let removed = self.namespace.remove_xattr(&self.change(&call), inode.file, &r.name);
        CallOutcome::from(call, removed)
    }
}

/// What a change of an attribute needs. An access control list holds the group's bits of the mode,
/// and setgid depends on the execute bit of the group. A write drops file capabilities, and its
/// client asks the server only if its lease says that there are some.
fn needs_of(inode: &Inode, name: &[u8]) -> Vec<(LeaseOf, LeaseMode)> {
    let mut needs: Vec<_> = names_of(inode).into_iter().chain(delegation_of(inode)).collect();
    let is_list = name.starts_with(ACCESS_LISTS) || name == NFS4_LIST;
    if is_list && u32::from(inode.mode) & SET_IDS != 0 {
        needs.extend(given_set_ids(inode));
    }
    if name == CAPABILITY_XATTR {
        needs.extend(given_set_ids(inode));
    }
    needs
}
