//! A client of a cluster, for programs with threads.

use std::sync::Arc;

use braid_net::{Blocking, Bound};
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

use super::{File, Listing, block_on, service, workers::Workers};
use crate::{
    ToAt,
    calls::namespace_calls,
    config::Config,
    engine::{Caller, Engine, LockCancelHandle, OpenOptions},
    error::Result,
};

/// A client of a cluster. Cheap to clone; clones share connections. Usable from many threads at once.
///
/// ```no_run
/// use std::io::Write;
/// use braid_client::{Client, Config, Credential, OpenOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new(["mds.example:7000"], Credential::Agent("/run/braid/agent.sock".into()));
/// let client = Client::connect(config)?;
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
    pub(super) session: Arc<Farewell>,
}

/// Ends the session when the last client and the last file are gone.
#[derive(Debug)]
pub(super) struct Farewell {
    caller: Caller<Blocking>,
    workers: Arc<Workers>,
}

impl Farewell {
    /// The threads that do what was started.
    pub(super) fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.workers.close();
        block_on(self.caller.engine().shut_down());
    }
}

impl Client {
    /// Connects to the metadata server and starts a session.
    ///
    /// # Errors
    /// The server is not reached in [`Config::timeout`], or refuses the credential.
    pub fn connect(config: Config) -> Result<Self> {
        let client = Self::lazy(config);
        client.whoami()?;
        Ok(client)
    }

    /// A client that connects with its first call.
    pub fn lazy(config: Config) -> Self {
        let engine = Engine::new(Blocking::new(), config);
        service::watch(&engine);
        let caller = engine.caller();
        let farewell = Farewell { caller: caller.clone(), workers: Workers::new() };
        Self { session: Arc::new(farewell), caller }
    }

    /// Ends the session now, for all clients and files that share it, and not with the last of them: what it holds is free for
    /// others when this returns. For a process that ends while threads of it may still hold some. A call after it begins a new session.
    pub fn leave(&self) {
        block_on(self.caller.engine().shut_down());
    }

    pub(super) fn caller(&self) -> &Caller<Blocking> {
        &self.caller
    }

    /// One time bound, that of [`Config::timeout`], for all that this thread asks of any client until it is dropped: for a gateway
    /// that makes several calls for one call of a program (I8). Where that is in vain, what is asked again in the next seconds
    /// within another bound fails at once, unless the server is back.
    pub fn bound(&self) -> Bound {
        Bound::begin(self.caller.engine().timeout())
    }

    /// A client that shares this one's connections and acts as somebody else. Only the holder of a client key
    /// may vouch for others.
    ///
    /// # Errors
    /// Too many identities.
    pub fn with_identity(&self, identity: Identity) -> Result<Self> {
        let caller = block_on(self.caller.with_identity(identity))?;
        Ok(Self { caller, session: Arc::clone(&self.session) })
    }

    /// A client that shares this one's connections and masks these bits out of the mode of what it makes, unless the directory's
    /// default access control list takes their place. Without it modes are taken as they are.
    #[must_use]
    pub fn with_umask(&self, umask: u32) -> Self {
        Self { caller: self.caller.with_umask(umask), session: Arc::clone(&self.session) }
    }

    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn open(&self, at: impl ToAt, options: &OpenOptions) -> Result<File> {
        let file = block_on(self.caller.open(&at.to_at(), options))?;
        File::new(file, Arc::clone(&self.session))
    }

    /// Opens a file, or makes it; tells whether this call made it.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create(&self, at: impl ToAt, options: &OpenOptions) -> Result<(File, bool)> {
        let (file, created) = block_on(self.caller.create(&at.to_at(), options))?;
        Ok((File::new(file, Arc::clone(&self.session))?, created))
    }

    /// Makes and opens a file as [`Client::create`] does; told as well is how the directory is now that it is in, if this call
    /// made it and this client holds leases.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create_told(
        &self,
        at: impl ToAt,
        options: &OpenOptions,
    ) -> Result<(File, Option<Attributes>)> {
        let (file, _, directory) = block_on(self.caller.create_told(&at.to_at(), options))?;
        Ok((File::new(file, Arc::clone(&self.session))?, directory))
    }

    /// Makes a file without a name, as if in the directory `at` (`O_TMPFILE`). It goes when it is closed, unless
    /// [`Client::hard_link`] from its index gave it a name.
    ///
    /// # Errors
    /// With the path, and the server that refused.
    pub fn create_unnamed(&self, at: impl ToAt, options: &OpenOptions) -> Result<File> {
        let file = block_on(self.caller.create_unnamed(&at.to_at(), options))?;
        File::new(file, Arc::clone(&self.session))
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// When it is not found. Later failures come with the entry.
    pub fn read_dir(&self, at: impl ToAt, with_attributes: bool) -> Result<Listing> {
        block_on(self.caller.read_dir(&at.to_at(), with_attributes)).map(Listing)
    }

    /// Lists a directory after the cookie of an entry of an earlier listing; 0 for the beginning.
    pub fn read_dir_from(&self, dir: FileIndex, cookie: u64, with_attributes: bool) -> Listing {
        Listing(self.caller.read_dir_from(
            dir,
            &format!("directory {dir}"),
            cookie,
            with_attributes,
        ))
    }

    /// Whether an owner may have something of a file locked. Asks nobody.
    pub fn has_locks(&self, file: FileIndex, owner: u64) -> bool {
        self.caller.has_locks(file, owner)
    }

    /// Notes that an owner has closed a file, before [`Client::unlock_owners`] lets go what it has of it: an owner of the same number
    /// that comes meanwhile waits for that. Asks nobody.
    pub fn owe_unlock(&self, file: FileIndex, space: LockSpace, owner: u64) {
        self.caller.owe_unlock(file, space, owner);
    }

    /// Tells the metadata server now which files were closed, instead of a little later.
    ///
    /// # Errors
    /// It is not reached.
    pub fn flush_closes(&self) -> Result<()> {
        block_on(self.caller.engine().flush_closes())
    }
}

macro_rules! blocking {
    ($( $(#[$doc:meta])* fn $name:ident[$($at:ident),*]($($arg:ident: $ty:ty),*) -> $ret:ty; )*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// With what failed, and the server that refused.
                pub fn $name(&self, $($at: impl ToAt,)* $($arg: $ty),*) -> Result<$ret> {
                    block_on(self.caller.$name($(&$at.to_at(),)* $($arg),*))
                }
            )*
        }
    };
}
namespace_calls!(blocking);
