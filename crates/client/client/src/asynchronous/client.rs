//! A client of a cluster, for async programs.

use std::{fmt, sync::Arc};

use braid_net::{Driver, Tokio};
use braid_types::{FileIndex, IodId, KeyId, ObjectId, ShardId};
use braid_wire::message::{
    DaemonStatusReply, FileKind,
    iod::{DiskRates, MeasureDisk},
    lock::{LockHolder, LockRange, LockRequest, LockSpace},
    mds::{
        AgentCheckReply, AttributeChanges, CreateReply, FsckAffectedReply, FsckFile, FsckMend,
        FsckNamespaceReply, KeyAddReply, KeyInfo, KeyRights, LayoutShowReply, Made, MdsStatusReply,
        ReadDirectoryReply, Removed, RenameMode, SetTime, StatFsReply, XattrMode,
    },
    quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport},
    types::{Attributes, ClusterMap, Identity, IodState, LayoutWish},
};

use super::{File, Listing};
use crate::{
    ToAt,
    calls::namespace_calls,
    config::Config,
    engine::{Caller, Engine, LockCancelHandle, OpenOptions, TICK},
    error::Result,
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
    /// Connects to the metadata server, starts a session, and a task that takes care of it. To be called within a
    /// tokio runtime.
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
    /// The server is not reached in [`Config::timeout`], or refuses the credential.
    pub async fn connect(config: Config) -> Result<Self> {
        let client = Self::over(Tokio::new(), config);
        client.whoami().await?;
        drop(tokio::spawn(client.serve()));
        Ok(client)
    }
}

impl<D: Driver> Client<D> {
    /// A client over a driver. It connects with its first call; whoever makes it runs [`Client::serve`] in a task.
    pub fn over(driver: D, config: Config) -> Self {
        Self { caller: Engine::new(driver, config).caller() }
    }

    /// Renews the session and sends closes, as long as the client or a file of it lives. To be run in a task.
    pub fn serve(&self) -> impl Future<Output = ()> + Send + 'static {
        let weak = Arc::downgrade(self.caller.engine());
        async move {
            while let Some(engine) = weak.upgrade() {
                // A server that is away is tried again at the next tick; calls report it to those who wait for it.
                let _ = engine.tick().await;
                engine.driver().sleep(TICK).await;
            }
        }
    }

    /// Ends the session: what is open is closed. Without it the server ends the session after a silence.
    pub async fn close(self) {
        self.caller.engine().shut_down().await;
    }

    pub(super) fn caller(&self) -> &Caller<D> {
        &self.caller
    }

    /// A client that shares this one's connections and acts as somebody else. Only the holder of a client key
    /// may vouch for others.
    ///
    /// # Errors
    /// Too many identities.
    pub async fn with_identity(&self, identity: Identity) -> Result<Self> {
        Ok(Self { caller: self.caller.with_identity(identity).await? })
    }

    /// A client that shares this one's connections and masks these bits out of the mode of what it makes, unless the directory's
    /// default access control list takes their place. Without it modes are taken as they are.
    #[must_use]
    pub fn with_umask(&self, umask: u32) -> Self {
        Self { caller: self.caller.with_umask(umask) }
    }

    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn open(&self, at: impl ToAt + Send, options: &OpenOptions) -> Result<File<D>> {
        let at = at.to_at();
        File::new(self.caller.open(&at, options).await?)
    }

    /// Opens a file, or makes it; tells whether this call made it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create(
        &self,
        at: impl ToAt + Send,
        options: &OpenOptions,
    ) -> Result<(File<D>, bool)> {
        let at = at.to_at();
        let (file, created) = self.caller.create(&at, options).await?;
        Ok((File::new(file)?, created))
    }

    /// Makes and opens a file as [`Client::create`] does; told as well is how the directory is now that it is in, if this call
    /// made it and this client holds leases.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create_told(
        &self,
        at: impl ToAt + Send,
        options: &OpenOptions,
    ) -> Result<(File<D>, Option<Attributes>)> {
        let at = at.to_at();
        let (file, _, directory) = self.caller.create_told(&at, options).await?;
        Ok((File::new(file)?, directory))
    }

    /// Makes a file without a name, as if in the directory `at` (`O_TMPFILE`). It goes when it is closed, unless
    /// [`Client::hard_link`] from its index gave it a name.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub async fn create_unnamed(
        &self,
        at: impl ToAt + Send,
        options: &OpenOptions,
    ) -> Result<File<D>> {
        let at = at.to_at();
        File::new(self.caller.create_unnamed(&at, options).await?)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// When it is not found. Later failures come with the entry.
    pub async fn read_dir(
        &self,
        at: impl ToAt + Send,
        with_attributes: bool,
    ) -> Result<Listing<D>> {
        let at = at.to_at();
        self.caller.read_dir(&at, with_attributes).await
    }

    /// Lists a directory after the cookie of an entry of an earlier listing; 0 for the beginning.
    pub fn read_dir_from(&self, dir: FileIndex, cookie: u64, with_attributes: bool) -> Listing<D> {
        self.caller.read_dir_from(dir, &format!("directory {dir}"), cookie, with_attributes)
    }

    /// Whether an owner may have something of a file locked. Asks nobody.
    pub fn has_locks(&self, file: FileIndex, owner: u64) -> bool {
        self.caller.has_locks(file, owner)
    }

    /// Tells the metadata server now which files were closed, instead of a little later.
    ///
    /// # Errors
    /// It is not reached.
    pub async fn flush_closes(&self) -> Result<()> {
        self.caller.engine().flush_closes().await
    }
}

macro_rules! asynchronous {
    ($( $(#[$doc:meta])* fn $name:ident[$($at:ident),*]($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl<D: Driver> Client<D> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// With what failed, and the server that refused.
                pub async fn $name(&self, $($at: impl ToAt + Send,)* $($arg: $ty),*) -> Result<$ret> {
                    $( let $at = $at.to_at(); )*
                    self.caller.$name($(&$at,)* $($arg),*).await
                }
            )*
        }
    };
}
namespace_calls!(asynchronous);
