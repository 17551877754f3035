//! A server of a file system in memory, on a port of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};

use braid_share::memory::MemoryShare;
use braid_share::{AttributeChanges, FileIndex, Identity, Share, ShareClient};
use braid_smb::{Listener, NoUser, ShareConfig, SmbConfig, SmbServer, User, Users};
use braid_smb_wire::auth::ntlm::{NtHash, nt_hash};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The password of the users `alice` and `bob`.
pub const PASSWORD: &str = "a password";

/// The log of all servers of this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Adds to it.
struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines of the log for operators that contain a text.
pub fn logged(text: &str) -> Vec<String> {
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[derive(Debug)]
struct Two;

impl Users for Two {
    fn user(&self, name: &str) -> Result<(NtHash, User), NoUser> {
        let mut known = ["alice", "bob"].into_iter().zip(1000..);
        let found = known.find(|(known, _)| name.eq_ignore_ascii_case(known));
        let (name, id) = found.ok_or(NoUser::Unknown)?;
        Ok((nt_hash(PASSWORD), user(name, id)))
    }

    fn guest(&self) -> User {
        user("nobody", 65_534)
    }
}

fn user(name: &str, id: u64) -> User {
    let identity = Identity { uid: id, gid: id, groups: Vec::new(), checked: false };
    User { name: name.to_owned(), identity, groups: Vec::new() }
}

/// A server with the shares `data`, and `secret`, which is encrypted. It ends when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub share: MemoryShare,
    _stop: watch::Sender<bool>,
    _runtime: Runtime,
}

impl Server {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server whose shares have guests.
    pub fn with_guests() -> Self {
        Self::with(|config| {
            config.shares.push(ShareConfig { guests: true, ..ShareConfig::new("open", "/") });
        })
    }

    /// A server whose configuration is changed first.
    pub fn with(change: impl FnOnce(&mut SmbConfig)) -> Self {
        Self::at(0, |config, _| change(config))
    }

    /// A server at this port, or at a free one if it is 0. The change gets its address.
    pub fn at(port: u16, change: impl FnOnce(&mut SmbConfig, SocketAddr)) -> Self {
        static LOGGING: Once = Once::new();
        LOGGING.call_once(|| {
            let log = tracing_subscriber::fmt().with_ansi(false).with_writer(|| ToLog);
            log.with_max_level(tracing::Level::INFO).init();
        });
        let mut config = SmbConfig::new("SERVER", Arc::new(Two));
        let secret = ShareConfig { encrypt: true, ..ShareConfig::new("secret", "/") };
        config.shares = vec![ShareConfig::new("data", "/"), secret];
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(Listener::bind(([127, 0, 0, 1], port).into())).unwrap();
        let address = listener.address();
        change(&mut config, address);
        let (stop, stopped) = watch::channel(false);
        let share = MemoryShare::new();
        runtime.block_on(async {
            // Everybody may change the root directory.
            let changes = AttributeChanges { mode: Some(0o777), ..AttributeChanges::default() };
            let (root, top) = (Identity::root(), FileIndex::ROOT);
            share.own_client().set_attributes(&root, top, changes).await.unwrap();
            let server = SmbServer::new(share.clone(), config).unwrap();
            tokio::spawn(listener.serve(server, stopped));
        });
        Self { address, share, _stop: stop, _runtime: runtime }
    }
}
