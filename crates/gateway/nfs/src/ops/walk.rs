//! From a directory to a name in it, and to the directory above: across exports and the pseudo file
//! system. LOOKUP, LOOKUPP, SECINFO and SECINFO_NO_NAME use it.

use std::sync::Arc;

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus};
use braid_share::{FileIndex, Share, ShareClient, Status};

use crate::compound::CompoundState;
use crate::export::{ExportedFile, Node};
use crate::status::nfs_status;

/// Most directories between a file and the root of its export that [`parent`] follows.
const DEPTH_MAX: usize = 1024;

/// What `name` is in the current directory. The caller has checked the name.
///
/// # Errors
/// `NOFILEHANDLE`, `NOENT`, `NOTDIR`, `ACCESS`, and others of the share.
pub async fn child<S: Share>(state: &CompoundState<'_, S>, name: &[u8]) -> NfsResult<Node> {
    let server = state.server;
    let address = state.caller.address;
    match state.current()? {
        Node::Pseudo(node) => {
            let child = server.exports.pseudo(*node).child(name).ok_or(NfsStatus::NoEnt)?;
            server.exports.enter(&server.share, child, address).await
        }
        Node::File(dir) => {
            let found = state.share_client()?.look_up(state.who(), dir.file, name).await;
            let found = found.map_err(|error| nfs_status(error.status()))?;
            let file = found.file;
            state.note_attributes(found);
            server.exports.cross(dir, name, file, address).map(Node::File)
        }
    }
}

/// The directory above the current one.
///
/// # Errors
/// `NOFILEHANDLE`; `NOENT` at the root of the server's name space; `NOTDIR` for other files;
/// `STALE` if the directory is no longer below the export through which it was reached.
pub async fn parent<S: Share>(state: &CompoundState<'_, S>) -> NfsResult<Node> {
    let exports = &state.server.exports;
    let file = match state.current()? {
        // RFC 8881 18.14.3.
        Node::Pseudo(node) => {
            let above = exports.pseudo(*node).parent.ok_or(NfsStatus::NoEnt)?;
            let server = state.server;
            return exports.enter(&server.share, above, state.caller.address).await;
        }
        Node::File(file) => file,
    };
    let found = state.share_client()?.parent(state.who(), file.file).await;
    let above = found.map_err(|error| nfs_status(error.status()))?.file;
    if !is_root(state, file, file.file).await? {
        check_inside(state, file, above).await?;
        return Ok(Node::File(ExportedFile { export: Arc::clone(&file.export), file: above }));
    }
    let node = exports.above(&file.export).ok_or(NfsStatus::NoEnt)?;
    match exports.around(node) {
        // A nested export: the directory above is one of the export around it.
        Some(export) if export.allows_address(state.caller.address) => {
            Ok(Node::File(ExportedFile { export: Arc::clone(export), file: above }))
        }
        _ => Ok(Node::Pseudo(node)),
    }
}

async fn is_root<S: Share>(
    state: &CompoundState<'_, S>,
    reached: &ExportedFile,
    file: FileIndex,
) -> NfsResult<bool> {
    let server = state.server;
    let root = server.exports.is_root(&server.share, &reached.export, file).await;
    root.map_err(|status| match status {
        Status::NotFound | Status::NotDirectory => NfsStatus::Stale,
        other => nfs_status(other),
    })
}

/// Checks that `dir` is still below the export of `reached`: somebody may have moved a directory
/// out of it, and its parents must not be reached through the export.
async fn check_inside<S: Share>(
    state: &CompoundState<'_, S>,
    reached: &ExportedFile,
    dir: FileIndex,
) -> NfsResult<()> {
    if reached.export.config().path == "/" {
        return Ok(());
    }
    let own = state.server.share.own_client();
    let mut dir = dir;
    for _ in 0..DEPTH_MAX {
        if is_root(state, reached, dir).await? {
            return Ok(());
        }
        if dir == FileIndex::ROOT {
            return Err(NfsStatus::Stale);
        }
        let above = own.parent(&crate::export::ROOT, dir).await;
        dir = above.map_err(|error| nfs_status(error.status()))?.file;
    }
    Err(NfsStatus::ServerFault)
}
