//! The union as a whole, as a gateway has it.

use std::{io, path::Path, sync::Arc};

use braid_share::{
    CLIENT_RECORD_BYTES_MAX, ClientRecord, DataServer, FileSystemId, Result, SessionId, Share,
    Status,
};
use braid_union::Union;
use thiserror::Error;

use crate::{
    client::UnionClient,
    files::Files,
    identity::StartIdentity,
    service::{Change, Service, failed},
};

/// The table of files that clients know, in the pool's metadata directory.
const TABLE_FILE: &str = "nfs-files";
/// The identity of the server, there.
const IDENTITY_FILE: &str = "nfs.toml";

/// Why a union cannot be shared.
#[derive(Debug, Error)]
#[error("opening {path} failed: {source}; try: free space and rights on its disk")]
pub struct OpenError {
    /// A file in the pool's metadata directory.
    pub path: std::path::PathBuf,
    /// Why.
    pub source: io::Error,
}

/// A gateway's view of a union. Clones are the same gateway.
#[derive(Clone, Debug)]
pub struct UnionShare {
    service: Arc<Service>,
    own: SessionId,
    identity: StartIdentity,
}

impl UnionShare {
    /// Shares a union that this process has in use. `meta`: the pool's metadata directory.
    ///
    /// # Errors
    /// A file of the share there cannot be read or written.
    pub fn open(union: Arc<Union>, meta: &Path) -> std::result::Result<Self, OpenError> {
        let (identity, table) = (meta.join(IDENTITY_FILE), meta.join(TABLE_FILE));
        let identity = StartIdentity::next(&identity)
            .map_err(|source| OpenError { path: identity, source })?;
        let files = Files::open(Arc::clone(&union), &table)
            .map_err(|source| OpenError { path: table, source })?;
        let service = Arc::new(Service::new(Arc::clone(&union), files, identity.start));
        let own = service.sessions().begin();
        // Not an `Arc`: the union would hold itself.
        let files = Arc::downgrade(&service);
        union.set_on_move(move |branch, inode, to| {
            if let Some(service) = files.upgrade() {
                service.files.moved(branch, inode, to);
            }
        });
        Ok(Self { service, own, identity })
    }

    /// The secret of the gateway's file handles; the same after a restart.
    pub fn handle_key(&self) -> [u8; 32] {
        self.identity.handle_key
    }

    /// Calls `on_change` after each change that a client makes, so that a mount of the same union
    /// drops what it has cached. It must not wait for the mount. Only the first call counts.
    pub fn on_change(&self, on_change: impl Fn(Change) + Send + Sync + 'static) {
        self.service.set_on_change(Box::new(on_change));
    }
}

impl Share for UnionShare {
    type Client = UnionClient;

    fn file_system(&self) -> FileSystemId {
        FileSystemId(self.service.union.pool().0)
    }

    fn gateway_id(&self) -> u64 {
        self.service.start
    }

    fn own_client(&self) -> UnionClient {
        UnionClient::new(Arc::clone(&self.service), self.own)
    }

    async fn data_servers(&self) -> Result<Vec<DataServer>> {
        Ok(Vec::new())
    }

    async fn begin_client(&self, record: ClientRecord) -> Result<UnionClient> {
        if record.record.len() > CLIENT_RECORD_BYTES_MAX {
            return Err(failed("begin a client", Status::LimitExceeded));
        }
        let session = self.service.sessions().begin();
        Ok(UnionClient::new(Arc::clone(&self.service), session))
    }
}
