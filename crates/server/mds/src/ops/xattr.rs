//! Extended attributes.

use braid_meta::XattrMode as StoredMode;
use braid_types::Status;
use braid_wire::message::mds::{GetXattr, ListXattrs, RemoveXattr, SetXattr, XattrMode};

use crate::{
    call::{Call, Flow},
    core::MdsCore,
    lease::{claimed, names_of},
};

impl MdsCore {
    pub(super) fn get_xattr(&self, call: Call, r: &GetXattr) -> Flow {
        let value =
            self.file_at(&call, &r.at, false).and_then(|inode| self.names.xattr(&call.who, inode.file, &r.name));
        Flow::from(call, value)
    }

    pub(super) fn list_xattrs(&self, call: Call, r: &ListXattrs) -> Flow {
        let names = self.file_at(&call, &r.at, false).and_then(|inode| self.names.list_xattrs(&call.who, inode.file));
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
        let call = claimed!(self.claim(call, names_of(&inode).as_slice()));
        let set = self.names.set_xattr(&self.change(&call), inode.file, &r.name, &r.value, mode, r.drop_setgid);
        Flow::from(call, set)
    }

    pub(super) fn remove_xattr(&self, call: Call, r: &RemoveXattr) -> Flow {
        let inode = match self.file_at(&call, &r.at, false) {
            Ok(inode) => inode,
            Err(failure) => return Flow::Fail(call, failure),
        };
        let call = claimed!(self.claim(call, names_of(&inode).as_slice()));
        let removed = self.names.remove_xattr(&self.change(&call), inode.file, &r.name);
        Flow::from(call, removed)
    }
}
