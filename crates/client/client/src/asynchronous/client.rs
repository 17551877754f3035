//! A client of a cluster, for async programs.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use braid_net::{Driver, Tokio};
use braid_types::{FileIndex, IodId, KeyId, ObjectId, SessionId, ShardId, Timestamp};
use braid_wire::message::{
    DaemonStatusReply, FileKind,
    import::{ImportEntry, ImportedEntry},
    iod::{DiskRates, MeasureDisk},
    lock::{LockHolder, LockRange, LockRequest, LockSpace},
    mds::{
        AgentCheckReply, AttributeChanges, CreateReply, FsckAffectedReply, FsckFile, FsckMend,
        FsckNamespaceReply, GatewaySecretReply, GatewaySession, KeyAddReply, KeyInfo, KeyRights,
        LayoutShowReply, MakeReply, MdsStatusReply, ReadDirectoryReply, ReclaimedOpen, RemoveReply,
        RenameMode, SetTime, StatFsReply, XattrMode,
    },
    quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport},
    types::{Attributes, ClusterMap, Identity, IodState, LayoutHint},
};

use super::{File, Listing};
use crate::{
    ToPathRef,
    calls::namespace_calls,
    config::Config,
    engine::{Caller, Engine, LockCancelHandle, OpenOptions, TICK},
    error::Result,
    lease::LeaseHolder,
};

/// A client of a cluster. Cheap to clone; clones share connections.
pub struct Client<D: Driver> {
    caller: Caller<D>,
}

impl<D: Driver> fmt::Debug for Client<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caller.fmt(f)
    }
}

impl<D: Driver> Clone for Client<D> {
    fn clone(&self) -> Self {
        Self { caller: self.caller.clone() }
    }
}

impl Client<Tokio> {
    /// Connects to the metadata server, opens a session, and starts a task that renews it. Must be
    /// called within a tokio runtime.
    ///
    /// ```no_run
    /// use braid_client::{Config, Credential, OpenOptions, asynchronous::Client};
    /// # async fn example() -> Result<(), braid_client::Error> {
    /// let config = Config::new(["mds:7000"], Credential::from_key_file("/etc/braid/client.key")?);
    /// let client = Client::connect(config).await?;
    /// let file = client.open("/a", &OpenOptions::new().read(true)).await?;
    /// let mut buffer = vec![0; 1 << 20];
    /// let bytes = file.read_at(&mut buffer, 0).await?;
    /// client.close().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server is not reached within [`Config::timeout`], or refuses the credential.
    pub async fn connect(config: Config) -> Result<Self> {
        let client = Self::over(Tokio::new(), config);
        client.whoami().await?;
        drop(tokio::spawn(client.serve()));
        if let Some(cache) = client.caller.engine().read_cache() {
            let holder = Arc::downgrade(cache) as Weak<dyn LeaseHolder>;
            drop(tokio::spawn(client.serve_leases(holder)));
        }
        Ok(client)
    }
}

impl<D: Driver> Client<D> {
    /// A client over any driver. It connects at its first call. The owner runs [`Client::serve`] in
    /// a task.
    pub fn over(driver: D, config: Config) -> Self {
        Self { caller: Engine::new(driver, config).caller() }
    }

    /// Renews the session and sends closes as long as the client or one of its files exists. Run
    /// this in a task.
    pub fn serve(&self) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller.engine());
        async move {
            while let Some(engine) = weak.upgrade() {
                // The next tick tries an unresponsive server again. Calls that wait for it report
                // the error.
                let _ = engine.tick().await;
                engine.driver().sleep(TICK).await;
            }
        }
    }

    /// Ends the session and closes all open files. Without this call, the server ends the session
    /// when it was silent for too long.
    pub async fn close(self) {
        self.caller.engine().shut_down().await;
    }

    /// Ends the connections and leaves the session at the metadata server, with what it has open
    /// and locked, for the next start of a gateway (ADR 0040). Clients and files that share it are
    /// not used any more. Without a next start the server ends the session when it was silent for
    /// too long.
    pub async fn leave(self) {
        self.caller.engine().leave().await;
    }

    /// The number of the present session at the metadata server. Sends nothing: it changes when a
    /// call notices that the server has ended the session, and is `None` before the first call and
    /// after [`Client::close`].
    pub fn session_id(&self) -> Option<SessionId> {
        self.caller.engine().session_id()
    }

    pub(super) fn caller(&self) -> &Caller<D> {
        &self.caller
    }

    /// A client that shares this one's connections and acts as another identity. Only the holder of
    /// a client key may do so.
    ///
    /// # Errors
    /// Too many identities.
    pub async fn with_identity(&self, identity: Identity) -> Result<Self> {
        Ok(Self { caller: self.caller.with_identity(identity).await? })
    }

    /// A client that shares this one's connections and clears these bits from the mode of every
    /// file that it makes. A default access control list of the directory takes precedence. Without
    /// an umask, modes are used unchanged.
    #[must_use]
    pub fn with_umask(&self, umask: u32) -> Self {
        Self { caller: self.caller.with_umask(umask) }
    }

    /// Sessions that earlier starts of a gateway of this name began with the same key.
    ///
    /// # Errors
    /// [`crate::Status::NotPermitted`] without a client key.
    pub async fn gateway_sessions(&self, gateway: &str) -> Result<Vec<GatewaySession>> {
        self.caller.gateway_sessions(gateway).await
    }

    /// What the adopted session of [`Config::gateway`] has open. This client has it open from now
    /// on.
    ///
    /// # Errors
    /// As any call.
    pub async fn adopt_opens(&self) -> Result<Vec<ReclaimedOpen>> {
        self.caller.adopt_opens().await
    }

    /// The locks of the adopted session. This client has them from now on.
    ///
    /// # Errors
    /// As any call.
    pub async fn adopt_locks(&self) -> Result<Vec<LockRequest>> {
        self.caller.adopt_locks().await
    }

    /// Opens a file by a handle of [`Client::adopt_opens`], once.
    ///
    /// # Errors
    /// [`crate::Status::StaleHandle`] if it is not open.
    pub async fn open_adopted(&self, open: ReclaimedOpen) -> Result<File<D>> {
        File::new(self.caller.open_adopted(open).await?)
    }

    /// Closes a handle of [`Client::adopt_opens`] that was not opened.
    ///
    /// # Errors
    /// As any call. The close is then sent later.
    pub async fn close_adopted(&self, open_id: u64) -> Result<()> {
        self.caller.close_adopted(open_id).await
    }

    /// Opens a file; makes it if the options say so.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn open(&self, at: impl ToPathRef + Send, options: &OpenOptions) -> Result<File<D>> {
        let at = at.to_path_ref();
        File::new(self.caller.open(&at, options).await?)
    }

    /// Opens or makes a file. Returns also whether this call made it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create(
        &self,
        at: impl ToPathRef + Send,
        options: &OpenOptions,
    ) -> Result<(File<D>, bool)> {
        let at = at.to_path_ref();
        let (file, created) = self.caller.create(&at, options).await?;
        Ok((File::new(file)?, created))
    }

    /// Makes and opens a file as [`Client::create`] does. If this call made the file and this
    /// client holds leases, it also returns the attributes of the parent directory.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create_with_parent(
        &self,
        at: impl ToPathRef + Send,
        options: &OpenOptions,
    ) -> Result<(File<D>, Option<Attributes>)> {
        let at = at.to_path_ref();
        let (file, _, directory) = self.caller.create_with_parent(&at, options).await?;
        Ok((File::new(file)?, directory))
    }

    /// Makes a file without a name, as if in the directory `at` (`O_TMPFILE`). Closing it deletes
    /// it, unless [`Client::hard_link`] has given it a name.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create_unnamed(
        &self,
        at: impl ToPathRef + Send,
        options: &OpenOptions,
    ) -> Result<File<D>> {
        let at = at.to_path_ref();
        File::new(self.caller.create_unnamed(&at, options).await?)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// The directory is not found. Later failures are returned in place of an entry.
    pub async fn read_dir(
        &self,
        at: impl ToPathRef + Send,
        with_attributes: bool,
    ) -> Result<Listing<D>> {
        let at = at.to_path_ref();
        self.caller.read_dir(&at, with_attributes).await
    }

    /// Lists a directory from the entry after this cookie of an earlier listing; 0 for the
    /// beginning.
    pub fn read_dir_from(&self, dir: FileIndex, cookie: u64, with_attributes: bool) -> Listing<D> {
        self.caller.read_dir_from(dir, &format!("directory {dir}"), cookie, with_attributes)
    }

    /// Whether an owner may have locked something of a file. Sends nothing.
    pub fn has_locks(&self, file: FileIndex, owner: u64) -> bool {
        self.caller.has_locks(file, owner)
    }

    /// Sends the pending closes to the metadata server now.
    ///
    /// # Errors
    /// The server is not reached.
    pub async fn flush_closes(&self) -> Result<()> {
        self.caller.engine().flush_closes().await
    }
}

macro_rules! asynchronous {
    ($( $(#[$doc:meta])*
        fn $name:ident[$($at:ident),*]($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl<D: Driver> Client<D> {
            $(
                $(#[$doc])*
                /// # Errors
                /// With the operation that failed, and the server that refused.
                pub async fn $name(
                    &self,
                    $($at: impl ToPathRef + Send,)* $($arg: $ty),*
                ) -> Result<$ret> {
                    $( let $at = $at.to_path_ref(); )*
                    self.caller.$name($(&$at,)* $($arg),*).await
                }
            )*
        }
    };
}
namespace_calls!(asynchronous);
