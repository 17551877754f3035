//! PUTFH, PUTROOTFH, PUTPUBFH, GETFH. SAVEFH and RESTOREFH are methods of [`CompoundState`].

use std::sync::Arc;

use braid_nfs_wire::nfs4::args::PutFhArgs;
use braid_nfs_wire::nfs4::results::GetFhResult;
use braid_nfs_wire::nfs4::{FileHandle, NfsResult, NfsStatus};
use braid_share::Share;

use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node};
use crate::handle::HandleTarget;
use crate::server::NfsServer;

/// The file handle of a node.
pub fn handle_of<S: Share>(server: &NfsServer<S>, node: &Node) -> FileHandle {
    server.handles.encode(match node {
        Node::Pseudo(node) => HandleTarget::Pseudo { node: server.exports.pseudo(*node).number },
        Node::File(file) => HandleTarget::File { export: file.export.number(), file: file.file },
    })
}

/// PUTFH. RFC 8881 18.19. Whether the file still exists is found by the operation that uses it.
pub async fn put_fh<S: Share>(state: &mut CompoundState<'_, S>, args: PutFhArgs) -> NfsResult<()> {
    let server = state.server;
    let exports = &server.exports;
    let node = match server.handles.decode(&args.handle)? {
        HandleTarget::Pseudo { node } => {
            // The configuration may have changed since the client got the handle.
            let node = exports.pseudo_by_number(node).ok_or(NfsStatus::Stale)?;
            match exports.export_at(node) {
                // A directory that is exported since then, or for other addresses only.
                Some(_) => exports.enter(&server.share, node, state.caller.address).await?,
                None => Node::Pseudo(node),
            }
        }
        HandleTarget::File { export, file } => {
            let export = exports.by_number(export).ok_or(NfsStatus::Stale)?;
            if !export.allows_address(state.caller.address) {
                return Err(NfsStatus::Stale);
            }
            Node::File(ExportedFile { export: Arc::clone(export), file })
        }
    };
    state.set_current(node);
    Ok(())
}

/// PUTROOTFH and PUTPUBFH. RFC 8881 18.21 and 18.20.
pub async fn put_root_fh<S: Share>(state: &mut CompoundState<'_, S>) -> NfsResult<()> {
    let server = state.server;
    let node = server.exports.root(&server.share, state.caller.address).await?;
    state.set_current(node);
    Ok(())
}

/// GETFH. RFC 8881 18.8.
pub fn get_fh<S: Share>(state: &mut CompoundState<'_, S>) -> NfsResult<GetFhResult> {
    let handle = handle_of(state.server, state.current()?);
    Ok(GetFhResult { handle })
}
