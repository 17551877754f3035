//! A client of a cluster, for programs with threads.

use std::sync::Arc;

use braid_net::{Blocking, CallDeadline};
use braid_types::{FileIndex, IodId, KeyId, ObjectId, ShardId, Timestamp};
use braid_wire::message::{
    DaemonStatusReply, FileKind,
    import::{ImportEntry, ImportedEntry},
    iod::{DiskRates, MeasureDisk},
    lock::{LockHolder, LockRange, LockRequest, LockSpace},
    mds::{
        AgentCheckReply, AttributeChanges, CreateReply, FsckAffectedReply, FsckFile, FsckMend,
        FsckNamespaceReply, GatewaySecretReply, KeyAddReply, KeyInfo, KeyRights, LayoutShowReply,
        MakeReply, MdsStatusReply, ReadDirectoryReply, RemoveReply, RenameMode, SetTime,
        StatFsReply, XattrMode,
    },
    quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport},
    types::{Attributes, ClusterMap, Identity, IodState, LayoutHint},
};

use super::{File, Listing, block_on, service, workers::Workers};
use crate::{
    ToPathRef,
    calls::namespace_calls,
    config::Config,
    engine::{Caller, Engine, LockCancelHandle, OpenOptions},
    error::Result,
};

/// A client of a cluster. Cheap to clone; clones share connections. Many threads may use it at the
/// same time.
///
/// ```no_run
/// use std::io::Write;
/// use braid_client::{Client, Config, Credential, OpenOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let credential = Credential::Agent("/run/braid/agent.sock".into());
/// let client = Client::connect(Config::new(["mds.example:7000"], credential))?;
/// client.mkdir("/results", 0o755)?;
/// let mut file = client.open("/results/run1", &OpenOptions::new().write(true).create(true))?;
/// file.write_all(b"42\n")?;
/// file.sync()?;
/// for entry in client.read_dir("/results", false)? {
///     println!("{}", String::from_utf8_lossy(&entry?.name));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    caller: Caller<Blocking>,
    pub(super) session: Arc<SessionGuard>,
}

/// Ends the session when the last client and the last file are dropped.
#[derive(Debug)]
pub(super) struct SessionGuard {
    caller: Caller<Blocking>,
    workers: Arc<Workers>,
}

impl SessionGuard {
    /// The threads that run started operations.
    pub(super) fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.workers.close();
        block_on(self.caller.engine().shut_down());
    }
}

impl Client {
    /// Connects to the metadata server and opens a session.
    ///
    /// # Errors
    /// The server is not reached within [`Config::timeout`], or refuses the credential.
    pub fn connect(config: Config) -> Result<Self> {
        let client = Self::lazy(config);
        client.whoami()?;
        Ok(client)
    }

    /// A client that connects at its first call.
    pub fn lazy(config: Config) -> Self {
        let engine = Engine::new(Blocking::new(), config);
        service::watch(&engine);
        let caller = engine.caller();
        let farewell = SessionGuard { caller: caller.clone(), workers: Workers::new() };
        Self { session: Arc::new(farewell), caller }
    }

    /// Ends the session now, for all clients and files that share it. When this returns, everything
    /// that the session held is free for others. For a process that ends while some of its threads
    /// still hold clients or files. The next call opens a new session.
    pub fn end_session(&self) {
        block_on(self.caller.engine().shut_down());
    }

    pub(super) fn caller(&self) -> &Caller<Blocking> {
        &self.caller
    }

    /// Begins one deadline, [`Config::timeout`] from now, for all calls of this thread through any
    /// client until the returned value is dropped. A gateway uses it when one call of a program
    /// needs several calls (I8). If these wait for a server without success, calls under another
    /// deadline in the next seconds fail quickly, unless the server is back.
    pub fn begin_deadline(&self) -> CallDeadline {
        CallDeadline::begin(self.caller.engine().timeout())
    }

    /// A client that shares this one's connections and acts as another identity. Only the holder of
    /// a client key may do so.
    ///
    /// # Errors
    /// Too many identities.
    pub fn with_identity(&self, identity: Identity) -> Result<Self> {
        let caller = block_on(self.caller.with_identity(identity))?;
        Ok(Self { caller, session: Arc::clone(&self.session) })
    }

    /// A client that shares this one's connections and clears these bits from the mode of every
    /// file that it makes. A default access control list of the directory takes precedence. Without
    /// an umask, modes are used unchanged.
    #[must_use]
    pub fn with_umask(&self, umask: u32) -> Self {
        Self { caller: self.caller.with_umask(umask), session: Arc::clone(&self.session) }
    }

    /// Opens a file; makes it if the options say so.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn open(&self, at: impl ToPathRef, options: &OpenOptions) -> Result<File> {
        self.start_read_cache();
        let file = block_on(self.caller.open(&at.to_path_ref(), options))?;
        File::new(file, Arc::clone(&self.session))
    }

    /// Opens or makes a file. Returns also whether this call made it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create(&self, at: impl ToPathRef, options: &OpenOptions) -> Result<(File, bool)> {
        let (file, created) = block_on(self.caller.create(&at.to_path_ref(), options))?;
        Ok((File::new(file, Arc::clone(&self.session))?, created))
    }

    /// Makes and opens a file as [`Client::create`] does. If this call made the file and this
    /// client holds leases, it also returns the attributes of the parent directory.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create_with_parent(
        &self,
        at: impl ToPathRef,
        options: &OpenOptions,
    ) -> Result<(File, Option<Attributes>)> {
        let (file, _, directory) =
            block_on(self.caller.create_with_parent(&at.to_path_ref(), options))?;
        Ok((File::new(file, Arc::clone(&self.session))?, directory))
    }

    /// Makes a file without a name, as if in the directory `at` (`O_TMPFILE`). Closing it deletes
    /// it, unless [`Client::hard_link`] has given it a name.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create_unnamed(&self, at: impl ToPathRef, options: &OpenOptions) -> Result<File> {
        let file = block_on(self.caller.create_unnamed(&at.to_path_ref(), options))?;
        File::new(file, Arc::clone(&self.session))
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// The directory is not found. Later failures are returned in place of an entry.
    pub fn read_dir(&self, at: impl ToPathRef, with_attributes: bool) -> Result<Listing> {
        block_on(self.caller.read_dir(&at.to_path_ref(), with_attributes)).map(Listing)
    }

    /// Lists a directory from the entry after this cookie of an earlier listing; 0 for the
    /// beginning.
    pub fn read_dir_from(&self, dir: FileIndex, cookie: u64, with_attributes: bool) -> Listing {
        Listing(self.caller.read_dir_from(
            dir,
            &format!("directory {dir}"),
            cookie,
            with_attributes,
        ))
    }

    /// Whether an owner may have locked something of a file. Sends nothing.
    pub fn has_locks(&self, file: FileIndex, owner: u64) -> bool {
        self.caller.has_locks(file, owner)
    }

    /// Notes that an owner has closed a file, before [`Client::unlock_owners`] removes its locks. A
    /// later owner of the same number waits until these locks are removed. Sends nothing.
    pub fn defer_unlock(&self, file: FileIndex, space: LockSpace, owner: u64) {
        self.caller.defer_unlock(file, space, owner);
    }

    /// Sends the pending closes to the metadata server now.
    ///
    /// # Errors
    /// The server is not reached.
    pub fn flush_closes(&self) -> Result<()> {
        block_on(self.caller.engine().flush_closes())
    }
}

macro_rules! blocking {
    ($( $(#[$doc:meta])*
        fn $name:ident[$($at:ident),*]($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl Client {
            $(
                $(#[$doc])*
                /// # Errors
                /// With the operation that failed, and the server that refused.
                pub fn $name(&self, $($at: impl ToPathRef,)* $($arg: $ty),*) -> Result<$ret> {
                    block_on(self.caller.$name($(&$at.to_path_ref(),)* $($arg),*))
                }
            )*
        }
    };
}
namespace_calls!(blocking);
