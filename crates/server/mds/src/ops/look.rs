//! Reads of one file's attributes, link target and permissions.

use braid_meta::Want;
use braid_types::{Failure, Status};
use braid_wire::message::{
    mds::{Access, MdsRequest, ReadLink, Stat},
    types::Attributes,
};

use crate::{
    call::{Call, Flow},
    core::MdsCore,
};

impl MdsCore {
    pub(super) fn stat(&self, call: Call, r: &Stat) -> Flow {
        match self.file_at(&call, &r.at, r.follow) {
            Ok(inode) => self.attributes_of(
                call,
                inode,
                || MdsRequest::Stat(r.clone()),
                |attributes: Attributes| attributes,
            ),
            Err(failure) => Flow::Fail(call, failure),
        }
    }

    pub(super) fn read_link(&self, call: Call, r: &ReadLink) -> Flow {
        let target =
            self.file_at(&call, &r.at, false).and_then(|inode| self.names.readlink(inode.file));
        Flow::from(call, target)
    }

    pub(super) fn access(&self, call: Call, r: &Access) -> Flow {
        let allowed = self.file_at(&call, &r.at, true).and_then(|inode| {
            if r.mask > 7 {
                return Err(Failure::new(Status::Invalid, "the access bits are 4, 2 and 1"));
            }
            if r.mask & Want::WRITE.0 != 0 && call.connection.rights.read_only {
                return Err(Status::ReadOnly.into());
            }
            braid_meta::permit(&call.who, &inode, Want(r.mask))
        });
        Flow::from(call, allowed)
    }
}
