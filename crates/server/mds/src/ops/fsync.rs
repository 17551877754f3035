//! Durability (I6): what is acknowledged here survives the loss of power.

use braid_types::{Failure, Status};
use braid_wire::message::mds::{FsyncDirectory, FsyncFile, MdsRequest};

use crate::{
    call::{Call, Flow},
    core::MdsCore,
    size::{HowAsked, Sizes},
};

impl MdsCore {
    /// The client has flushed the daemons. Size and parts are collected and recorded, then the log
    /// is synced: with it the inode, and the name under which the file was created.
    ///
    /// Collected with a flush: writes of other clients since then are not on disk yet, and a part
    /// that is recorded as existing must be (I11). Without such writes the flush costs no disk
    /// access.
    pub(super) fn fsync_file(&self, call: Call, r: &FsyncFile) -> Flow {
        let inode = match self.file_named(&call, r.file) {
            Ok(inode) => inode,
            Err(failure) => return Flow::Fail(call, failure),
        };
        if self.is_gated(r.file) {
            return Flow::Gate(call, r.file);
        }
        let Some(me) = self.arc() else { return Flow::Fail(call, Status::NotServing.into()) };
        let request = MdsRequest::FsyncFile(r.clone());
        if !inode.size_in_objects {
            me.force(move |core, forced| {
                let flow = Flow::from(call, forced.map(|()| crate::convert::attributes(&inode)));
                core.settle(flow, request);
            });
            return Flow::Later;
        }
        let file = r.file;
        me.ask_sizes(vec![inode], HowAsked::FLUSHED, move |core, sizes| {
            if core.is_gated(file) {
                return core.settle(Flow::Gate(call, file), request);
            }
            match core.record_now(sizes) {
                Ok(attributes) => core.force(move |core, forced| {
                    let flow = Flow::from(call, forced.map(|()| attributes));
                    core.settle(flow, request);
                }),
                // A truncate came first: collect again.
                Err(failure) if failure.status == Status::StaleGeneration => {
                    core.run(call, request)
                }
                Err(failure) => core.settle(Flow::Fail(call, failure), request),
            }
        });
        Flow::Later
    }

    fn record_now(
        &self,
        mut sizes: Sizes,
    ) -> Result<braid_wire::message::types::Attributes, Failure> {
        let (inode, found) = sizes.pop().ok_or(Status::Internal)?;
        let found = found?;
        if found.lost {
            return Err(self.lost_part(&inode).unwrap_or_else(|| Status::ObjectLost.into()));
        }
        let attributes = self.state().sizes.merged(&inode, &found);
        self.record_open(&inode, &found)?;
        Ok(attributes)
    }

    pub(super) fn fsync_directory(&self, call: Call, r: &FsyncDirectory) -> Flow {
        let known = self.file_named(&call, r.dir);
        let Some(me) = self.arc() else { return Flow::Fail(call, Status::NotServing.into()) };
        if let Err(failure) = known {
            return Flow::Fail(call, failure);
        }
        let request = MdsRequest::FsyncDirectory(r.clone());
        me.force(move |core, forced| core.settle(Flow::from(call, forced), request));
        Flow::Later
    }
}
