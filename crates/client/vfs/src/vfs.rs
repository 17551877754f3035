//! The mount as its gateway sees it.

use std::sync::Arc;

use braid_client::{Attributes, Client};

use crate::{
    error::Result,
    files::{Files, OpenFile},
    handles::{FileHandle, Handles},
    known::Known,
    ops::directory::OpenDirectory,
    users::Users,
};

/// A mounted file system. Its operations are in `ops`, one a file.
///
/// ```no_run
/// use braid_client::{Client, Config, Credential};
/// use braid_vfs::{Access, FileIndex, Looked, Vfs};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect(Config::new(["mds:7000"], Credential::from_key_file("/etc/braid/client.key")?))?;
/// let vfs = Vfs::new(client)?;
/// if let Looked::Found(known) = vfs.look_up(FileIndex::ROOT, b"results")? {
///     let opened = vfs.open(known.attributes.file, Access::READ)?;
///     let mut buffer = vec![0; 4096];
///     let bytes = vfs.read(opened.handle, 0, &mut buffer)?;
///     vfs.release(opened.handle, None)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Vfs {
    pub(crate) users: Users,
    pub(crate) open_files: Handles<OpenFile>,
    pub(crate) open_directories: Handles<OpenDirectory>,
    pub(crate) files: Arc<Files>,
}

impl Vfs {
    /// A mount over a client. One that may vouch for users (a host's key) makes files in their names; any other does
    /// everything in its own.
    ///
    /// # Errors
    /// The metadata server is not reached.
    pub fn new(client: Client) -> Result<Self> {
        Ok(Self {
            users: Users::new(client)?,
            open_files: Handles::default(),
            open_directories: Handles::default(),
            files: Arc::default(),
        })
    }

    pub(crate) fn client(&self) -> &Client {
        self.users.root()
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.open_files.find(handle.0)
    }

    /// Attributes that came from the metadata server just now.
    pub(crate) fn seen(&self, attributes: Attributes) -> Known {
        self.files.see(&attributes);
        Known::now(attributes)
    }
}
