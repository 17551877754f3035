//! Durability (I6): what is acknowledged here survives the loss of power.

use braid_types::{Failure, Status};
use braid_wire::message::mds::{FsyncDirectory, FsyncFile, MdsRequest};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    size::{CollectMode, CollectedSizes},
};

impl MdsCore {
    /// The client has flushed the daemons. Size and parts are collected and recorded, then the log
    /// is synced: with it the inode, and the name under which the file was created.
    ///
    /// Collected with a flush: writes of other clients since then are not on disk yet, and a part
    /// that is recorded as existing must be (I11). Without such writes the flush costs no disk
    /// access.
    pub(super) fn fsync_file(&self, call: Call, r: &FsyncFile) -> CallOutcome {
        let inode = match self.file_named(&call, r.file) {
            Ok(inode) => inode,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        if self.is_size_changing(r.file) {
            return CallOutcome::Gate(call, r.file);
        }
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        let request = MdsRequest::FsyncFile(r.clone());
        if !inode.size_in_objects {
            me.sync_log_then(move |core, forced| {
                let flow =
                    CallOutcome::from(call, forced.map(|()| crate::convert::attributes(&inode)));
                core.settle(flow, request);
            });
            return CallOutcome::Pending;
        }
        let file = r.file;
        me.collect_sizes_of(vec![inode], CollectMode::WITH_FLUSH, move |core, sizes| {
            if core.is_size_changing(file) {
                return core.settle(CallOutcome::Gate(call, file), request);
            }
            match core.record_now(sizes) {
                Ok(attributes) => core.sync_log_then(move |core, forced| {
                    let flow = CallOutcome::from(call, forced.map(|()| attributes));
                    core.settle(flow, request);
                }),
                // A truncate came first: collect again.
                Err(failure) if failure.status == Status::StaleGeneration => {
                    core.run(call, request)
                }
                Err(failure) => core.settle(CallOutcome::Fail(call, failure), request),
            }
        });
        CallOutcome::Pending
    }

    fn record_now(
        &self,
        mut sizes: CollectedSizes,
    ) -> Result<braid_wire::message::types::Attributes, Failure> {
        let (inode, found) = sizes.pop().ok_or(Status::Internal)?;
        let found = found?;
        if found.is_part_lost {
            return Err(self.lost_part(&inode).unwrap_or_else(|| Status::ObjectLost.into()));
        }
        let attributes = self.state().sizes.attributes_from_objects(&inode, &found);
        self.record_of_open_file(&inode, &found)?;
        Ok(attributes)
    }

    pub(super) fn fsync_directory(&self, call: Call, r: &FsyncDirectory) -> CallOutcome {
        let known = self.file_named(&call, r.dir);
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        if let Err(failure) = known {
            return CallOutcome::Fail(call, failure);
        }
        let request = MdsRequest::FsyncDirectory(r.clone());
        me.sync_log_then(move |core, forced| core.settle(CallOutcome::from(call, forced), request));
        CallOutcome::Pending
    }
}
