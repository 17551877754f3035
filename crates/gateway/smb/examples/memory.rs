//! Serves a file system in memory as the share `share`, for suites and clients that need no
//! cluster: `cargo run --example memory -- 127.0.0.1:4450 smbt pw 1000`. The last argument is the
//! uid; without it the user is root, whom no permission stops.

use std::sync::Arc;

use braid_share::memory::MemoryShare;
use braid_share::{AttributeChanges, FileIndex, Identity, Share, ShareClient};
use braid_smb::{Listener, NoUser, ShareConfig, SmbConfig, SmbServer, User, Users};
use braid_smb_wire::auth::ntlm::{NtHash, nt_hash};
use tokio::sync::watch;

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:4450".to_owned());
    let name = arguments.next().unwrap_or_else(|| "smbt".to_owned());
    let hash = nt_hash(&arguments.next().unwrap_or_else(|| "pw".to_owned()));
    let uid = arguments.next().map_or(Ok(0), |uid| uid.parse())?;
    let mut config = SmbConfig::new("MEMORY", Arc::new(One { name, hash, uid }));
    config.shares = vec![ShareConfig::new("share", "/")];
    let share = MemoryShare::new();
    let changes = AttributeChanges { uid: Some(uid), ..AttributeChanges::none() };
    share.own_client().set_attributes(&Identity::root(), FileIndex::ROOT, changes).await?;
    let server = SmbServer::new(share, config)?;
    let listener = Listener::bind(address.parse()?).await?;
    println!("{}", listener.address());
    let (_stop, stopped) = watch::channel(false);
    listener.serve(server, stopped).await;
    Ok(())
}
