//! Exports, and the pseudo file system that leads to them. RFC 8881 7.3.
//!
//! ```text
//!   exports /data/a and /data/b:      /          pseudo directory
//!                                     └ data     pseudo directory
//!                                       ├ a      directory of the file system, export 1
//!                                       └ b      directory of the file system, export 2
//! ```
//!
//! Invariants:
//! 1. Numbers of exports and pseudo directories are hashes of their paths, so handles are valid at
//!    all gateways with the same configuration, and after restarts.
//! 2. A file is reached through the export with the longest path: a lookup that arrives at the root
//!    of another export changes to that one.

mod pseudo;
mod squash;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use braid_nfs_wire::nfs4::{FsId, NfsResult, NfsStatus};
use braid_share::{FileIndex, FileSystemId, Identity, Share, ShareClient, Status};

pub use pseudo::{PseudoDirectory, PseudoEntry, PseudoNode};

use crate::config::{ConfigError, ExportConfig, NfsConfig, Security, Transport};
use crate::handle::{long_hash, short_hash};

/// The user that resolves paths of exports: root, whatever an export's callers may do.
pub(crate) const ROOT: Identity = Identity { uid: 0, gid: 0, groups: Vec::new(), checked: false };

/// An exported directory.
#[derive(Debug)]
pub struct Export {
    config: ExportConfig,
    number: u32,
    fsid: FsId,
    /// Its directory in the pseudo file system.
    node: PseudoNode,
    /// `node` and the directories of nested exports below it; empty if there are none.
    nested: OnceLock<Vec<PseudoNode>>,
}

impl Export {
    /// Its configuration.
    pub fn config(&self) -> &ExportConfig {
        &self.config
    }

    /// Its number in file handles.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The attribute `fsid` of all its files. Each export has its own, so that a client sees a
    /// mount point where its rights change.
    pub fn fsid(&self) -> FsId {
        self.fsid
    }

    /// The directory in the pseudo file system where clients find it.
    pub fn node(&self) -> PseudoNode {
        self.node
    }

    /// Whether clients at this address may use it.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        self.config.clients.iter().any(|range| range.contains(address))
    }

    /// Whether callers may use this security flavour; `None` is AUTH_NONE.
    pub fn allows_security(&self, security: Option<Security>) -> bool {
        security.is_some_and(|security| self.config.security.contains(&security))
    }

    /// Whether it may be used over a connection that is protected like this.
    pub fn allows_transport(&self, transport: Transport) -> bool {
        let modes = &self.config.transports;
        modes.is_empty() || transport.is_allowed_by(modes)
    }

    /// Whether a caller with this flavour gets layouts over such a connection. Data servers speak
    /// AUTH_SYS without TLS and accept every holder of a handle, so a layout would take the
    /// protection from a client that uses another flavour or TLS (ADR 0042).
    pub fn gives_layouts(&self, security: Option<Security>, transport: Transport) -> bool {
        let plain = security == Some(Security::Sys) && transport == Transport::Plain;
        self.config.pnfs && (plain || self.config.pnfs_plain)
    }

    /// The identity with which a caller acts; `None`: its own.
    pub fn squash(&self, caller: &Identity) -> Option<Identity> {
        squash::squash(&self.config, caller)
    }
}

/// What a file handle of this server names.
#[derive(Clone, Debug)]
pub enum Node {
    /// A directory of the pseudo file system.
    Pseudo(PseudoNode),
    /// A file of an export.
    File(ExportedFile),
}

/// A file, and the export through which the client reached it.
#[derive(Clone, Debug)]
pub struct ExportedFile {
    /// The export.
    pub export: Arc<Export>,
    /// The file.
    pub file: FileIndex,
}

/// All exports.
#[derive(Debug)]
pub struct Exports {
    exports: Vec<Arc<Export>>,
    by_number: HashMap<u32, usize>,
    pseudo: pseudo::PseudoTree,
}

impl Exports {
    /// The exports of a checked configuration.
    ///
    /// # Errors
    /// [`ConfigError`], also for mistakes that [`NfsConfig::check`] finds.
    pub fn new(config: &NfsConfig, file_system: FileSystemId) -> Result<Self, ConfigError> {
        config.check()?;
        let mut pseudo = pseudo::PseudoTree::new();
        let mut exports = Vec::new();
        let mut by_number = HashMap::new();
        for (index, export) in config.exports.iter().enumerate() {
            let number = short_hash(export.path.as_bytes());
            if let Some(other) = by_number.insert(number, index) {
                let other: &Arc<Export> = &exports[other];
                return Err(ConfigError::SameNumber(
                    other.config.path.clone(),
                    export.path.clone(),
                ));
            }
            let fsid =
                FsId { major: long_hash(&file_system.0), minor: long_hash(export.path.as_bytes()) };
            let node = pseudo.insert(&export.path, index);
            exports.push(Arc::new(Export {
                config: export.clone(),
                number,
                fsid,
                node,
                nested: OnceLock::new(),
            }));
        }
        for export in &exports {
            let below = pseudo.below(export.node);
            let nested = if below.len() > 1 { below } else { Vec::new() };
            export.nested.set(nested).expect("it is set here only");
        }
        Ok(Self { exports, by_number, pseudo })
    }

    /// All exports, in the order of the configuration.
    pub fn all(&self) -> &[Arc<Export>] {
        &self.exports
    }

    /// The export with a number of a file handle.
    pub fn by_number(&self, number: u32) -> Option<&Arc<Export>> {
        self.by_number.get(&number).map(|index| &self.exports[*index])
    }

    /// The pseudo directory with a number of a file handle.
    pub fn pseudo_by_number(&self, number: u64) -> Option<PseudoNode> {
        self.pseudo.by_number(number)
    }

    /// A directory of the pseudo file system.
    pub fn pseudo(&self, node: PseudoNode) -> &PseudoDirectory {
        self.pseudo.directory(node)
    }

    /// The export that a pseudo directory is, if it is one.
    pub fn export_at(&self, node: PseudoNode) -> Option<&Arc<Export>> {
        self.pseudo.directory(node).export.map(|index| &self.exports[index])
    }

    /// The root of the server's name space: the exported root directory, or a pseudo directory.
    ///
    /// # Errors
    /// As [`Exports::enter`].
    pub async fn root<S: Share>(&self, share: &S, address: IpAddr) -> Result<Node, NfsStatus> {
        self.enter(share, PseudoNode::ROOT, address).await
    }

    /// The node that clients see at a pseudo directory: the exported directory if it is one.
    ///
    /// # Errors
    /// `ACCESS` if the address may not use the export; `NOENT` while the exported directory does
    /// not exist, `DELAY` while the metadata server is not reachable.
    pub async fn enter<S: Share>(
        &self,
        share: &S,
        node: PseudoNode,
        address: IpAddr,
    ) -> Result<Node, NfsStatus> {
        let Some(export) = self.export_at(node) else { return Ok(Node::Pseudo(node)) };
        if !export.allows_address(address) {
            // RFC 8881 7.3: directories above a nested export can still be passed.
            if self.pseudo(node).has_children() {
                return Ok(Node::Pseudo(node));
            }
            return Err(NfsStatus::Access);
        }
        match self.resolve(share, export).await {
            Ok(file) => Ok(Node::File(ExportedFile { export: Arc::clone(export), file })),
            Err(status) => {
                let path = &export.config.path;
                tracing::warn!(%path, %status, "an exported directory cannot be reached");
                Err(match status {
                    Status::NotFound | Status::NotDirectory => NfsStatus::NoEnt,
                    _ => NfsStatus::Delay,
                })
            }
        }
    }

    /// Finds an exported directory.
    ///
    /// # Errors
    /// Those of the share; `NotDirectory` if a component of the path is no directory.
    pub async fn resolve<S: Share>(&self, share: &S, export: &Export) -> Result<FileIndex, Status> {
        let client = share.own_client();
        let (mut file, mut node) = (FileIndex::ROOT, PseudoNode::ROOT);
        for name in export.config.path.split('/').filter(|name| !name.is_empty()) {
            let found = client.look_up(&ROOT, file, name.as_bytes()).await;
            file = found.map_err(|error| error.status())?.file;
            node = self.pseudo(node).child(name.as_bytes()).expect("inserted with the export");
            self.pseudo(node).set_file(file);
        }
        Ok(file)
    }

    /// Whether `file` is the directory of `export`, as it was last looked up.
    pub fn is_known_root(&self, export: &Export, file: FileIndex) -> bool {
        self.pseudo(export.node).is(file)
    }

    /// Whether `file` is the directory of `export`; looks it up if that was never done.
    ///
    /// # Errors
    /// As [`Exports::resolve`], where the directory was not found yet.
    pub async fn is_root<S: Share>(
        &self,
        share: &S,
        export: &Export,
        file: FileIndex,
    ) -> Result<bool, Status> {
        if !self.pseudo(export.node).is_known() {
            self.resolve(share, export).await?;
        }
        Ok(self.is_known_root(export, file))
    }

    /// The file that a lookup of `name` in `dir` arrives at, when the share found `file`: through
    /// another export if its path is that of one (invariant 2).
    ///
    /// # Errors
    /// `ACCESS` if the address may not use that export.
    pub fn cross(
        &self,
        dir: &ExportedFile,
        name: &[u8],
        file: FileIndex,
        address: IpAddr,
    ) -> NfsResult<ExportedFile> {
        let mut export = &dir.export;
        let nested = export.nested.get().map_or(&[][..], |nested| nested);
        // Every lookup that leads to a nested export passes here, so all directories above it are
        // known when the client arrives.
        let parent = nested.iter().find(|node| self.pseudo(**node).is(dir.file));
        if let Some(child) = parent.and_then(|parent| self.pseudo(*parent).child(name)) {
            self.pseudo(child).set_file(file);
            if let Some(other) = self.export_at(child) {
                if !other.allows_address(address) {
                    return Err(NfsStatus::Access);
                }
                export = other;
            }
        }
        Ok(ExportedFile { export: Arc::clone(export), file })
    }

    /// The export that has a directory of the pseudo file system: at it, or the nearest one above.
    pub fn around(&self, mut node: PseudoNode) -> Option<&Arc<Export>> {
        loop {
            if let Some(export) = self.export_at(node) {
                return Some(export);
            }
            node = self.pseudo(node).parent?;
        }
    }

    /// The directory above the root of an export: of the export around it, or a pseudo directory.
    /// `None` at the root of the server's name space.
    pub fn above(&self, export: &Export) -> Option<PseudoNode> {
        self.pseudo(export.node).parent
    }

    /// Security flavours that SECINFO reports for a pseudo directory: those of all exports, since
    /// the way to each of them leads through it. RFC 8881 7.7.
    pub fn pseudo_security(&self) -> Vec<Security> {
        let mut all = Vec::new();
        for security in self.exports.iter().flat_map(|export| &export.config.security) {
            if !all.contains(security) {
                all.push(*security);
            }
        }
        all
    }
}
