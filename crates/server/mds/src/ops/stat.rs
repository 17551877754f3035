//! Reads of one file's attributes, link target and permissions.

use braid_meta::Want;
use braid_types::{Failure, Status};
use braid_wire::message::{
    mds::{Access, MdsRequest, ReadLink, Stat},
    types::Attributes,
};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

impl MdsCore {
    pub(super) fn stat(&self, call: Call, r: &Stat) -> CallOutcome {
        match self.file_at(&call, &r.at, r.follow) {
            Ok(inode) => self.reply_with_attributes(
                call,
                inode,
                || MdsRequest::Stat(r.clone()),
                |attributes: Attributes| attributes,
            ),
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }

    pub(super) fn read_link(&self, call: Call, r: &ReadLink) -> CallOutcome {
        let target =
            self.file_at(&call, &r.at, false).and_then(|inode| self.namespace.readlink(inode.file));
        CallOutcome::from(call, target)
    }

    pub(super) fn access(&self, call: Call, r: &Access) -> CallOutcome {
        let allowed = self.file_at(&call, &r.at, true).and_then(|inode| {
            if r.mask > 7 {
                return Err(Failure::new(Status::Invalid, "the access bits are 4, 2 and 1"));
            }
            if r.mask & Want::WRITE.0 != 0 && call.connection.rights.read_only {
                return Err(Status::ReadOnly.into());
            }
            braid_meta::permit(&call.who, &inode, Want(r.mask))
        });
        CallOutcome::from(call, allowed)
    }
}
