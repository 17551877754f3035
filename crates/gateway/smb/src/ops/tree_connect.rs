//! TREE_CONNECT and TREE_DISCONNECT. MS-SMB2 3.3.5.7, 3.3.5.8.

use std::sync::Arc;

use braid_share::{FileIndex, FileKind, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::Empty;
use braid_smb_wire::smb2::tree_connect::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse,
};

use super::close::close_open;
use crate::config::{SHARE_NAME_UNITS_MAX, ShareConfig, same_name};
use crate::context::{Context, OpResult, Reply};
use crate::session::{Logon, Session};
use crate::status::failed;
use crate::tree::{Target, Tree};

/// All that an open of a file may be granted: FILE_ALL_ACCESS (MS-SMB2 2.2.13.1.1).
pub const ALL_ACCESS: u32 = 0x001f_01ff;
/// The rights that change nothing: to read, to execute, and to read attributes and the security
/// descriptor.
pub const READ_ACCESS: u32 = 0x0012_00a9;

/// Connects the session to a share.
pub async fn tree_connect<S: Share>(context: &Context<S>, request: TreeConnectRequest) -> OpResult {
    let session = context.session()?;
    let name = share_name(&request.path).ok_or(NtStatus::BAD_NETWORK_NAME)?;
    let (target, maximal_access) = if same_name(name, "IPC$") {
        (Target::Pipes, READ_ACCESS | 0x0000_0002)
    } else {
        let found = context.server.shares.find(name);
        let share = found.ok_or_else(|| no_share(context, name))?;
        // 3.3.5.7: a client that cannot encrypt would be refused everything later.
        if !may_use(session, share) || share.encrypt && !session.protection.can_encrypt() {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let root = root(context, share).await?;
        let access = if share.read_only { READ_ACCESS } else { ALL_ACCESS };
        (Target::Files { share: Arc::clone(share), root }, access)
    };
    let (share_type, mut flags) = match &target {
        Target::Pipes => (ShareType::PIPE, ShareFlags::NO_CACHING),
        Target::Files { .. } => (ShareType::DISK, ShareFlags::default()),
    };
    let mut capabilities = ShareCapabilities::default();
    // 3.3.5.7: each share is the root of a namespace, which all gateways have.
    if share_type == ShareType::DISK && context.server.gateways.is_dfs() {
        flags = flags.with(ShareFlags::DFS).with(ShareFlags::DFS_ROOT);
        capabilities = ShareCapabilities::DFS;
    }
    let tree = session.add_tree(&context.server.config.limits, |id| Tree {
        id,
        target,
        maximal_access,
    })?;
    if tree.requires_encryption() {
        flags = flags.with(ShareFlags::ENCRYPT_DATA);
    }
    let body = TreeConnectResponse { share_type, flags, capabilities, maximal_access };
    Ok(Reply { tree_id: Some(tree.id), ..Reply::new(&body) })
}

/// Ends the tree, and closes its opens.
pub async fn tree_disconnect<S: Share>(context: &Context<S>) -> OpResult {
    let session = context.session()?;
    let opens = session.remove_tree(context.tree()?.id).ok_or(NtStatus::NETWORK_NAME_DELETED)?;
    for open in opens {
        close_open(&context.server, session, &open).await;
    }
    Ok(Reply::new(&Empty))
}

/// The share of `\\server\share`. The server's name may be any: it has several.
fn share_name(path: &str) -> Option<&str> {
    let (server, share) = path.strip_prefix("\\\\")?.split_once('\\')?;
    (!server.is_empty() && !share.is_empty() && !share.contains('\\')).then_some(share)
}

fn may_use<S: Share>(session: &Session<S>, share: &ShareConfig) -> bool {
    if session.logon != Logon::User {
        return share.guests;
    }
    let user = &session.user;
    let named = |entry: &String| match entry.strip_prefix('@') {
        Some(group) => user.groups.iter().any(|own| own == group),
        None => same_name(entry, &user.name),
    };
    share.users.is_empty() || share.users.iter().any(named)
}

/// The status of a request for a share that there is not. The first of a connection is logged for
/// people.
fn no_share<S: Share>(context: &Context<S>, name: &str) -> NtStatus {
    let (peer, user) = (context.connection.peer(), context.session().map(|one| &one.user.name));
    let (user, name): (_, String) = (user.ok(), name.chars().take(SHARE_NAME_UNITS_MAX).collect());
    if context.connection.is_first_mistake() {
        tracing::warn!(
            %peer,
            user,
            "a client cannot use the share {name:?}: no share has this name; try: braid smb \
             --share NAME=PATH, or [[smb.share]] in braid.toml"
        );
    } else {
        tracing::debug!(%peer, user, name, "no share has this name");
    }
    NtStatus::BAD_NETWORK_NAME
}

/// The directory of a share. It is looked for as the gateway itself: a user may use a share below
/// directories that are closed to the user.
async fn root<S: Share>(context: &Context<S>, share: &ShareConfig) -> Result<FileIndex, NtStatus> {
    let client = context.server.share.own_client();
    let who = braid_share::Identity { uid: 0, gid: 0, groups: Vec::new(), checked: true };
    let ShareConfig { name: share, path, .. } = share;
    let mut directory = FileIndex::ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let found = match client.look_up(&who, directory, name.as_bytes()).await {
            Ok(found) => found,
            Err(error) => match failed(error) {
                NtStatus::OBJECT_NAME_NOT_FOUND => {
                    tracing::warn!(
                        "share {share} cannot be used: {path} does not exist; try: braid mkdir -p \
                         {path}"
                    );
                    return Err(NtStatus::BAD_NETWORK_NAME);
                }
                status => {
                    tracing::warn!(path, %status, "share {share} cannot be used");
                    return Err(status);
                }
            },
        };
        if found.kind != FileKind::Directory {
            tracing::warn!(
                "share {share} cannot be used: {path} is no directory; try: another path for it in \
                 braid.toml"
            );
            return Err(NtStatus::BAD_NETWORK_NAME);
        }
        directory = found.file;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_second_name_of_the_path() {
        assert_eq!(share_name("\\\\host\\data"), Some("data"));
        assert_eq!(share_name("\\\\::1\\IPC$"), Some("IPC$"));
        for path in ["", "\\", "data", "\\\\host", "\\\\host\\", "\\\\\\data", "\\\\h\\a\\b"] {
            assert_eq!(share_name(path), None, "{path}");
        }
    }
}
