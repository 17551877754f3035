//! Capabilities, sessions and the cluster map: the three things for which a data call may need the
//! metadata server (I1).

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_wire::{
    Rights,
    message::{
        mds::{DataServerHandlesReply, GetClusterMap, GetDataServerHandles, RenewCapability},
        types::PathRef,
    },
};

use super::{Engine, OpenFile, open_file::FileState, semaphore::lock, transfer::TransferEnd};
use crate::error::Result;

impl<D: Driver> OpenFile<D> {
    /// A new capability in place of `old`'s, unless another call has renewed it meanwhile.
    pub(crate) async fn renew_capability(
        &self,
        old: &Arc<FileState<D>>,
        deadline: Duration,
    ) -> Result<Arc<FileState<D>>, TransferEnd> {
        let engine = self.engine();
        let refused = |refused| engine.queue_error(refused);
        let _one = self.renewing.acquire(engine.driver(), deadline).await.map_err(refused)?;
        let current = self.state();
        let fresh = if current.handle != old.handle && !self.is_stale() {
            current
        } else {
            let call = RenewCapability {
                open_id: self.open_id(),
                file: self.file(),
                rights: self.rights(),
            };
            // A repetition returns the same: it needs no replay record.
            let session = self.handle.session;
            let opened = engine
                .repeatable(call)
                .in_session(session)
                .identity(self.caller.identity.number())
                .until(deadline)
                .send()
                .await;
            // If the server does not have the file open, the handle knows the reason.
            let opened = opened.map_err(|error| self.handle.check().err().unwrap_or(error))?;
            self.set_state(opened)?
        };
        if fresh.layout_version == old.layout_version {
            Ok(fresh)
        } else {
            Err(TransferEnd::Replan)
        }
    }
}

impl<D: Driver> OpenFile<D> {
    /// Handles for NFS data servers. A repetition returns the same.
    pub async fn data_server_handles(&self, rights: Rights) -> Result<DataServerHandlesReply> {
        self.handle.check()?;
        let call = GetDataServerHandles { open_id: self.open_id(), file: self.file(), rights };
        let at = PathRef::file(self.file());
        let call = self.caller.repeatable("get NFS handles of", &at, call);
        call.in_session(self.handle.session).send().await
    }
}

impl<D: Driver> Engine<D> {
    /// Reconnects to the metadata server and reclaims the session, since its proof for I/O daemons
    /// is old.
    pub(crate) async fn reconnect_mds(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        let link = lock(&self.mds_connection).clone();
        if let Some(link) = link {
            self.drop_mds_connection(&link);
        }
        self.mds_connection(deadline).await.map(|_| ())
    }

    /// Fetches the cluster map.
    pub(crate) async fn refresh_map(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        let map = self.repeatable(GetClusterMap {}).until(deadline).send().await?;
        self.apply_map(&map);
        Ok(())
    }
}
