//! Extended attributes.

use braid_meta::{
    CAPABILITY_XATTR, Inode, XattrMode as StoredMode,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::Status;
use braid_wire::message::mds::{GetXattr, ListXattrs, RemoveXattr, SetXattr, XattrMode};

use super::attributes::{SET_IDS, given_set_ids};
use crate::{
    call::{Call, Flow},
    core::MdsCore,
    lease::{claimed, names_of},
};

/// The prefix of attributes that may change the mode.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

impl MdsCore {
    pub(super) fn get_xattr(&self, call: Call, r: &GetXattr) -> Flow {
        let value = self
            .file_at(&call, &r.at, false)
            .and_then(|inode| self.names.xattr(&call.who, inode.file, &r.name));
        Flow::from(call, value)
    }

    pub(super) fn list_xattrs(&self, call: Call, r: &ListXattrs) -> Flow {
        let names = self
            .file_at(&call, &r.at, false)
            .and_then(|inode| self.names.list_xattrs(&call.who, inode.file));
        Flow::from(call, names)
    }

    pub(super) fn set_xattr(&self, call: Call, r: &SetXattr) -> Flow {
        let mode = match r.mode {
            XattrMode::Either => StoredMode::Either,
            XattrMode::Create => StoredMode::Create,
            XattrMode::Replace => StoredMode::Replace,
            _ => return Flow::Fail(call, Status::Unsupported.into()),
        };
        let inode = match self.file_at(&call, &r.at, false) {
            Ok(inode) => inode,
            Err(failure) => return Flow::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &needs_of(&inode, &r.name)));
        let set = self.names.set_xattr(
            &self.change(&call),
            inode.file,
            &r.name,
            &r.value,
            mode,
            r.drop_setgid,
        );
        Flow::from(call, set)
    }

    pub(super) fn remove_xattr(&self, call: Call, r: &RemoveXattr) -> Flow {
        let inode = match self.file_at(&call, &r.at, false) {
            Ok(inode) => inode,
            Err(failure) => return Flow::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, &needs_of(&inode, &r.name)));
        let removed = self.names.remove_xattr(&self.change(&call), inode.file, &r.name);
        Flow::from(call, removed)
    }
}

/// What a change of an attribute needs. An access control list holds the group's bits of the mode,
/// and setgid depends on the execute bit of the group. A write drops file capabilities, and its
/// client asks the server only if its lease says that there are some.
fn needs_of(inode: &Inode, name: &[u8]) -> Vec<(LeaseOf, LeaseMode)> {
    let mut needs: Vec<_> = names_of(inode).into_iter().collect();
    if name.starts_with(ACCESS_LISTS) && u32::from(inode.mode) & SET_IDS != 0 {
        needs.extend(given_set_ids(inode));
    }
    if name == CAPABILITY_XATTR {
        needs.extend(given_set_ids(inode));
    }
    needs
}
