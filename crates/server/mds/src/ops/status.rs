//! Free space, and the status of the server.

use std::collections::HashMap;

use braid_types::ByteCount;
use braid_wire::message::{
    mds::{MdsStatusReply, StatFs, StatFsReply},
    types::IodState,
};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

impl MdsCore {
    pub(super) fn stat_fs(&self, call: Call, r: &StatFs) -> CallOutcome {
        let reply = self
            .file_named(&call, r.file)
            .and_then(|inode| self.free_space_at(self.free_space(), inode.file));
        CallOutcome::from(call, reply)
    }

    fn free_space(&self) -> StatFsReply {
        let state = self.state();
        let files = state.file_count.files();
        let (mut iods, mut iods_up) = (0, 0);
        // Daemons that share a disk report the same free space, which counts once. Hosts may number
        // their disks alike, so a disk is identified by its host and number.
        let mut disks = HashMap::new();
        for iod in state.cluster.iods().filter(|iod| iod.info.state != IodState::Removed) {
            iods += 1;
            let space = &iod.info.space;
            if iod.info.state != IodState::Down {
                iods_up += 1;
                let host = iod
                    .info
                    .addresses
                    .first()
                    .and_then(|at| at.rsplit_once(':'))
                    .map(|(host, _)| host.to_owned());
                disks
                    .insert((host, space.device), (space.total.0, space.free.0, space.available.0));
            }
        }
        let sum = |pick: fn(&(u64, u64, u64)) -> u64| {
            ByteCount(disks.values().map(pick).fold(0, u64::saturating_add))
        };
        let (total, free, available) = (sum(|d| d.0), sum(|d| d.1), sum(|d| d.2));
        StatFsReply { total, free, available, files, files_max: None, iods_up, iods }
    }

    pub(super) fn mds_status(&self, call: Call) -> CallOutcome {
        let reply = self.status();
        CallOutcome::from(call, reply)
    }

    /// The status of the server.
    pub(crate) fn status(&self) -> Result<MdsStatusReply, braid_types::Failure> {
        let now = self.now();
        // Only counters are read, since any client may ask, as often as it likes.
        let deletions_pending = self.namespace.deletions_pending();
        let open_files = self.namespace.open_file_count() as u64;
        let written = self.namespace.written_file_count();
        let state = self.state();
        let last_contact =
            |iod: &crate::cluster::Iod| now.saturating_sub(iod.last_heard).as_millis() as u64;
        Ok(MdsStatusReply {
            epoch: self.epoch,
            sessions: state.sessions.live.count() as u32,
            open_files,
            sizes_in_objects: (written + state.sizes.uncollected_count()) as u64,
            deletions_pending,
            intents_pending: state.sizes.intent_count() as u64,
            grace: state.sessions.is_in_grace(),
            map: state.cluster.map(),
            last_contact_ms: state.cluster.iods().map(last_contact).collect(),
        })
    }
}
