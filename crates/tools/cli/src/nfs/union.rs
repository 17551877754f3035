//! The NFS gateway of a union (docs/union.md, "NFS").

use braid_client::settings::NfsSection;
use braid_nfs::NfsConfig;
use braid_union_share::UnionShare;
use tokio::sync::watch;

use super::protection;
use super::{Gateway, LISTEN_DEFAULT};
use super::{addresses, begin, export, mount_options, own_host_export, parse_exports};
use crate::{connect, output::Fault};

/// Serves a union on an address. Without exports, this host gets all of it.
pub fn start(share: UnionShare, listen: &str, exports: &[String]) -> Result<Gateway, Fault> {
    let mut section = NfsSection { listen: vec![listen.to_owned()], ..NfsSection::default() };
    section.exports = match exports {
        [] => vec![own_host_export()],
        given => parse_exports(given)?,
    };
    let mut configs = section.exports.iter().map(export).collect::<Result<Vec<_>, _>>()?;
    // A union has no data servers.
    configs.iter_mut().for_each(|config| config.pnfs = false);
    let protected = protection::start(&section, &configs)?;
    let listen = addresses(&section.listen, LISTEN_DEFAULT)?;
    let owner = format!("{} {}", connect::host(), listen[0]);
    let mut nfs = NfsConfig::new(owner, share.handle_key());
    let options = configs.first().map(mount_options).unwrap_or_default();
    let exports = configs.iter().map(|config| config.path.clone()).collect();
    nfs.exports = configs;
    nfs.users = protection::user_database();
    nfs.check().map_err(|why| Fault::usage("reading the NFS exports", why.to_string()))?;
    let gateway = Gateway {
        addresses: Vec::new(),
        exports,
        missing: Vec::new(),
        host: protected.host,
        options,
        notes: protected.notes,
        stop: watch::channel(false).0,
        thread: None,
    };
    gateway.serve(async move || begin(share, nfs, protected.protection, &listen).await)
}
