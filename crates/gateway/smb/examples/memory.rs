//! Serves a file system in memory as the share `share`, for suites and clients that need no
//! cluster: `cargo run --example memory -- 127.0.0.1:4450 smbt pw 1000`. The last argument is the
//! uid; without it the user is root, whom no permission stops.
//!
//! With several addresses, `127.0.0.14:445,127.0.0.15:445`, each is a gateway of its own with the
//! same files, and the share is in DFS. A line `stop 0` on standard input ends the first one, with
//! its connections; `start 0` starts it again.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_share::memory::MemoryShare;
use braid_share::{AttributeChanges, FileIndex, Identity, Share, ShareClient};
use braid_smb::{Listener, NoUser, ShareConfig, SmbConfig, SmbServer, StartError, User, Users};
use braid_smb_wire::auth::ntlm::{NtHash, nt_hash};
use tokio::sync::{mpsc, watch};

#[derive(Debug)]
struct One {
    name: String,
    hash: NtHash,
    uid: u64,
}

impl Users for One {
    fn user(&self, name: &str) -> Result<(NtHash, User), NoUser> {
        match name.eq_ignore_ascii_case(&self.name) {
            true => Ok((self.hash.clone(), user(&self.name, self.uid))),
            false => Err(NoUser::Unknown),
        }
    }

    fn guest(&self) -> User {
        user("nobody", 65534)
    }
}

fn user(name: &str, id: u64) -> User {
    let identity = Identity { uid: id, gid: id, groups: Vec::new(), checked: false };
    User { name: name.to_owned(), identity, groups: Vec::new() }
}

type Server = Arc<SmbServer<MemoryShare>>;

/// A gateway that serves until the sender is dropped.
async fn start(server: Server, address: SocketAddr) -> Result<watch::Sender<bool>, StartError> {
    let listener = Listener::bind(address).await?;
    println!("{}", listener.address());
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(listener.serve(server, stopped));
    Ok(stop)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
    let mut arguments = std::env::args().skip(1);
    let addresses = arguments.next().unwrap_or_else(|| "127.0.0.1:4450".to_owned());
    let name = arguments.next().unwrap_or_else(|| "smbt".to_owned());
    let hash = nt_hash(&arguments.next().unwrap_or_else(|| "pw".to_owned()));
    let uid = arguments.next().map_or(Ok(0), |uid| uid.parse())?;
    let mut config = SmbConfig::new("MEMORY", Arc::new(One { name, hash, uid }));
    config.shares = vec![ShareConfig::new("share", "/")];
    let addresses: Vec<&str> = addresses.split(',').collect();
    if addresses.len() > 1 {
        config.gateways = addresses.iter().map(|address| (*address).to_owned()).collect();
    }
    let share = MemoryShare::new();
    let changes = AttributeChanges { uid: Some(uid), ..AttributeChanges::none() };
    share.own_client().set_attributes(&Identity::root(), FileIndex::ROOT, changes).await?;
    let mut running = Vec::new();
    for address in &addresses {
        let server = SmbServer::new(share.clone(), config.clone())?;
        running.push(Some(start(server, address.parse()?).await?));
    }
    let (send, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).all(|line| send.send(line).is_ok())
    });
    while let Some(line) = lines.recv().await {
        let (verb, index) = line.split_once(' ').unwrap_or((&line, "0"));
        let index: usize = index.parse()?;
        match (verb, running.get_mut(index)) {
            ("stop", Some(gateway)) => *gateway = None,
            ("start", Some(gateway)) => {
                let server = SmbServer::new(share.clone(), config.clone())?;
                *gateway = Some(start(server, addresses[index].parse()?).await?);
            }
            _ => eprintln!("stop N or start N, the first gateway being 0"),
        }
    }
    std::future::pending().await
}
